package model

import "github.com/seqd/seqd/persist"

// mode is how a node issues.
type mode int

// The modes.
const (
	online   mode = iota // from the cursor
	degraded             // on its own
	separate             // on its own because its configuration says per-node
	stopping             // no more: it gives back what it has
	down                 // there is no process
)

// settings may differ from node to node while they are being changed.
type settings struct {
	step                   int64
	reserveText, threshold string
	reject                 bool // onRedisDown
}

// node is one process after another on one machine. What a process knows goes with it.
type node struct {
	w        *world
	name     string
	settings settings
	mode     mode
	paused   bool    // nothing of it runs; requests it sent go on
	cut      bool    // nothing passes between it and Redis
	target   *server // that it takes for the primary
	// next is what the configuration says of the next process.
	next regime
	process
}

// regime is what must be the same for all nodes for order to hold over them.
type regime struct {
	redis int  // which Redis
	apart bool // the ordering is per-node
}

// process is what is lost in a crash.
type process struct {
	regime
	born      int // the step at which it began
	tookFresh int // the last step at which it sent a take that was not excused, see checker.settled
	belief    belief

	waiting []*call // not yet part of a take
	ops     [tasksInAll]*op
	mends   bool // callers wait until the cursor has been mended

	highest int64 // the guard: the highest number it has issued
	ceil    int64 // the highest number known to have been in the cursor
	seen    int64 // the highest number known to exist: in the cursor, issued or allocated

	storeAway bool
	standby   persist.Range // the zero range while there is none, as for all ranges
	spare     spare
	local     []persist.Range // the buffer of a degraded node, lowest first
	onOwn     bool            // it has issued from there since it left the cursor last
	ahead     bool            // it has, and no advance since was answered
	ended     int64           // highest number of its calls that have ended
}

// spare is a range that was allocated to begin the cursor with, for the beginning that was seen,
// and the epoch under which it may be installed.
type spare struct {
	r          persist.Range
	gen, epoch string
}

// call is one caller.
type call struct {
	node  *node
	want  int
	got   []int64
	gone  bool
	local bool // some of its numbers are from a local buffer
	start bounds
}

func (c *call) missing() int { return c.want - len(c.got) }

// call lets a caller arrive.
func (n *node) call(want int) {
	c := &call{node: n, want: want, start: n.w.check.begin(n)}
	n.w.say("%s: a caller wants %d", n.name, want)
	n.waiting = append(n.waiting, c)
	n.pump()
}

// pump begins what is due.
func (n *node) pump() {
	switch {
	case n.alone():
		n.serveOnOwn()
	case n.mode != online:
	case n.mends:
		if n.ops[mending] == nil {
			n.sendTake(n.begin(mending), 0, n.ops[refilling] == nil)
		}
	case n.ops[taking] != nil || len(n.waiting) == 0:
	case n.outdated():
		n.w.count("waited for the store's word")
		n.ask()
	default:
		if !n.excused() {
			n.tookFresh = n.w.step
		}
		o := n.begin(taking)
		o.calls, n.waiting = n.waiting, nil
		var wanted int64
		for _, c := range o.calls {
			wanted += int64(c.missing())
		}
		n.sendTake(o, wanted, true)
	}
}

// looked goes on with a reply of the take script.
func (n *node) looked(o *op, l look) {
	n.seeCeil(l.ceil)
	switch o.task {
	case taking:
		n.took(o, l)
	case mending:
		n.mend(o, l)
	case standingBy:
		n.fetch(o)
	case probing:
		n.probed(o, l)
	}
}

// took hands out what a take brought.
func (n *node) took(o *op, l look) {
	n.end(o)
	runs, dropped := n.guard(l.runs)
	n.share(o, runs)
	if len(runs) > 0 && n.standby.First <= max(n.ceil, n.highest) && n.ops[standingBy] == nil && !n.settings.reject {
		n.standby = persist.Range{}
		n.sendTake(n.begin(standingBy), 0, false)
	}
	if l.low == claimedByMe && !l.stub {
		n.refill(l.gen, l.epoch)
	}
	if len(o.calls) == 0 {
		return
	}
	n.mends = true
	if dropped {
		return
	}
	n.mend(n.begin(mending), l)
}

// guard keeps only numbers above every number this process has issued.
func (n *node) guard(runs []persist.Range) (good []persist.Range, dropped bool) {
	if n.w.out[guardRule] {
		return runs, false
	}
	for _, r := range runs {
		if r.First <= n.highest {
			dropped = true
			r.First = n.highest + 1
		}
		if r.First <= r.Last {
			good = append(good, r)
		}
	}
	if dropped {
		n.w.say("%s: alarm: %v is not above %d", n.name, runs, n.highest)
		n.w.count("guard")
	}
	return good, dropped
}

