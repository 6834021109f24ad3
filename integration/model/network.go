package model

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// task is an activity of a node: one of the machine's, or one of its shell's. Of each a node has at
// most one under way.
type task int

// The tasks of the shell. Those of the machine come before.
const (
	taking     task = iota + task(cursor.Check) + 1 // a take for a batch of callers
	beginning                                       // ask the store at the start
	reading                                         // read the counter, if the store sequences it
	fetching                                        // allocate a range for the local buffer
	closing                                         // close the local buffer
	givingBack                                      // give back at a clean stop
	handingOut                                      // allocate a range that a caller issues from later
	tasksInAll
)

// String returns the name of the task.
func (t task) String() string {
	if t < taking {
		return cursor.Task(t).String()
	}
	return [...]string{"take", "beginning", "reading", "local fetch", "closing", "give-back", "hand-out"}[t-taking]
}

// op is one run of a task.
type op struct {
	node *node
	task task
	by   sequencer // that the node was configured with
	sent time.Time
	// over is set once nobody waits for it any more: what still comes in for it is dropped.
	over bool
	// calls are the callers of a take, wanted is how many numbers they lack together.
	calls  []*call
	wanted int64
	// question is what was asked last.
	question question
	// rest is what is still to be given back, the highest range first.
	rest []persist.Range
	last bool // the process ends after it
	// take is what was asked of the store for callers, and stored how often the store did it.
	take   *storetake.Take
	stored int
	// expected is the range that a hand-out would bring; only without handOutKnown.
	expected persist.Range
	// inherited is set if the machine that a hand-out was for has been replaced.
	inherited bool
}

// place is where a message is sent to.
type place int

// The places.
const (
	toRedis place = iota
	toStore
	toNode
)

// question is what a message asks.
type question int

// The questions: the first two to Redis, the last to the node itself, the others to the store.
const (
	take question = iota
	install
	readEpoch
	readCounter
	allocate
	giveBack
	closeLocal
)

// atStore reports whether it is the store that answers.
func (q question) atStore() bool { return q > install && q < closeLocal }

// message is a request or a reply on its way. Messages of different connections overtake each
// other, and every request has its own.
type message struct {
	to       place
	op       *op
	question question

	server  *server // of a request to Redis
	random  string  // what its caller has drawn
	take    rediscursor.Take
	install rediscursor.Install
	request persist.Request // of a request to the store
	rest    persist.Range

	err    error // of a reply: the request may or may not have been done
	taken  rediscursor.Taken
	answer rediscursor.Answer
	epoch  string
	read   persist.Counter
	r      persist.Range
	given  bool

	repeated bool
	// until is the step before which it cannot arrive.
	until int
}

// errAway is what comes of a request to something that is away, and errUnanswered of one whose
// answer is waited for no longer.
var errAway, errUnanswered = errors.New("away"), errors.New("no answer")

// send puts a message on its way.
func (w *world) send(m *message) { w.inFlight = append(w.inFlight, m) }

// remove removes a message from the network.
func (w *world) remove(i int) {
	last := len(w.inFlight) - 1
	copy(w.inFlight[i:], w.inFlight[i+1:])
	w.inFlight[last] = nil
	w.inFlight = w.inFlight[:last]
}

// arrive delivers a message.
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

// notUnderstood counts replies of a primary that the client of the cursor refuses.
const notUnderstood = "reply that the client refuses"

