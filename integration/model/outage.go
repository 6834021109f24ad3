package model

import (
	"cmp"
	"slices"

	"github.com/seqd/seqd/persist"
)

// leave goes on without Redis, at first with what is in hand.
func (n *node) leave() {
	n.w.say("%s: leaves the cursor", n.name)
	n.w.count("left")
	n.cancel(mending)
	n.mode, n.mends = degraded, false
	for _, r := range n.hand() {
		if r.First > n.highest && (r.First > n.ceil || n.w.out[standbyAboveCeil]) {
			n.local = append(n.local, r)
		}
	}
}

// hand takes out the ranges that are kept for outages, the lower one first.
func (n *node) hand() (rest []persist.Range) {
	for _, r := range []*persist.Range{&n.standby, &n.spare.r} {
		if r.First > 0 {
			rest = append(rest, *r)
			*r = persist.Range{}
		}
	}
	slices.SortFunc(rest, func(a, b persist.Range) int { return cmp.Compare(a.First, b.First) })
	return rest
}

// serveOnOwn gives waiting callers numbers from the local buffer and sees that it does not run dry.
func (n *node) serveOnOwn() {
	for len(n.waiting) > 0 && len(n.local) > 0 {
		c := n.waiting[0]
		if r := &n.local[0]; r.First <= n.highest {
			n.w.count("guard on its own")
			if r.First = n.highest + 1; r.First > r.Last {
				n.local = n.local[1:]
			}
			continue
		}
		if c.local = true; n.mode == degraded {
			n.w.check.onOwn(n)
			n.onOwn = true
		}
		next := numbers{n.local[:1:1]}
		n.give(c, &next)
		if !next.more() {
			n.local = n.local[1:]
		}
		n.w.check.taken = max(n.w.check.taken, n.highest)
		if c.missing() == 0 {
			n.waiting = n.waiting[1:]
		}
	}
	if len(n.local) < 2 && n.ops[fetching] == nil {
		n.fetch(n.begin(fetching))
	}
}

// probe finds out whether the cursor can be used again.
func (n *node) probe() {
	n.target = n.w.findPrimary(n)
	n.sendTake(n.begin(probing), 0, false)
}

// probed goes back, once the range that this may need is in hand.
func (n *node) probed(o *op, l look) {
	if !l.stub && !l.other && l.next > n.highest || n.spareFits(l) {
		n.goBack()
		return
	}
	if l.other {
		if seed, wait := n.disputed(o, l); wait {
			n.end(o)
			return
		} else if !seed {
			return
		}
	}
	o.gen, o.to = l.gen, n.goal(l)
	n.fetch(o)
}

// goBack closes the local buffer, whose rest is dropped, and lets callers wait until the cursor is
// above every number taken out of it.
func (n *node) goBack() {
	n.w.say("%s: goes back", n.name)
	n.w.count("returned")
	n.cancel(fetching)
	n.cancel(probing)
	n.local, n.mode, n.mends = nil, online, true
	n.ahead = n.onOwn || n.ahead && !n.w.out[aheadKept]
	n.onOwn = false
	if n.w.out[advanceFirst] {
		n.mends, n.ahead = false, false
		n.w.check.returned(n)
	}
}

// stop is a clean stop: what only this node has is given back, once.
func (n *node) stop() {
	n.w.say("%s: stops", n.name)
	rest := append(n.hand(), n.local...)
	closed := !n.w.out[closeFirst]
	for _, o := range n.ops {
		if o != nil && (closed || o.task != fetching) {
			n.end(o)
		}
	}
	if closed {
		n.local, n.waiting = nil, nil
	}
	if closed || !n.alone() {
		n.mode = stopping
	}
	o := n.begin(givingBack)
	o.rest = joined(rest)
	n.giveNext(o)
}

// joined returns ranges with neighbours joined, the highest first.
func joined(ranges []persist.Range) (joined []persist.Range) {
	slices.SortFunc(ranges, func(a, b persist.Range) int { return cmp.Compare(b.First, a.First) })
	for _, r := range ranges {
		if last := len(joined) - 1; last >= 0 && r.Last+1 == joined[last].First {
			joined[last].First = r.First
		} else {
			joined = append(joined, r)
		}
	}
	return joined
}

// giveNext gives back the highest range that is left.
func (n *node) giveNext(o *op) {
	if len(o.rest) == 0 {
		n.die("stopped")
		return
	}
	o.atStore = true
	n.w.send(&message{to: toStore, op: o, question: giveBack, rest: o.rest[0]})
	o.rest = o.rest[1:]
}

// gaveBack goes on after a give-back. The ranges below could only be given back after this one.
func (n *node) gaveBack(o *op, given bool) {
	if !given {
		o.rest = nil
	}
	n.giveNext(o)
}
