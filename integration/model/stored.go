package model

import (
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// What surrounds the machine of takes from the store in a node, as the source stored of package
// segment does in seqd. With the sequencer auto, a node follows the counter from one machine to the
// other, as a counter with the sequencer auto does.

// runStored starts the machine.
func (n *node) runStored(known cursor.Known) {
	policy := storetake.TakeOver
	if n.by == auto && !n.w.out[autoKeeps] {
		policy = storetake.Follow
	}
	n.st = storetake.New(storetake.Config{Start: start + 1, Cursor: policy, Patience: 2 * time.Second, Without: n.w.out.takes()})
	n.st.Inherit(max(known.Issued, known.Alone, known.Ceil))
	n.heritage = known
	n.readCounter()
}

// knownStored returns what the heir of the machine must know.
func (n *node) knownStored() cursor.Known {
	k := n.heritage
	k.Issued = max(k.Issued, n.st.Issued())
	k.Alone = k.Issued
	return k
}

func (n *node) readCounter() {
	n.sendStore(&message{op: n.begin(reading), question: readCounter})
}

// follow changes to the other sequencer if the counter has it.
func (n *node) follow() {
	switch {
	case n.stopping || n.by != auto:
	case n.m != nil && n.yields:
		n.say("follows: the store sequences the counter")
		n.w.count("followed to the store")
		n.replace(true)
	case n.st != nil && n.st.Moved():
		n.say("follows: a cursor sequences the counter")
		n.w.count("followed to Redis")
		n.replace(false)
	}
}

// serveStored does for waiting callers what the mode says. One take is under way at a time.
func (n *node) serveStored() {
	if n.stopping || n.st.Refusal() != nil {
		n.refuse()
		return
	}
	if n.st.Mode() != storetake.Online || n.ops[taking] != nil || len(n.waiting) == 0 {
		return
	}
	var wanted int64
	for _, c := range n.waiting {
		wanted += int64(c.missing())
	}
	take := n.st.Send(n.clock(), wanted)
	o := n.begin(taking)
	o.calls, o.wanted, o.take, n.waiting = n.waiting, wanted, &take, nil
	if take.Retire {
		n.removeCursor()
	}
	req := persist.Request{BizTag: counter, Size: take.Size, Floor: n.above(take.Floor), To: take.To, FailoverGap: restoreGap}
	if req.Floor > start {
		req.Gap = restoreGap
	}
	n.sendStore(&message{op: o, question: allocate, request: req})
}

// removeCursor removes the cursor before the store takes over. If that fails, nodes may believe in
// it for a while.
func (n *node) removeCursor() {
	if s := n.target; !n.cut && s.primary() {
		n.say("removes the cursor")
		n.w.count("cursor removed")
		s.remove(key)
		return
	}
	n.say("cannot remove the cursor")
	n.w.count("cursor not removed")
	n.w.check.regimes(true)
}

// tookStored hands out what a take brought. Callers who lack numbers join the next take.
func (n *node) tookStored(o *op, m *message) {
	out := n.st.Took(n.clock(), *o.take, m.r, m.err)
	var got numbers
	if out.Range.First > 0 {
		got.ranges = []persist.Range{out.Range}
		n.w.count("took from the store")
	}
	if out.Dropped.First > 0 {
		n.w.count("dropped")
	}
	n.share(o, got, n.w.out[takeJoins])
}

// storeTook checks what the store did for a take.
func (w *world) storeTook(o *op, r persist.Range) {
	w.check.taken = max(w.check.taken, r.Last)
	if o.take.TakesOver() {
		w.count("the store took over")
	}
	if o.stored++; o.stored > 1 {
		w.check.fail("once: a take of %s was done %d times", o.node.name, o.stored)
	}
	if w.store.read().Epoch != persist.StoreEpoch {
		w.check.fail("one sequencer: %s took %d to %d although a cursor sequences the counter", o.node.name, r.First, r.Last)
	}
}

// tickStored passes the machine's deadline on.
func (n *node) tickStored(now time.Time) {
	if n.st.Tick(now) && n.ops[reading] == nil {
		n.readCounter()
	}
}

// due returns when the machine of a node is to be ticked, zero for never.
func (n *node) due() time.Time {
	switch {
	case n.st != nil:
		return n.st.Deadline()
	case n.m != nil:
		return n.m.Deadline()
	}
	return time.Time{}
}

// keptSequencer checks that a node whose sequencer is auto has not taken the counter over.
func (w *world) keptSequencer(o *op, before string) {
	after := w.store.read().Epoch
	if o.by == auto && before != "" && after != "" && (before == persist.StoreEpoch) != (after == persist.StoreEpoch) {
		w.check.fail("auto: %s took the counter over from %s for %s", o.node.name, short(before), short(after))
	}
}
