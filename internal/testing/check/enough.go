package check

import "fmt"

// The smallest allowed shares, as 1 in n: of calls for numbers that were answered, and of answers of
// strict biz types that were compared with all nodes. On a busy machine, callers give up early.
const (
	leastAnswered = 5
	leastCompared = 2
)

// fewAnswers is the number of answers of strict biz types up to which their share is not checked.
const fewAnswers = 1000

// checkEnough requires that a complete run is significant, because a seqd that never answers breaks
// no other rule. Every node, biz type and protocol must have issued numbers, there must have been
// faults, a fifth of the calls must have been answered, and order over nodes must have been suspended
// for less than half of the answers. These limits are far below what a run reaches. They are not
// promises of seqd. A script has no duration, so the rule is skipped for it.
func (h *evidence) checkEnough(r *Report) {
	if !h.done || h.world.Duration == 0 {
		return
	}
	asked := 0
	nodes, bizTypes, protocols := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	for i := range h.calls {
		c := &h.calls[i]
		if !intended[c.code] {
			asked++
		}
		if c.answered() && (len(c.runs) > 0 || len(c.texts) > 0) {
			nodes[c.node], bizTypes[c.bizType.Name], protocols[c.proto] = true, true, true
		}
	}
	little := func(format string, args ...any) {
		h.fail(r, RuleRecord, "", 1, h.end, fmt.Sprintf(format, args...)+": the run shows too little")
	}
	for _, node := range h.world.Nodes {
		if !nodes[node] {
			little("%s issued no number", node)
		}
	}
	for _, b := range h.world.BizTypes {
		if !bizTypes[b.Name] {
			little("no number of %s was issued", b.Name)
		}
	}
	for _, p := range h.world.Protocols {
		if !protocols[p] {
			little("no number was issued by %s", p)
		}
	}
	if len(h.faults) == 0 {
		little("there was no fault")
	}
	if r.Answered*leastAnswered < asked {
		little("%d of %d calls were answered", r.Answered, asked)
	}
}

// checkShare is the part of checkEnough that needs the results of the rules of order.
func (h *evidence) checkShare(r *Report) {
	if h.done && h.world.Duration > 0 && r.Ordered >= fewAnswers && r.Suspended*leastCompared > r.Ordered {
		h.fail(r, RuleRecord, "", 1, h.end, fmt.Sprintf("order over nodes was suspended for %d of %d answers: the run shows too little", r.Suspended, r.Ordered))
	}
}

// checkFindings counts the findings of the laboratory itself: a node that ended by itself, failed
// when it was stopped, or was not ready after the last fault.
func (h *evidence) checkFindings(r *Report) {
	for _, f := range h.findings {
		h.fail(r, RuleProcess, "", 1, f.At, f.Text)
	}
}
