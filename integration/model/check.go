package model

import (
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// checker checks what callers get. It demands what the design promises:
//
// Uniqueness, always: no number ends up with two callers, whatever happened. That includes the
// numbers of ranges that callers issue from later. Nothing else is demanded of those.
//
// Order per process, always: a call that began after another call of the same process ended gets
// only larger numbers.
//
// Order over all nodes, except while it is suspended: a call that began after another call ended,
// anywhere, gets only larger numbers. It is demanded of every call during which order was not
// suspended at any moment, and relative to all calls that ended before it, also those of a time in
// which order was suspended. Order is suspended
//   - from the first number that a node issues on its own until its machine is online again. If the
//     process ended before that: until the cursor of the only primary has passed the highest number
//     that the process issued;
//   - while two servers are primaries, and then until the cursor of the remaining one has passed
//     every number that was taken so far. (Not only those taken during that time: the advance of a
//     node that came back meanwhile may have gone to the other cursor.)
//   - from the first process that uses another Redis or sequencer than the others, or whose
//     ordering is per-node, until all are the same again and none can still believe what the store
//     said before that, see unsettled. From then on numbers are above all that were issued
//     anywhere.
//
// While all processes take from the store, order is never suspended, and all of the above ends.
//
// Failovers, restarts, lost hashes and restored stores do not suspend it, nor does a move to
// another Redis or sequencer for which all processes were stopped. The protocol also keeps a
// promise that the design does not make: while order is suspended only because nodes are on their
// own, calls that got all their numbers from the cursor are in order among themselves.
type checker struct {
	w *world
	// broken is the first violation.
	broken string

	owner   []int32 // by number: which call got it, counted from 1
	calls   int32
	numbers int

	ended       int64 // highest number of all calls that have ended
	endedCursor int64 // of those that had all from the cursor
	taken       int64 // highest number that left the cursor or a local buffer
	handed      int64 // highest number of a range that was handed out

	dead       []int64 // highest numbers of processes that ended while they were on their own
	split      bool    // two servers are primaries
	splitUntil int64   // what the cursor must pass after that, 0 once it has
	// uneven is set while nodes are configured differently, or while their beliefs may be of that
	// time.
	uneven    bool
	unevenAt  time.Time // when they were configured differently last
	suspended bool
	// suspensions and splits count how often order was suspended, and how often because of two
	// primaries.
	suspensions, splits int
}

// bounds are what the numbers of a call must be above, noted when it begins.
type bounds struct {
	process, all, cursor int64
	suspended, split     bool
	suspensions, splits  int
}

func (c *checker) begin(n *node) bounds {
	return bounds{n.ended, c.ended, c.endedCursor, c.suspended, c.splitting(), c.suspensions, c.splits}
}

// splitting reports whether order is suspended because there may be two cursors, or because nodes
// that are not away may issue other numbers than those of the cursor.
func (c *checker) splitting() bool { return c.split || c.splitUntil > 0 || c.uneven }

// violation begins the line of a schedule that shows which promise was broken.
const violation = "VIOLATION"

// fail notes a violation, once.
func (c *checker) fail(format string, args ...any) {
	if c.broken == "" {
		c.broken = fmt.Sprintf(format, args...)
		c.w.say("%s %s", violation, c.broken)
	}
}

// end checks a call that has all its numbers.
func (c *checker) end(call *call) {
	n, first, last := call.node, call.got[0], call.got[len(call.got)-1]
	c.w.say("%s: a caller gets %v", n.name, call.got)
	c.calls++
	c.numbers += len(call.got)
	before := call.start.process
	for _, number := range call.got {
		c.own(n, number)
		if number <= before {
			c.fail("order per process: %s issued %d after %d", n.name, number, before)
		}
		before = number
	}
	start := &call.start
	if !start.suspended && start.suspensions == c.suspensions {
		c.w.count("order demanded")
		if n.st != nil {
			c.w.count("order demanded of the store")
		}
	} else {
		c.w.count("order suspended")
	}
	if first <= start.all && !start.suspended && start.suspensions == c.suspensions {
		c.fail("order over all nodes: %s issued %d although a call with %d had ended before", n.name, first, start.all)
	}
	if first <= start.cursor && !call.local && !start.split && start.splits == c.splits {
		c.fail("order of the cursor: %s issued %d although a call with %d had ended before", n.name, first, start.cursor)
	}
	n.ended = max(n.ended, last)
	c.ended = max(c.ended, last)
	if !call.local {
		c.endedCursor = max(c.endedCursor, last)
	}
	c.w.served[n] = true
}

// hold checks a range that a caller issues from later. Its numbers are unique, and in no order with
// others.
func (c *checker) hold(n *node, r persist.Range) {
	c.w.say("%s: a caller holds %d to %d", n.name, r.First, r.Last)
	c.calls++
	c.numbers += int(r.Size())
	for number := r.First; number <= r.Last; number++ {
		c.own(n, number)
	}
	c.handed = max(c.handed, r.Last)
}

// own notes which call got a number.
func (c *checker) own(n *node, number int64) {
	for int64(len(c.owner)) <= number {
		c.owner = append(c.owner, make([]int32, 1+len(c.owner))...)
	}
	if c.owner[number] != 0 {
		c.fail("uniqueness: %s issued %d, which had been issued", n.name, number)
	}
	c.owner[number] = c.calls
}

// onOwn notes that a node issues a number on its own.
func (c *checker) onOwn(n *node) {
	if !c.w.away[n] {
		c.w.away[n] = true
		c.suspend()
	}
}

// returned notes that a node takes from the cursor.
func (c *checker) returned(n *node) { delete(c.w.away, n) }

// died notes the end of a process.
func (c *checker) died(n *node) {
	if c.w.away[n] {
		delete(c.w.away, n)
		c.dead = append(c.dead, n.highest)
	}
}

// primaries notes whether there are two primaries.
func (c *checker) primaries(n int) {
	switch {
	case n == 2 && !c.split:
		c.split = true
		c.splits++
		c.suspend()
		c.w.count("split brain")
	case n < 2 && c.split:
		c.split = false
		c.splitUntil = max(c.taken, c.ended)
	}
}

func (c *checker) suspend() {
	if !c.suspended {
		c.suspended = true
		c.suspensions++
	}
}

// ordered notes that every process takes from the store: all that it gives is above everything that
// was issued.
func (c *checker) ordered() { c.dead, c.splitUntil = nil, 0 }

// regimes notes whether nodes are configured differently.
func (c *checker) regimes(uneven bool) {
	switch {
	case uneven:
		if !c.uneven {
			c.uneven = true
			c.splits++
			c.suspend()
			c.w.count("uneven")
		}
		c.unevenAt = c.w.now
	case c.uneven && !slices.ContainsFunc(c.w.nodes, c.unsettled):
		c.uneven = false
		c.w.count("even again")
	}
}

// unsettled reports whether a process may still believe what the store said while nodes were
// configured differently. It cannot once it has taken numbers much later, unless it was excused.
func (c *checker) unsettled(n *node) bool {
	if n.m == nil || n.stopping || n.born.After(c.unevenAt) {
		return false
	}
	_, asked := n.m.Believed()
	if asked.IsZero() {
		return n.ops[beginning] != nil
	}
	return !asked.After(c.unevenAt) && !n.tookFresh.After(c.unevenAt.Add(cursor.TrustEpoch))
}

// refresh ends the suspension if its causes have ended.
func (c *checker) refresh() {
	if !c.suspended {
		return
	}
	primary := c.w.onlyPrimary()
	if primary != nil {
		if c.splitUntil > 0 && primary.passed(c.splitUntil) {
			c.splitUntil = 0
		}
		for i := len(c.dead) - 1; i >= 0; i-- {
			if primary.passed(c.dead[i]) {
				c.dead[i] = c.dead[len(c.dead)-1]
				c.dead = c.dead[:len(c.dead)-1]
			}
		}
	}
	c.suspended = c.splitting() || len(c.dead) > 0 || len(c.w.away) > 0
}
