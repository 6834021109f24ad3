package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seqd/seqd/integration/chaos/record"
)

// checkOrder applies the rules of order to each counter: within a call, per process, per node and
// over all nodes.
func (h *history) checkOrder(r *Report, issues []issue) {
	byCounter := make(map[counter][]*issue)
	for i := range issues {
		if !issues[i].bizType.opaque() && len(issues[i].runs) > 0 {
			byCounter[issues[i].counter()] = append(byCounter[issues[i].counter()], &issues[i])
		}
	}
	for c, all := range byCounter {
		// also where what the load does to a biz type suspends everything else
		h.checkInCall(r, all)
		if c.bizType.NoOrder {
			continue
		}
		h.checkPerProcess(r, all)
		switch c.bizType.Ordering {
		case record.PerNode:
			h.checkPerNode(r, all)
		case record.Strict:
			h.checkOverNodes(r, c, all)
		}
	}
}

// checkInCall demands that the numbers of one answer increase (DESIGN §2: "increasing"; a batch is
// one call, and a caller's number its first plus an index). Nothing excuses it.
func (h *history) checkInCall(r *Report, all []*issue) {
	for _, i := range all {
		for n := 1; n < len(i.runs); n++ {
			if i.runs[n].First <= i.runs[n-1].Last() {
				h.fail(r, RuleOrderInCall, i.bizType.Name, 1, i.end, fmt.Sprintf("%d comes after %d in one answer", i.runs[n].First, i.runs[n-1].Last()), i.call)
				break
			}
		}
	}
}

// process is one life of a node.
type process struct {
	node string
	life int
}

// checkPerProcess demands that a call that starts after another one of the same process and counter
// ended gets only larger numbers (DESIGN §2 "Order per process always holds", §4 "not below the
// last one"). Nothing excuses it. Answers to a key that was used in several calls count for no
// process: another one may have issued them.
func (h *history) checkPerProcess(r *Report, all []*issue) {
	parts := make(map[process][]*issue)
	for _, i := range all {
		if i.alone && i.life > 0 {
			p := process{i.node, i.life}
			parts[p] = append(parts[p], i)
		}
	}
	for _, part := range parts {
		h.sweepOrder(r, RuleOrderProcess, part, never)
	}
}

// checkPerNode demands the same of all processes of a node together where the ordering is per-node
// (DESIGN §2 "increasing per node"): what a process leaves is given back to the store only while
// nothing above it has left the store.
func (h *history) checkPerNode(r *Report, all []*issue) {
	parts := make(map[string][]*issue)
	for _, i := range all {
		if i.alone {
			parts[i.node] = append(parts[i.node], i)
		}
	}
	for _, part := range parts {
		h.sweepOrder(r, RuleOrderNode, part, never)
	}
}

// checkOverNodes demands that a call that starts after another one ended, on whichever node, gets
// only larger numbers (DESIGN §2: "strictly increasing over all nodes and linearizable"; "after a
// loss it continues higher"; docs/CLUSTER.md). A call that touches a time in which order is
// suspended (see suspended) is excused; it is not excused for those that start after it.
func (h *history) checkOverNodes(r *Report, c counter, all []*issue) {
	owns, splits := h.owns(c.bizType), h.splits()
	because := h.suspended(c.bizType, all, owns, splits)
	var windows []window
	for _, w := range because {
		windows = append(windows, w...)
	}
	windows = merge(windows)
	r.Ordered += len(all)
	for _, i := range all {
		if !touches(windows, i.start, i.end) {
			continue
		}
		r.Suspended++
		for reason, w := range because {
			if touches(w, i.start, i.end) {
				r.SuspendedBy[reason]++
			}
		}
	}
	suspended := func(i *issue) bool { return touches(windows, i.start, i.end) }
	h.sweepOrder(r, RuleOrderNodes, all, suspended)
	var several []window // cursors, or none
	for _, reason := range []string{twoPrimaries, twoServers, otherOrdering} {
		several = append(several, because[reason]...)
	}
	several = merge(several)
	h.checkCursor(r, all, owns, func(i *issue) bool { return !suspended(i) || touches(several, i.start, i.end) })
}

// checkCursor demands that calls of processes that are not on their own are in order among
// themselves while others are: all take from one cursor, which only goes up. The documentation
// promises less; the protocol keeps it, as its model checks (integration/model). Two primaries
// suspend it, and so do two servers and another ordering. Those that checkOverNodes has not excused
// are excused here.
func (h *history) checkCursor(r *Report, all []*issue, owns []own, excused func(*issue) bool) {
	byProcess := make(map[process][]window)
	for _, o := range owns {
		byProcess[o.process] = append(byProcess[o.process], o.window)
	}
	for p, windows := range byProcess {
		byProcess[p] = merge(windows)
	}
	var taken []*issue
	for _, i := range all {
		if i.alone && i.life > 0 && !touches(byProcess[process{i.node, i.life}], i.start, i.end) {
			taken = append(taken, i)
		}
	}
	for _, i := range taken {
		if !excused(i) {
			r.Cursor++
		}
	}
	h.sweepOrder(r, RuleOrderCursor, taken, excused)
}

// never excuses nothing.
func never(*issue) bool { return false }

// sweepOrder compares each answer that is not excused, by its start, with the highest number of
// those that had ended before it. all are by start.
func (h *history) sweepOrder(r *Report, rule string, all []*issue, excused func(*issue) bool) {
	byEnd := slices.Clone(all)
	slices.SortFunc(byEnd, func(a, b *issue) int { return cmp.Compare(a.end, b.end) })
	var highest *issue
	ended := 0
	for _, i := range all {
		for ; ended < len(byEnd) && byEnd[ended].end < i.start; ended++ {
			if highest == nil || byEnd[ended].high > highest.high {
				highest = byEnd[ended]
			}
		}
		if highest == nil || i.low > highest.high || excused(i) {
			continue
		}
		text := fmt.Sprintf("%d was issued by a call that started %s s after one with %d had ended", i.low, seconds(i.start-highest.end), highest.high)
		h.fail(r, rule, i.bizType.Name, 1, i.end, text, highest.firstEnding, i.call)
	}
}
