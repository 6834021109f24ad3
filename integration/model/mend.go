package model

import "github.com/seqd/seqd/persist"

// mend does what the cursor lacks by the look of it.
func (n *node) mend(o *op, l look) {
	n.seeCeil(l.ceil)
	below := l.next <= n.highest && (l.next > 0 || n.ahead)
	if n.w.out[guardRule] && !n.ahead {
		below = false
	}
	patient := l.low == claimedByOther && !n.w.dice.OneIn(4)
	switch {
	case l.stub && patient:
		n.lookAgain(o)
	case l.stub:
		n.bring(o, "seed", l.gen)
	case below:
		n.bring(o, "advance", l.gen)
	case l.hand > 0:
		if l.low == claimedByMe {
			n.refill(l.gen)
		}
		n.mended(o)
	case n.ops[refilling] != nil || patient:
		n.lookAgain(o)
	default:
		n.bring(o, "append", l.gen)
	}
}

// lookAgain begins the mending anew.
func (n *node) lookAgain(o *op) {
	n.end(o)
	n.sendTake(n.begin(mending), 0, n.ops[refilling] == nil)
}

// bring installs a range: the one that was allocated ahead for this beginning of the cursor, or a new one.
func (n *node) bring(o *op, mode, gen string) {
	o.mode, o.gen = mode, gen
	spare := n.spare
	n.spare = persist.Range{}
	if spare.First > n.highest && (n.spareGen == gen || n.w.out[youngSpare]) {
		o.r = spare
		n.sendInstall(o)
		return
	}
	n.fetch(o)
}

// installed goes on after an install.
func (n *node) installed(o *op, a answer) {
	n.seeCeil(a.ceil)
	if a.verdict == "ok" {
		n.seeCeil(o.r.Last)
	}
	if o.task == refilling {
		n.refilled(o, a)
		return
	}
	if a.verdict != "ok" {
		n.lookAgain(o)
		return
	}
	if o.mode == "append" && a.free > 0 {
		n.refill(a.gen)
	}
	n.mended(o)
}

// mended lets callers take again: the cursor has numbers above all this process has issued.
func (n *node) mended(o *op) {
	n.end(o)
	n.mends, n.ahead, n.onOwn = false, false, false
	n.w.check.returned(n)
}

// refill appends ranges in the background until the queue is full.
func (n *node) refill(gen string) {
	if n.ops[refilling] != nil {
		return
	}
	o := n.begin(refilling)
	o.mode, o.gen = "append", gen
	n.fetch(o)
}

// refilled goes on after an append.
func (n *node) refilled(o *op, a answer) {
	if a.verdict == "stale" || a.verdict == "ok" && a.free > 0 {
		n.fetch(o)
		return
	}
	n.end(o)
}
