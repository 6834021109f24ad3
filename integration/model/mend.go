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
		n.bring(o, "seed", l)
	case l.other:
		if seed, wait := n.disputed(o, l); seed {
			n.bring(o, "seed", l)
		} else if wait {
			n.lookAgain(o)
		}
	case below:
		n.bring(o, "advance", l)
	case l.hand > 0:
		if l.low == claimedByMe {
			n.refill(l.gen, l.epoch)
		}
		n.mended(o)
	case n.ops[refilling] != nil || patient:
		n.lookAgain(o)
	default:
		o.mode, o.gen, o.to = "append", l.gen, persist.ToCursor(l.epoch)
		n.fetch(o)
	}
}

// lookAgain begins the mending anew.
func (n *node) lookAgain(o *op) {
	n.end(o)
	another := n.begin(mending)
	another.disputed = o.disputed
	n.sendTake(another, 0, n.ops[refilling] == nil)
}

// bring installs the range that was allocated for the beginning of the cursor that a look saw.
// Where there is none it allocates one, and looks again.
func (n *node) bring(o *op, mode string, l look) {
	o.mode, o.gen, o.to = mode, l.gen, n.goal(l)
	s, fits := n.spare, n.spareFits(l)
	n.spare = spare{}
	if !fits {
		n.fetch(o)
		return
	}
	if l.other {
		n.w.count("seed over another")
	}
	epoch := s.epoch
	if n.w.out[spareEpoch] {
		epoch = n.belief.epoch
	}
	o.r = s.r
	n.sendInstall(o, epoch)
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
		n.refill(a.gen, o.to.Epoch())
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
func (n *node) refill(gen, epoch string) {
	if n.ops[refilling] != nil {
		return
	}
	o := n.begin(refilling)
	o.mode, o.gen, o.to = "append", gen, persist.ToCursor(epoch)
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