// serveRedis runs a script, by the product's own client of the cursor.
func (w *world) serveRedis(m *message) *message {
	reply := &message{to: toNode, op: m.op, question: m.question}
	s, who := m.server, m.op.node.name
	if !s.up {
		w.say("%s: no connection for the %s of %s", s.name, m.op.task, who)
		reply.err = errAway
		return reply
	}
	l := w.lua
	l.server, l.random, l.words = s, m.random, l.words[:0]
	before := s.keys[key]["epoch"]
	if m.question == install {
		reply.answer, reply.err = l.cursor.Install(context.Background(), m.install)
	} else {
		reply.taken, reply.err = l.cursor.Take(context.Background(), m.take)
	}
	if reply.err != nil && !s.replica {
		w.count(notUnderstood) // or the script failed
	}
	if len(l.words) == 0 { // the script ended with an error
		w.say("%s: %s of %s: %v", s.name, m.op.task, who, reply.err)
		return reply
	}
	w.say("%s: %s of %s [%s]: [%s]", s.name, m.op.task, who, strings.Join(l.args, " "), strings.Join(l.words, " "))
	if m.question == install {
		w.count(string(m.install.Mode) + " " + l.words[0])
		if m.install.Mode == rediscursor.Seed && reply.answer.Verdict == rediscursor.Installed && before != "" {
			w.count("seed over another")
		}
		return reply
	}
	w.count(l.words[0])
	for _, r := range reply.taken.Runs {
		w.check.taken = max(w.check.taken, r.Last)
	}
	return reply
}

// serveStore answers a question.
func (w *world) serveStore(m *message) *message {
	reply := &message{to: toNode, op: m.op, question: m.question, err: m.err}
	if w.store.down {
		reply.err = errAway
	}
	if reply.err == nil && w.store.lost {
		reply.err = persist.ErrNotFound
	}
	if reply.err != nil {
		return reply
	}
	who := m.op.node.name
	switch m.question {
	case readEpoch:
		reply.epoch = w.storedEpoch()
		w.say("store: epoch %s for the %s of %s", short(reply.epoch), m.op.task, who)
	case readCounter:
		reply.read = w.store.read()
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
	behind, before := w.store.counter.Max < request.Floor, w.store.read()
	failedOver := before.FailedOver
	r, err := w.store.allocate(request)
	reply.r, reply.err = r, err
	if err != nil {
		w.say("store: none for the %s of %s, which believes in another cursor", m.op.task, who)
		w.count("refused by the store: " + m.op.task.String())
		return
	}
	if !request.To.Keeps() && request.To.Epoch() != "" {
		w.count("epoch drawn")
	}
	w.say("store: %d to %d for the %s of %s, floor %d, epoch %s", r.First, r.Last, m.op.task, who, request.Floor, short(w.store.counter.Epoch))
	if m.op.take != nil {
		w.storeTook(m.op, r)
	}
	w.keptSequencer(m.op, before.Epoch)
	if failedOver {
		w.count("continued above a failover")
	}
	if behind {
		w.say("%s: alarm: the store was behind %d, which was seen", who, request.Floor)
		w.count("store behind")
	}
}

// begin starts a task, which must not be under way.
func (n *node) begin(t task) *op {
	if n.ops[t] != nil {
		panic("two of the task " + t.String() + " at once")
	}
	o := &op{node: n, task: t, by: n.by, sent: n.w.now}
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

// receive passes a reply on to the node that waits for it.
func (n *node) receive(m *message) {
	o := m.op
	if present := n.ops[taking]; o.over && o.take != nil && m.err == nil && n.w.out[ownAnswer] && present != nil && present.take != nil {
		o = present
		m.op = o
	}
	if o.over {
		if o.inherited {
			n.late(o, m)
		}
		n.say("a reply for a %s comes too late", o.task)
		return
	}
	n.result(o, m)
	n.settle()
}

// fail ends a request whose outcome nobody will know.
func (n *node) fail(o *op) {
	n.say("%s failed", o.task)
	n.result(o, &message{op: o, question: o.question, err: errUnanswered})
	n.settle()
}

// sendRedis sends a script.
func (n *node) sendRedis(m *message) {
	if m.op.task == task(cursor.Comeback) {
		n.target = n.w.findPrimary(n)
	}
	m.op.question = m.question
	m.to, m.server, m.random = toRedis, n.target, n.w.draw()
	n.w.send(m)
}

// sendStore sends a question to the store.
func (n *node) sendStore(m *message) {
	m.to, m.op.question = toStore, m.question
	n.w.send(m)
}
