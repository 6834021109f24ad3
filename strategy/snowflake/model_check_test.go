package snowflake

import "fmt"

// What the checker finds broken.
const (
	overlap   = "overlap"   // U5: two processes may use the same times of a machine ID
	repeat    = "repeat"    // a time of a machine ID was used by two processes
	outside   = "outside"   // a time was used that the process was not granted
	lostUse   = "lost"      // a time was used after the token was seen to be another one
	backwards = "backwards" // a recorded until went down, and it was no clean stop
	lowered   = "lowered"   // the file was to go back under one token
	liveness  = "liveness"  // a node cannot issue although nothing is wrong
)

// piece is an interval of times of one machine ID that one process may use: (lower, upper].
type piece struct {
	proc         int // which process: it counts through all nodes
	token        string
	lower, upper int64
	// tainted is set on what was granted while the registry was an older copy that nobody had
	// noticed.
	tainted bool
}

// checker watches what is granted for use, and what is used.
//
// It excuses one thing. When the registry was put back to an older copy without the documented
// step, no protocol can know: until a holder renews whose slot shows it, or one that lost its lease
// gives it a floor, what is granted may overlap with what the registry forgot, and so may what such
// a grant is extended to as long as it stands. What begins after that must not overlap with
// anything, nor must what a node begins that has seen it.
type checker struct {
	w      *world
	broken string // the first violation
	pieces [1 << 3][]piece
	used   [1 << 3]map[int64]int // time → process
	taint  [1 << 3]map[int64]bool
	bare   bool // the registry is an older copy that nobody has noticed
	issued int
}

// fail notes a violation, once, if it is of a kind that is looked for.
func (c *checker) fail(kind, format string, args ...any) {
	if c.broken != "" || c.w.out.only != "" && c.w.out.only != kind {
		return
	}
	c.broken = kind + ": " + fmt.Sprintf(format, args...)
	c.w.say("%s %s", violation, c.broken)
}

// violation begins the line of a schedule that says what was broken.
const violation = "VIOLATION"

// noticed ends the excuse.
func (c *checker) noticed() {
	if c.bare {
		c.w.say("from here on nothing new may overlap")
	}
	c.bare = false
}

// grant notes that a process may use an interval from now on. bare is whether the registry was an
// older copy when it granted that; stands is whether it goes on with a lease that had not ended.
func (c *checker) grant(n *node, id, lower, upper int64, bare, stands bool) {
	pieces := c.pieces[id]
	mine, tainted := -1, bare
	for i := range pieces {
		p := &pieces[i]
		if p.token != n.lease.token {
			continue
		}
		if p.proc == n.proc && p.lower == lower {
			mine = i
		}
		tainted = tainted || p.tainted && stands
	}
	if lower >= upper && !tainted {
		return // an empty one is kept only for its taint
	}
	for i := range pieces {
		p := &pieces[i]
		if p.proc != n.proc && p.lower < upper && lower < p.upper && !tainted && !p.tainted {
			c.fail(overlap, "ID %d: %s may use %d to %d with %s, and %d to %d may be used with %s", id, n.name, rel(lower+1), rel(upper), c.w.named(n.lease.token),
				rel(p.lower+1), rel(p.upper), c.w.named(p.token))
		}
	}
	if mine >= 0 {
		pieces[mine].upper = max(pieces[mine].upper, upper)
		pieces[mine].tainted = tainted
		return
	}
	c.pieces[id] = append(pieces, piece{n.proc, n.lease.token, lower, upper, tainted})
}

// closed notes that a process uses nothing above a time any more.
func (c *checker) closed(n *node, last int64) {
	for id := range c.pieces {
		kept := c.pieces[id][:0]
		for _, p := range c.pieces[id] {
			if p.proc == n.proc {
				p.upper = min(p.upper, last)
			}
			if p.lower < p.upper || p.tainted {
				kept = append(kept, p)
			}
		}
		c.pieces[id] = kept
	}
}

// use notes that a process made a number.
func (c *checker) use(n *node, id, t int64) {
	c.issued++
	granted, tainted := false, false
	for _, p := range c.pieces[id] {
		if p.proc == n.proc && p.lower < t && t <= p.upper {
			granted, tainted = true, tainted || p.tainted
		}
	}
	if !granted {
		c.fail(outside, "%s uses %d of ID %d", n.name, rel(t), id)
	}
	if n.lost {
		c.fail(lostUse, "%s uses %d of ID %d after it saw that the ID was lost", n.name, rel(t), id)
	}
	if c.used[id] == nil {
		c.used[id], c.taint[id] = map[int64]int{}, map[int64]bool{}
	}
	if other, found := c.used[id][t]; found && other != n.proc && !tainted && !c.taint[id][t] {
		c.fail(repeat, "%s uses %d of ID %d, which had been used", n.name, rel(t), id)
	}
	c.used[id][t] = n.proc
	if tainted {
		c.taint[id][t] = true
	}
}
