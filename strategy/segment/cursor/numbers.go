package cursor

import (
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// numbers is what a process knows about the numbers of its counter.
type numbers struct {
	// highest is the highest number that this process has issued, or floor if that is more.
	highest int64
	// floor is the number up to which numbers are skipped without an alarm, because they are below
	// Start or were issued from another source than the cursor.
	floor      int64
	belowFloor bool // some were
	// ceil is the highest number that is known to have been in the cursor.
	ceil int64
	// next is the first number of the next take, as last seen; 0 if it is unknown or the cursor was
	// empty.
	next int64
	// seen is the highest number that is known to exist: in the cursor, issued or allocated.
	seen int64
	// step is the size of the last segment that this node allocated, 0 before the first.
	step     int64
	heritage Known // from the previous strategy
}

// guard drops the numbers that are not above every number that this process has issued, and notes
// the others as issued. Every number that this process takes from the cursor passes through it on
// the way to a caller. It is the guard of the invariants ([RuleGuard]).
func (n *numbers) guard(runs []persist.Range, without RuleSet) (out Outcome) {
	out.Runs = runs[:0]
	for _, r := range runs {
		if r.First <= n.highest && !without.Has(RuleGuard) {
			low := min(r.Last, n.highest)
			out.Below += low - r.First + 1
			out.Wrong += max(0, low-max(r.First-1, n.floor))
			if r.First = low + 1; r.First > r.Last {
				continue
			}
		}
		n.highest = r.Last
		out.Runs = append(out.Runs, r)
		out.Brought += r.Size()
	}
	n.see(n.highest)
	return out
}

// see notes a number that exists.
func (n *numbers) see(number int64) { n.seen = max(n.seen, number) }

// seeCeil notes a number that was in the cursor.
func (n *numbers) seeCeil(number int64) {
	n.ceil = max(n.ceil, number)
	n.see(number)
}

// seeNext notes the first number of the next take, according to an answer of the cursor.
func (n *numbers) seeNext(t *rediscursor.Taken) {
	switch {
	case len(t.Runs) > 0:
		n.next = max(n.next, t.Runs[len(t.Runs)-1].Last+1)
	case t.Next > 0:
		n.next = max(n.next, t.Next)
	default:
		n.next = 0
	}
}

// Known is what a process knows about a counter and the store does not. 0 means nothing.
type Known struct {
	Issued int64 // the highest number that was issued
	Alone  int64 // the highest of those that did not come from the cursor
	Ceil   int64 // the highest number that was in the cursor
}

// Known returns what the successor of this machine in the same process must know. local is the
// highest number that callers took out of the local buffer, 0 if there is none.
func (m *Machine) Known(local int64) Known {
	k := m.heritage
	if m.highest > m.floor {
		k.Issued = m.highest
	}
	if m.outage.ahead {
		local = max(local, m.highest)
	}
	return Known{Issued: max(k.Issued, local), Alone: max(k.Alone, local), Ceil: max(k.Ceil, m.ceil)}
}

// Inherit takes over what a predecessor knew, before anything is issued.
func (n *numbers) Inherit(k Known) {
	n.heritage = k
	n.floor = max(n.floor, k.Alone)
	n.highest = max(n.highest, n.floor, k.Issued)
	n.see(n.highest)
	n.seeCeil(k.Ceil)
}

// Issued returns the highest number that this process has issued from the cursor, or the one below
// Start.
func (n *numbers) Issued() int64 { return n.highest }

// Measured is what is in hand.
type Measured struct {
	Step    int64 // the size of the last segment that this node allocated, 0 before the first
	Cursor  int64 // numbers that waited in the cursor when it was seen last
	Standby int64 // numbers of the standby range
	Seen    int64 // the highest number that is known to exist
}

// Measure returns what is in hand.
func (m *Machine) Measure() Measured {
	v := Measured{Step: m.step, Seen: m.seen}
	if m.next > 0 {
		v.Cursor = max(0, m.ceil-max(m.next-1, m.highest))
	}
	if m.outage.standby.First > 0 {
		v.Standby = m.outage.standby.Size()
	}
	return v
}
