package machineid

import "fmt"

// Kinds of violations.
const (
	overlap   = "overlap"   // U5: two processes may use the same times of a machine ID
	repeat    = "repeat"    // a time of a machine ID was used by two processes
	outside   = "outside"   // a time was used that the process was not granted
	lostUse   = "lost"      // a time was used after the token was seen to have changed
	backwards = "backwards" // a recorded until decreased without a release
	lowered   = "lowered"   // a value in the file was to decrease under one token
	liveness  = "liveness"  // a node cannot issue although all faults have ended
)

// piece is an interval of times of one machine ID that one process may use: (lower, upper].
type piece struct {
	proc         int // the number of the process, over all nodes
	token        string
	lower, upper int64
	// tainted is true if the interval was granted while the registry was an older copy that nobody
	// had noticed.
	tainted bool
}

// checker watches what is granted, and what is used.
//
// It excuses one thing. If the registry was put back to an older copy without the documented step,
// no protocol can know that until a holder renews whose slot shows it, or one that lost its lease
// sets a floor. Until then, what is granted may overlap with what the registry forgot, and so may
// extensions of such a grant as long as it has not ended. What begins later must not overlap with
// anything, nor may a node that has noticed the older copy begin anything that overlaps.
type checker struct {
	w      *world
	broken string // the first violation
	pieces [1 << 3][]piece
	used   [1 << 3]map[int64]int // from time to process
	taint  [1 << 3]map[int64]bool
	bare   bool // the registry is an older copy that nobody has noticed
	issued int
}

// fail records the first violation of a kind that is looked for.
func (c *checker) fail(kind, format string, args ...any) {
	if c.broken != "" || c.w.out.only != "" && c.w.out.only != kind {
		return
	}
	c.broken = kind + ": " + fmt.Sprintf(format, args...)
	c.w.say("%s %s", violation, c.broken)
}

// violation starts the line of a schedule that describes the violation.
const violation = "VIOLATION"

// noticed ends the excuse.
func (c *checker) noticed() {
	if c.bare {
		c.w.say("from here on nothing new may overlap")
	}
	c.bare = false
}

// grant records that a process may use an interval from now on. bare is true if the registry was an
// older copy when it granted the interval, stands if it extends a lease that had not ended.
func (c *checker) grant(n *node, id, lower, upper int64, bare, stands bool) {
	pieces := c.pieces[id]
	mine, tainted := -1, bare
	for i := range pieces {
		p := &pieces[i]
		if p.token != n.lease.Token {
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
			c.fail(overlap, "ID %d: %s may use %d to %d with %s, and %d to %d may be used with %s", id, n.name, rel(lower+1), rel(upper), c.w.named(n.lease.Token),
				rel(p.lower+1), rel(p.upper), c.w.named(p.token))
		}
	}
	if mine >= 0 {
		pieces[mine].upper = max(pieces[mine].upper, upper)
		pieces[mine].tainted = tainted
		return
	}
	c.pieces[id] = append(pieces, piece{n.proc, n.lease.Token, lower, upper, tainted})
}

// closed records that a process will use nothing above a time.
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

// use records that a process made a number.
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
