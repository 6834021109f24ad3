package model

import (
	"strconv"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// task is an activity of a node. Of each a node has at most one under way.
type task int

// The tasks.
const (
	taking     task = iota // a take for a batch of callers
	mending                // look at the cursor and do what it lacks
	refilling              // allocate and append in the background
	standingBy             // allocate the standby range
	fetching               // allocate a range for the local buffer
	// find out whether the cursor can be used again, and allocate what the return will need
	probing
	givingBack // give back at a clean stop
	asking     // ask the store which cursor counts
	tasksInAll
)

var taskNames = [tasksInAll]string{"take", "mend", "refill", "standby", "local fetch", "probe", "give-back", "question"}

// op is one go of a task: what it was begun with and where it stands.
type op struct {
	node *node
	task task
	// over is set when nobody waits for it any more: what still comes in for it is dropped.
	over bool
	// calls are the callers of a take.
	calls []*call
	// gen is the beginning of the cursor that a range is for, mode how it is to be installed, to
	// what the store is told that it is for.
	gen, mode string
	to        persist.Target
	// believed is the epoch that its last take named.
	believed string
	// disputed is the beginning of a cursor of another epoch that the store has been asked about.
	disputed string
	// r is the range that was sent in an install.
	r persist.Range
	// atStore and installing say which answer is awaited.
	atStore, installing bool
	// rest is what is still to be given back, the highest range first.
	rest []persist.Range
}

// place is where a message goes.
type place int

// The places.
const (
	toRedis place = iota
	toStore
	toNode
)

// message is a request or a reply on its way. Messages of different connections overtake each
// other, and every request has its own.
type message struct {
	to place
	op *op

	server  *server // of a request to Redis
	install bool    // which of the two scripts
	args    arguments

	question question // of a request to the store, and of its reply
	request  persist.Request
	rest     persist.Range
	asked    int   // the step at which it was sent
	sent     int64 // the moment

	failed   bool // of a reply: an error, after which the request may or may not have been done
	look     look
	answer   answer
	epoch    string
	refused  bool // the store believes in another cursor
	r        persist.Range
	given    bool
	repeated bool
	// until is the step before which it cannot arrive.
	until int
}

// question is what the store is asked.
type question int

// The questions.
const (
	readEpoch question = iota
	allocate
	giveBack
)

// send puts a message on its way.
func (w *world) send(m *message) { w.inFlight = append(w.inFlight, m) }

// remove takes a message off the network.
func (w *world) remove(i int) {
	last := len(w.inFlight) - 1
	copy(w.inFlight[i:], w.inFlight[i+1:])
	w.inFlight[last] = nil
	w.inFlight = w.inFlight[:last]
}

// arrive lets a message do what it is there for.
func (w *world) arrive(m *message) {
	switch m.to {
	case toRedis:
		w.send(w.serveRedis(m))
	case toStore:
		w.send(w.serveStore(m))
	case toNode:
		m.op.node.receive(m)
	}
}

// serveRedis runs a script.
func (w *world) serveRedis(m *message) *message {
	reply := &message{to: toNode, op: m.op, install: m.install}
	s := m.server
	if !s.up {
		w.say("%s: no connection for the %s of %s", s.name, taskNames[m.op.task], m.op.node.name)
		reply.failed = true
		return reply
	}
	program := w.lua.take
	if m.install {
		program = w.lua.install
	}
	words, err := w.lua.run(program, s, &m.args)
	if err != nil {
		reply.failed = true
		w.say("%s: %s of %s: %v", s.name, taskNames[m.op.task], m.op.node.name, err)
		if !s.replica {
			panic(err)
		}
		return reply
	}
	w.say("%s: %s of %s %v: %v", s.name, taskNames[m.op.task], m.op.node.name, m.args[3:], words)
	if m.install {
		reply.answer = readAnswer(words)
		reply.failed = reply.answer.verdict == "replica"
		w.count(m.args[6] + " " + reply.answer.verdict)
		return reply
	}
	reply.look = readLook(words)
	reply.failed = reply.look.failed
	w.count(words[0])
	for _, r := range reply.look.runs {
		w.check.taken = max(w.check.taken, r.Last)
	}
	return reply
}

// serveStore answers a question.
func (w *world) serveStore(m *message) *message {
	reply := &message{to: toNode, op: m.op, question: m.question, asked: m.asked, sent: m.sent}
	if w.store.down {
		reply.failed = true
		return reply
	}
	who := m.op.node.name
	switch m.question {
	case readEpoch:
		reply.epoch = w.storedEpoch()
		w.say("store: epoch %s for the %s of %s", short(reply.epoch), taskNames[m.op.task], who)
	case allocate:
		w.serveAllocate(m, reply)
	case giveBack:
		reply.given = w.store.giveBack(m.rest)
		w.say("store: %s gives back %d to %d: %t", who, m.rest.First, m.rest.Last, reply.given)
		if reply.given {
			w.count("given back")
		}
	}
	return reply
}

// serveAllocate hands out a range.
func (w *world) serveAllocate(m, reply *message) {
	request, who := w.careless(m.request), m.op.node.name
	behind := w.store.counter.Max < request.Floor
	r, ok := w.store.allocate(request)
	reply.r, reply.refused, reply.epoch = r, !ok, request.To.Epoch()
	if !ok {
		w.say("store: none for the %s of %s, which believes in another cursor", taskNames[m.op.task], who)
		w.count("refused by the store: " + taskNames[m.op.task])
		return
	}
	if !request.To.Keeps() && request.To.Epoch() != "" {
		w.count("epoch drawn")
	}
	w.say("store: %d to %d for the %s of %s, floor %d, epoch %s", r.First, r.Last, taskNames[m.op.task], who, request.Floor, short(w.store.counter.Epoch))
	if behind {
		w.say("%s: alarm: the store was behind %d, which was seen", who, request.Floor)
		w.count("store behind")
	}
}

// begin starts a task, which must not be under way.
func (n *node) begin(t task) *op {
	o := &op{node: n, task: t}
	n.ops[t] = o
	return o
}

// end ends it. What still comes in for it is dropped.
func (n *node) end(o *op) {
	o.over = true
	if n.ops[o.task] == o {
		n.ops[o.task] = nil
	}
}

// cancel ends a task if it is under way.
func (n *node) cancel(t task) {
	if o := n.ops[t]; o != nil {
		n.end(o)
	}
}

// receive hands a reply to whom it is for.
func (n *node) receive(m *message) {
	o := m.op
	switch {
	case o.over:
		n.w.say("%s: a reply for a %s comes too late", n.name, taskNames[o.task])
		return
	case m.failed:
		n.failed(o)
	case o.atStore:
		o.atStore = false
		n.storeAway = false
		n.stored(o, m)
	case m.install:
		o.installing = false
		n.installed(o, m.answer)
	default:
		if !m.look.stub && !m.look.other {
			m.look.epoch = o.believed
		}
		n.looked(o, m.look)
	}
	n.pump()
}

// sendTake sends the take script.
func (n *node) sendTake(o *op, wanted int64, mayClaim bool) {
	use, claim := "0", "0"
	if n.storeAway {
		use = "1"
	}
	if mayClaim {
		claim = "100"
	}
	o.believed = n.belief.epoch
	n.w.send(&message{to: toRedis, op: o, server: n.target, args: arguments{
		format, "cluster", n.w.draw(), strconv.FormatInt(wanted, 10), n.settings.threshold, n.settings.reserveText, use, claim, o.believed,
	}})
}

// format is the format version of a hash.
var format = strconv.Itoa(rediscursor.FormatVersion)

// sendInstall sends the install script with the range of o.
func (n *node) sendInstall(o *op, epoch string) {
	o.installing = true
	n.w.send(&message{to: toRedis, op: o, server: n.target, install: true, args: arguments{
		format, "cluster", n.w.draw(), o.gen, strconv.FormatInt(o.r.First, 10), strconv.FormatInt(o.r.Last, 10), o.mode, n.settings.reserveText, epoch,
	}})
}

// sendStore sends a question to the store.
func (n *node) sendStore(m *message) {
	m.op.atStore, m.to, m.asked, m.sent = true, toStore, n.w.step, n.w.moment()
	n.w.send(m)
}

// fetch asks the store for a range.
func (n *node) fetch(o *op) { n.sendStore(&message{op: o, question: allocate, request: n.request(o)}) }

// stored goes on with what the store answered.
func (n *node) stored(o *op, m *message) {
	switch m.question {
	case readEpoch:
		n.believe(m.epoch, m, false)
		n.answered(o)
	case allocate:
		if m.refused {
			n.askFor(o)
			return
		}
		n.seen = max(n.seen, m.r.Last)
		if !o.to.Keeps() {
			n.believe(m.epoch, m, true)
		}
		n.gotRange(o, m.r)
	case giveBack:
		n.gaveBack(o, m.given)
	}
}

// restoreGap is how far above everything a node goes that finds the store behind.
const restoreGap = 100

// standbySize is how many numbers a standby range holds.
const standbySize = 3

// request is what a range is asked for with.
func (n *node) request(o *op) persist.Request {
	switch {
	case o.task == mending || o.task == refilling || o.task == probing:
	case n.apart && !n.w.out[apartEmpties]:
		o.to = persist.Target{}
	default:
		o.to = persist.Beside
	}
	req := persist.Request{BizTag: "order", Size: n.settings.step, Floor: n.seen, Gap: restoreGap, To: o.to}
	if o.task == standingBy {
		req.Size = standbySize
	}
	if n.w.out[floorRule] {
		req.Floor = 0
	}
	return req
}

// gotRange does with a range what it was allocated for.
func (n *node) gotRange(o *op, r persist.Range) {
	switch o.task {
	case mending:
		if o.mode != "append" {
			n.spare = spare{r, o.gen, o.to.Epoch()}
			n.lookAgain(o)
			return
		}
		fallthrough
	case refilling:
		o.r = r
		n.sendInstall(o, o.to.Epoch())
	case standingBy:
		n.end(o)
		if r.First > n.ceil {
			n.standby = r
		}
	case probing:
		n.spare = spare{r, o.gen, o.to.Epoch()}
		n.goBack()
	case fetching:
		n.end(o)
		n.local = append(n.local, r)
	}
}
