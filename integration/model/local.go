package model

import "github.com/seqd/seqd/persist"

// local is the buffer of a node that issues on its own.
type local struct {
	ranges  []persist.Range // the lowest first
	issued  int64           // the highest number taken out of it
	top     int64           // the highest number it ever held, or its floor
	closing bool            // callers that found it open may still take from it
}

func openLocal(ranges []persist.Range, floor int64) *local {
	l := &local{top: floor}
	for _, r := range ranges {
		l.ranges = append(l.ranges, r)
		l.top = max(l.top, r.Last)
	}
	return l
}

// serveLocally gives waiting callers numbers from the local buffer and keeps it filled.
func (n *node) serveLocally() {
	l := n.local
	for len(n.waiting) > 0 && len(l.ranges) > 0 {
		c := n.waiting[0]
		c.local = true
		if n.m != nil {
			n.w.check.onOwn(n)
			n.unwait(c)
		}
		next := numbers{l.ranges[:1:1]}
		n.give(c, &next)
		l.issued = max(l.issued, c.got[len(c.got)-1])
		if !next.more() {
			l.ranges = l.ranges[1:]
		}
		n.w.check.taken = max(n.w.check.taken, n.highest)
		if c.missing() == 0 {
			n.waiting = n.waiting[1:]
		}
	}
	if len(l.ranges) < 2 && n.ops[fetching] == nil && !l.closing && !n.stopping {
		n.fetch()
	}
}

// fetch allocates a range for the local buffer.
func (n *node) fetch() {
	to, floor := persist.Beside, n.local.top
	if n.apart && !n.w.out[apartEmpties] {
		to = persist.Target{}
	}
	if n.w.out[floorRule] {
		floor = 0
	}
	n.allocate(n.begin(fetching), to, 0, floor, false)
}

// fetched puts a range into the local buffer. One below what was seen is refused.
func (n *node) fetched(r persist.Range, err error) {
	if l := n.local; err == nil && l != nil && !l.closing && r.First > l.top {
		l.ranges, l.top = append(l.ranges, r), r.Last
	}
}

// closed closes the local buffer, whose rest is dropped.
func (n *node) closed() {
	l := n.local
	n.local = nil
	if o := n.ops[fetching]; o != nil {
		n.end(o)
	}
	n.m.Closed(n.clock(), l.issued, l.top)
}
