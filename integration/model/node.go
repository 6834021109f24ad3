package model

import (
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// settings may differ from node to node while they are being changed.
type settings struct {
	step      int64
	reserve   int
	threshold float64
	reject    bool // onRedisDown
}

// node is one process after another on one machine. What a process knows goes with it.
type node struct {
	w        *world
	name     string
	settings settings
	up       bool
	paused   bool    // nothing of it runs; requests it sent continue
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
	by    sequencer
}

// sequencer is the setting of that name.
type sequencer int

// The sequencers.
const (
	byRedis sequencer = iota
	byStore
	auto // by whichever sequences the counter already
)

// process is what is lost in a crash.
type process struct {
	regime
	born time.Time
	m    *cursor.Machine // nil if the ordering is per-node, or the store sequences the counter
	// st is the machine of takes from the store, nil if the store does not sequence the counter.
	st       *storetake.Machine
	heritage cursor.Known // of st
	yields   bool         // the other sequencer is to be followed
	// local is the node's own buffer while it is open.
	local *local
	ops   [tasksInAll]*op

	waiting   []*call // not yet part of a take
	held      bool    // the machine holds the next take back
	stopping  bool
	storeAway bool // as the shell of the machine noted it
	// tookFresh is when it sent a take last that the rule beliefsAge held for, and inVain when it
	// waited in vain for the store's word, which excuses it from the rule.
	tookFresh, inVain time.Time

	highest int64 // the highest number it has issued
	ended   int64 // the highest number of its calls that have ended
	// spare and standby are the ranges that the machine keeps, or has installed or issued from.
	spare, standby persist.Range
	handed         handedOut
}

// String returns the value of the setting.
func (s sequencer) String() string { return [...]string{"redis", "store", "auto"}[s] }

// call is one caller.
type call struct {
	node    *node
	want    int
	got     []int64
	gone    bool
	local   bool  // some of its numbers are from a local buffer
	waiting int64 // the numbers that the machine knows it to wait for
	start   bounds
}

func (c *call) missing() int { return c.want - len(c.got) }

// call lets a caller arrive.
func (n *node) call(want int) {
	c := &call{node: n, want: want, start: n.w.check.begin(n)}
	n.say("a caller wants %d", want)
	n.waiting = append(n.waiting, c)
	if l := n.local; l != nil && l.closing && n.w.dice.OneIn(2) {
		n.serveLocally() // it had found the buffer open
	}
	n.settle()
}

// start starts a process, which asks the store for its counter.
func (n *node) start(s settings) {
	n.process, n.up, n.paused, n.settings = process{}, true, false, s
	n.regime, n.born = n.next, n.w.now
	n.target = nil // it may be of another Redis
	n.target = n.w.findPrimary(n)
	switch {
	case n.apart:
		n.local = &local{}
	case n.by == byStore:
		n.runStored(cursor.Known{})
	default:
		n.run()
	}
}

// run starts the machine of a process.
func (n *node) run() {
	n.m = cursor.New(cursor.Config{
		Start: start + 1, Threshold: n.settings.threshold, Reserve: n.settings.reserve, Degrade: !n.settings.reject, TakeOver: n.by == byRedis || n.w.out[autoKeeps],
		Step: n.settings.step, MaxStep: 1000, Patience: 2 * time.Second, NewEpoch: n.w.newEpoch, Without: n.w.out.machine(),
	})
	if !n.w.out[freshAsks] {
		n.sendStore(&message{op: n.begin(beginning), question: readEpoch})
	}
}

// die ends the process.
func (n *node) die(how string) {
	n.say("%s", how)
	n.w.check.died(n)
	n.cancel()
	n.process, n.up, n.paused = process{}, false, false
}

// cancel ends all ops.
func (n *node) cancel() {
	for _, o := range n.ops {
		if o != nil {
			n.end(o)
		}
	}
}

// stop begins a clean stop.
func (n *node) stop() {
	n.say("stops")
	if n.w.out[closeFirst] && n.local != nil {
		n.giveBack(slices.Clone(n.local.ranges), true)
		return
	}
	n.stopping, n.waiting = true, nil
	if n.st != nil {
		n.st.Stop()
	}
	if n.m != nil {
		n.m.Stop(n.w.now)
	}
	n.settle()
	if n.w.dice.OneIn(3) {
		n.finish()
	}
}

// finish ends a clean stop, also if something is still under way: what only this node has is given
// back, once. What still comes in is passed on to the machine, which drops it.
func (n *node) finish() {
	if n.ops[givingBack] != nil {
		return
	}
	var rest []persist.Range
	if l := n.local; l != nil && !l.closing { // otherwise its rest is about to be dropped
		rest, n.local = l.ranges, nil
	}
	if n.m != nil {
		rest = append(rest, n.m.Finish()...)
	}
	for _, t := range []task{fetching, handingOut} {
		if o := n.ops[t]; o != nil {
			n.end(o)
		}
	}
	n.giveBack(rest, true)
}

// renew replaces the machine of a running process by one with other settings.
func (n *node) renew(s settings) {
	n.say("has other settings")
	n.settings = s
	if n.m == nil && n.st == nil || n.stopping {
		return
	}
	n.replace(n.st != nil)
	n.w.count("other settings")
}

// replace replaces the machine of a running process by another one, which inherits what is known.
func (n *node) replace(stored bool) {
	known, rest := n.retire()
	n.w.check.died(n)
	if o := n.ops[handingOut]; o != nil {
		o.inherited = true
	}
	n.cancel()
	waiting := n.waiting
	n.waiting, n.held, n.yields = nil, false, false
	if n.w.out[handOutHeir] {
		n.handed.beside = 0
	}
	if n.m, n.st = nil, nil; stored {
		n.runStored(known)
	} else {
		n.run()
		n.m.Inherit(known)
	}
	for _, c := range waiting {
		c.waiting = 0
		n.waiting = append(n.waiting, c)
	}
	n.giveBack(rest, false)
}

// retire ends the machine of a running process. It returns what its heir must know, and what is to
// be given back.
func (n *node) retire() (known cursor.Known, rest []persist.Range) {
	if n.st != nil {
		n.st.Stop()
		return n.knownStored(), nil
	}
	var issued int64
	if n.local != nil {
		issued = n.local.issued
	}
	n.m.Stop(n.w.now)
	n.m.Commands()
	known, rest = n.m.Known(issued), n.m.Finish()
	if l := n.local; l != nil && !l.closing {
		rest = append(rest, l.ranges...)
	}
	n.local = nil
	return known, rest
}

// clock is the time that the machine is told. It may be that of a moment before: the shell in seqd
// reads the clock before it waits for its lock.
func (n *node) clock() time.Time {
	if n.w.jitter == 0 {
		return n.w.now
	}
	return n.w.now.Add(-time.Duration(n.w.dice.Below(int(n.w.jitter))))
}

// ceil is the highest number that the process knows to have been in the cursor.
func (n *node) ceil() int64 {
	if n.m == nil {
		return 0
	}
	return n.m.Known(0).Ceil
}

// say writes a line about the node.
func (n *node) say(format string, args ...any) { n.w.say(n.name+": "+format, args...) }
