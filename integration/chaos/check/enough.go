package check

import "fmt"

// leastShare is the share of the calls for numbers that a run must have answered, and of the
// answers of strict biz types that must have been held against all nodes, one of so many.
const leastShare = 2

// fewAnswers is how many answers of strict biz types say nothing of their share yet.
const fewAnswers = 1000

// checkEnough demands that a run that came to its end shows something: a seqd that answers nobody
// breaks no other rule. Every node and every biz type has given numbers, something was broken, half
// of the calls were answered, and order over nodes was suspended for less than half of the answers.
// These are floors far below what a run reaches, no promises of seqd. A world without a length is
// not one of the laboratory, which refuses that.
func (h *history) checkEnough(r *Report) {
	if !h.done || h.world.Duration == 0 {
		return
	}
	asked := 0
	nodes, bizTypes := make(map[string]bool), make(map[string]bool)
	for i := range h.calls {
		c := &h.calls[i]
		if !intended[c.code] {
			asked++
		}
		if c.answered() && (len(c.runs) > 0 || len(c.texts) > 0) {
			nodes[c.node], bizTypes[c.bizType.Name] = true, true
		}
	}
	little := func(format string, args ...any) {
		h.fail(r, RuleRecord, "", 1, h.end, fmt.Sprintf(format, args...)+": the run shows too little")
	}
	for _, node := range h.world.Nodes {
		if !nodes[node] {
			little("%s gave no number", node)
		}
	}
	for _, b := range h.world.BizTypes {
		if !bizTypes[b.Name] {
			little("nobody got a number of %s", b.Name)
		}
	}
	if len(h.faults) == 0 {
		little("there was no fault")
	}
	if r.Answered*leastShare < asked {
		little("%d of %d calls were answered", r.Answered, asked)
	}
}

// checkShare is the part of checkEnough that is known when order has been checked.
func (h *history) checkShare(r *Report) {
	if h.done && h.world.Duration > 0 && r.Ordered >= fewAnswers && r.Suspended*leastShare > r.Ordered {
		h.fail(r, RuleRecord, "", 1, h.end, fmt.Sprintf("order over nodes was suspended for %d of %d answers: the run shows too little", r.Suspended, r.Ordered))
	}
}

// checkFindings counts what the laboratory itself saw: a node that ended by itself, did not end
// well when it was asked to, or was not ready after the last fault.
func (h *history) checkFindings(r *Report) {
	for _, f := range h.findings {
		h.fail(r, RuleProcess, "", 1, f.At, f.Text)
	}
}
