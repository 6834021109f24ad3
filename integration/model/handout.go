package model

import (
	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/persist"
)

// Ranges that a caller takes to issue from later, as the file of this name in package segment hands
// them out.

// handedOut is what a process has handed out. The next machine of the process inherits it.
type handedOut struct {
	beside int64 // the highest number that the process knows of, which is part of its floors
	truly  int64 // the highest number there is; the same unless a rule is taken out
}

// handsOut lets a caller want a range.
func (w *world) handsOut() bool {
	n := w.running()
	if n == nil || n.stopping || n.ops[handingOut] != nil || !w.mayHandOut(n) {
		return false
	}
	size := worlds.Pick(&w.dice, 0, 1, 1+int64(w.dice.Below(20)), restoreGap-1, restoreGap, restoreGap+1)
	n.handOut(size)
	n.settle()
	return true
}

// mayHandOut reports whether a node may allocate now without a look at the cursor, see
// restoresBare.
func (w *world) mayHandOut(n *node) bool { return w.restoredTaken || w.mayDegrade(n) }

// handOut asks the store for a range of so many numbers, 0 for the step.
func (n *node) handOut(size int64) {
	o := n.begin(handingOut)
	req := persist.Request{BizTag: counter, Size: size, Floor: n.above(n.seen()), To: persist.Beside, FailoverGap: restoreGap}
	if size == 0 {
		req.Size = n.settings.step
	}
	if n.w.out[handOutAbove] {
		req.Floor = n.above(start)
	}
	if req.Floor > start && !n.w.out[handOutGap] {
		req.Gap = restoreGap
	}
	if n.w.out[handOutKeeps] {
		req.To = persist.NewCursor(n.w.store.read().Epoch, persist.StoreEpoch)
	}
	if _, expected, err := n.w.store.read().Allocated(req, 0); err == nil && n.w.out[handOutKnown] {
		o.expected = expected
	}
	n.say("a caller wants a range of %d", req.Size)
	m := &message{op: o, question: allocate, request: req}
	if n.w.store.down {
		m.err = errAway
	}
	n.sendStore(m)
}

// above returns a floor that what was handed out is not above.
func (n *node) above(floor int64) int64 {
	if n.w.out[handOutFloor] {
		return floor
	}
	return max(floor, n.handed.beside)
}

// seen returns the highest number that the process has seen of those that were not handed out.
func (n *node) seen() (seen int64) {
	if n.local != nil {
		seen = n.local.top
	}
	switch {
	case n.st != nil:
		return n.st.Seen()
	case n.m != nil:
		return max(seen, n.m.Measure().Seen)
	}
	return seen
}

// knows returns the highest number that every allocation of the process must be above.
func (n *node) knows() int64 { return max(n.seen(), n.handed.truly) }

// handsOver gives the caller a range, unless nobody knows whether it left the store.
func (n *node) handsOver(o *op, m *message) {
	n.note(m.err)
	r := m.r
	if m.err != nil {
		r = o.expected
	}
	if r.First == 0 {
		return
	}
	n.handed.beside = max(n.handed.beside, r.Last)
	n.holds(r)
}

// late is a range that comes after the next machine has inherited what the process knows. So nobody
// gets it.
func (n *node) late(o *op, m *message) {
	if n.w.out[handOutEnds] && m.err == nil && n.up && o.sent.After(n.born) {
		n.holds(m.r)
	}
}

// holds gives a caller a range, and counts what kind of node and range it was.
func (n *node) holds(r persist.Range) {
	n.handed.truly = max(n.handed.truly, r.Last)
	switch {
	case n.st != nil:
		n.w.count("handed out from the store")
	case n.m != nil && n.local != nil:
		n.w.count("handed out away from the cursor")
	case n.m != nil:
		n.w.count("handed out beside a cursor")
	default:
		n.w.count("handed out with per-node ordering")
	}
	if r.Size() == restoreGap {
		n.w.count("handed out as much as the gap")
	}
	n.w.check.hold(n, r)
}
