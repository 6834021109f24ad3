package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seqd/seqd/internal/testing/record"
)

// checkOrder applies the rules of order to each counter: within a call, per process, per node and
// over all nodes.
func (h *evidence) checkOrder(r *Report, issues []issue) {
	byCounter := make(map[counter][]*issue)
	for i := range issues {
		if !issues[i].bizType.opaque() && len(issues[i].runs) > 0 {
			byCounter[issues[i].counter()] = append(byCounter[issues[i].counter()], &issues[i])
		}
	}
	for c, all := range byCounter {
		all = slices.DeleteFunc(all, func(i *issue) bool { return i.kind == record.Job }) // several nodes may have issued them
		// also if the load's changes suspend all other rules of order
		h.checkInCall(r, all)
		// the holder of a range issues from it whenever it likes
		all = slices.DeleteFunc(all, func(i *issue) bool { return i.kind == record.Range })
		if c.bizType.NoOrder || c.bizType.Strategy == record.Gapless { // it reuses what was released
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

// checkInCall requires that the numbers of one answer increase (PROMISES "increasing"; a batch is
// one call, and a caller's number its first plus an index). Nothing excuses a violation.
func (h *evidence) checkInCall(r *Report, all []*issue) {
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

// checkPerProcess requires that a call that starts after another one of the same process and
// counter has ended gets only larger numbers (DESIGN §2 "Order per process always holds", §4 "not
// below the last one"). Nothing excuses a violation, except that snowflake begins anew with another
// machine ID after a clock was put right. Answers to a key of several calls are not checked,
// because another process may have issued them.
func (h *evidence) checkPerProcess(r *Report, all []*issue) {
	type part struct {
		process
		after int // how often the clock was put right before
	}
	parts := make(map[part][]*issue)
	for _, i := range all {
		if i.alone && i.life > 0 {
			p := part{process: process{i.node, i.life}}
			if i.bizType.Strategy == record.Snowflake {
				p.after = h.putRight(p.process, i.end)
			}
			parts[p] = append(parts[p], i)
		}
	}
	for _, part := range parts {
		h.sweepOrder(r, RuleOrderProcess, part, never)
	}
}

// checkPerNode requires the same of all processes of a node together, if the ordering is per-node
// (PROMISES "increasing on each node"). Unused numbers of a process are returned to the store only
// if nothing above them has been allocated.
func (h *evidence) checkPerNode(r *Report, all []*issue) {
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

// checkOverNodes requires that a call that starts after another one has ended, on any node, gets
// only larger numbers (PROMISES "strict over all nodes"; docs/CLUSTER.md). A call that overlaps a
// time in which order is suspended (see suspended) is excused. Calls that start after it must still
// get larger numbers than it got.
func (h *evidence) checkOverNodes(r *Report, c counter, all []*issue) {
	owns, splits := h.owns(c.bizType, c.String()), h.splits()
	if c.bizType.Sequencer == record.Store {
		splits = nil
	}
	because := h.suspended(c.bizType, all, owns, splits)
	var windows []window
	for _, w := range because {
		windows = append(windows, w...)
	}
	windows = merge(windows)
	r.Ordered += len(all)
	byStore := c.bizType.Sequencer == record.Store
	if byStore {
		r.OrderedByStore += len(all)
	}
	for _, i := range all {
		if !touches(windows, i.start, i.end) {
			continue
		}
		r.Suspended++
		if byStore {
			r.SuspendedOfStore++
		}
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

// checkCursor requires that calls of processes that are not on their own are in order among
// themselves while other processes are on their own, because they take from one cursor, which only
// increases. The documentation promises less, but the protocol guarantees it, as its model checks
// (integration/model). The rule is suspended while there are two primaries, two servers or another
// ordering. Calls that checkOverNodes has checked are not checked again.
func (h *evidence) checkCursor(r *Report, all []*issue, owns []own, excused func(*issue) bool) {
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

// never excuses no call.
func never(*issue) bool { return false }

// sweepOrder compares each answer that is not excused with the highest number of the answers that
// had ended before it started. all are sorted by start.
func (h *evidence) sweepOrder(r *Report, rule string, all []*issue, excused func(*issue) bool) {
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
