package check

import "fmt"

// leastAnswered is the smallest allowed share, as 1 in n, of the calls for numbers that were answered
// while there was no fault. It is not checked for fewAsked calls or less.
const (
	leastAnswered = 5
	fewAsked      = 100
)

// manyCalls is how many calls a run must have before every biz type and every protocol is asked for.
// The rarest ones make one call of a hundred.
const manyCalls = 2000

// Of manyOrdered answers of strict biz types or more, leastCompared must have been compared with all
// nodes.
const (
	manyOrdered   = 1000
	leastCompared = 100
)

// checkEnough requires that a complete run is significant, because a seqd that never answers breaks
// no other rule. Every node must have issued numbers, in a long run also every biz type, and by
// every protocol. There must have been faults, calls must have been answered while there was none, and
// order over nodes must have been checked. The slower the machine, the longer a fault lasts and the
// more calls it ends. So no limit is a share of the whole run. These limits are far below what a run
// reaches. They are not promises of seqd. A script has no duration, so the rule is skipped for it. It
// needs what checkOrder and availability found.
func (h *evidence) checkEnough(r *Report) {
	if !h.done || h.world.Duration == 0 {
		return
	}
	nodes, bizTypes, protocols := make(map[string]bool), make(map[string]bool), make(map[string]bool)
	// A biz type may be disabled at each call, or stay deleted after a restore.
	absent := make(map[string]bool)
	for i := range h.calls {
		c := &h.calls[i]
		if c.code == "disabled" || c.code == "unknown_biz_type" {
			absent[c.bizType.Name] = true
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
	long := len(h.calls) >= manyCalls
	for _, b := range h.world.BizTypes {
		if long && !bizTypes[b.Name] && !absent[b.Name] {
			little("no number of %s was issued", b.Name)
		}
	}
	for _, p := range h.world.Protocols {
		if long && !protocols[p] {
			little("no number was issued by %s", p)
		}
	}
	if len(h.faults) == 0 {
		little("there was no fault")
	}
	for _, a := range r.ByClass {
		if a.Class == NoFault && a.Asked > fewAsked && a.Answered*leastAnswered < a.Asked {
			little("%d of %d calls without a fault were answered", a.Answered, a.Asked)
		}
	}
	if compared := r.Ordered - r.Suspended; r.Ordered >= manyOrdered && compared < leastCompared {
		little("order over nodes was checked for %d of %d answers", compared, r.Ordered)
	}
}

// checkFindings counts the findings of the laboratory itself: a node that ended by itself, failed
// when it was stopped, or was not ready after the last fault.
func (h *evidence) checkFindings(r *Report) {
	for _, f := range h.findings {
		h.fail(r, RuleProcess, "", 1, f.At, f.Text)
	}
}