// share gives the callers of a take their numbers, in the order in which they came. Numbers of a
// caller that has gone are skipped. Who lacks some keeps what it got and goes first next time.
func (n *node) share(o *op, runs []persist.Range) {
	next := numbers{runs}
	var lacking []*call
	for _, c := range o.calls {
		if c.gone && n.w.out[joinBeforeSend] {
			continue // whoever came since gets them
		}
		if n.give(c, &next); c.missing() > 0 && !c.gone {
			lacking = append(lacking, c)
		}
	}
	if n.w.out[joinBeforeSend] {
		for len(n.waiting) > 0 && next.more() {
			if n.give(n.waiting[0], &next); n.waiting[0].missing() == 0 {
				n.waiting = n.waiting[1:]
			}
		}
	}
	o.calls = lacking
	n.waiting = append(lacking, n.waiting...)
}

// give hands a caller numbers until it has all or there are no more.
func (n *node) give(c *call, next *numbers) {
	for c.missing() > 0 && next.more() {
		c.got = append(c.got, next.take())
		n.highest = max(n.highest, c.got[len(c.got)-1])
	}
	n.seen = max(n.seen, n.highest)
	if c.missing() == 0 && !c.gone {
		n.w.check.end(c)
	}
}

// numbers are those of some ranges, one after another.
type numbers struct{ ranges []persist.Range }

func (s *numbers) more() bool { return len(s.ranges) > 0 }

func (s *numbers) take() int64 {
	r := &s.ranges[0]
	number := r.First
	if r.First++; r.First > r.Last {
		s.ranges = s.ranges[1:]
	}
	return number
}

func (n *node) seeCeil(ceil int64) {
	n.ceil = max(n.ceil, ceil)
	n.seen = max(n.seen, ceil)
}

// failed goes on after a request whose outcome nobody will know.
func (n *node) failed(o *op) {
	n.storeAway = n.storeAway || o.atStore
	n.w.say("%s: %s failed", n.name, taskNames[o.task])
	n.end(o)
	if o.atStore {
		n.belief.failed = n.w.step
	}
	switch o.task {
	case taking:
		n.waiting = append(keep(o.calls), n.waiting...)
		n.mends = true
	case mending:
		if o.installing {
			n.forget(o.r)
		}
		if !o.atStore && !o.installing {
			n.redisFailed()
		}
	case refilling:
		if o.installing {
			n.forget(o.r)
		}
	case givingBack:
		n.die("stopped")
	}
}

// keep returns the calls whose callers are still there.
func keep(calls []*call) (there []*call) {
	for _, c := range calls {
		if !c.gone {
			there = append(there, c)
		}
	}
	return there
}

// forget does what is to be done with a range of which nobody knows whether it is in the cursor:
// nothing.
func (n *node) forget(r persist.Range) {
	if n.w.out[abandonUnknown] {
		n.standby = r
	}
}

// redisFailed looks for another primary, and does without any if that has been going on for long.
func (n *node) redisFailed() {
	n.target = n.w.findPrimary(n)
	switch {
	case n.settings.reject:
		n.w.say("%s: refuses its %d callers", n.name, len(n.waiting))
		n.waiting = nil
	case n.w.dice.OneIn(2) && n.w.mayDegrade(n):
		n.leave()
	}
}

// start starts a process.
func (n *node) start(s settings) {
	n.process, n.mode, n.paused, n.settings = newProcess(), online, false, s
	n.regime, n.born = n.next, n.w.step
	n.target = nil // it may be of another Redis
	n.target = n.w.findPrimary(n)
	switch {
	case n.apart:
		n.mode = separate
	case !n.w.out[freshAsks]:
		n.ask()
	}
}

func newProcess() process {
	return process{tookFresh: -1, belief: belief{asked: -1, learnt: -1, failed: -1 - trust}}
}

// alone is whether it issues on its own.
func (n *node) alone() bool { return n.mode == degraded || n.mode == separate }

// say writes a line about the node.
func (n *node) say(format string, args ...any) { n.w.say(n.name+": "+format, args...) }

// die ends the process.
func (n *node) die(how string) {
	n.w.say("%s: %s", n.name, how)
	n.w.check.died(n)
	for _, o := range n.ops {
		if o != nil {
			n.end(o)
		}
	}
	n.process, n.mode, n.paused = newProcess(), down, false
}
