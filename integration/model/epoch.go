package model

import "github.com/seqd/seqd/persist"

const (
	// trust is for how many steps a take may go on under what the store said last.
	trust = 60
	// seedPatience is how many steps the node that drew an epoch is given to install its seed.
	seedPatience = 15
)

// belief is which cursor counts, as the store last said.
type belief struct {
	epoch string // empty for none, also before the store has answered
	asked int    // the step at which the question was sent that this answers, -1 before the first
	// accepted is the moment at which the answer came. An answer to a question of before may be
	// older than this one.
	accepted int64
	learnt   int // the step at which another node's epoch was learnt
	failed   int // the step at which a question failed last
}

// moment returns a number greater than any before: the order in which things happen within a step.
func (w *world) moment() int64 {
	w.moments++
	return w.moments
}

// ask asks the store which cursor counts, unless that is under way.
func (n *node) ask() {
	if n.ops[asking] == nil {
		n.askFor(n.begin(asking))
	}
}

// askFor asks it for a task that cannot go on before.
func (n *node) askFor(o *op) {
	n.sendStore(&message{op: o, question: readEpoch})
}

// answered goes on after that.
func (n *node) answered(o *op) {
	switch o.task {
	case mending:
		n.lookAgain(o)
	case probing:
		n.sendTake(o, 0, false)
	default:
		n.end(o)
	}
}

// believe notes what the store said in a reply, about an epoch. own is whether this node has just
// drawn it.
func (n *node) believe(epoch string, reply *message, own bool) {
	b := &n.belief
	asked := reply.asked
	if reply.sent < b.accepted {
		if !n.w.out[answersInOrder] {
			n.w.count("answer out of order")
			return
		}
		asked = n.w.step
	}
	if epoch != b.epoch {
		n.say("believes in %s", short(epoch))
		if !own && epoch != "" && b.asked >= 0 {
			b.learnt = n.w.step
		}
	}
	b.epoch, b.asked, b.accepted = epoch, asked, n.w.moment()
}

// adopt believes in a cursor because it is there. No rule allows that.
func (n *node) adopt(epoch string) {
	n.say("adopts %s", short(epoch))
	n.belief.epoch, n.belief.asked, n.belief.accepted = epoch, n.w.step, n.w.moment()
}

// excused is whether the store is away as far as the node can tell: then the last belief stands.
func (n *node) excused() bool { return n.w.step-n.belief.failed <= trust }

// outdated is whether a take must not be sent before the store was asked again. A process that
// knows nothing may take: it names no epoch, and gets nothing.
func (n *node) outdated() bool {
	b := &n.belief
	return b.asked >= 0 && n.w.step-b.asked > trust && !n.excused() && !n.w.out[beliefsAge]
}

// awaitsSeed is whether another node has drawn an epoch just now, and may still install its seed.
func (n *node) awaitsSeed() bool {
	b := &n.belief
	return b.epoch != "" && b.learnt >= 0 && n.w.step-b.learnt < seedPatience && !n.w.out[patienceRule]
}

// goal is where a range goes that is to begin the cursor that a look saw.
func (n *node) goal(l look) persist.Target {
	switch believed := n.belief.epoch; {
	case !l.stub && !l.other:
		return persist.ToCursor(l.epoch)
	case believed != "" && n.w.out[drawnAnew]:
		return persist.NewCursor(believed, believed)
	default:
		return persist.NewCursor(believed, n.w.newEpoch())
	}
}

// spareFits is whether the spare range can begin the cursor that a look saw.
func (n *node) spareFits(l look) bool {
	s := &n.spare
	if s.r.First <= n.highest || s.gen != l.gen && !n.w.out[youngSpare] {
		return false
	}
	seed := l.stub || l.other
	if s.epoch == n.belief.epoch && seed == (s.epoch != l.epoch) {
		return true
	}
	n.w.count("spare of another epoch")
	return n.w.out[spareEpoch]
}

// disputed decides about a cursor that is live under another epoch. It reports whether the node may
// seed over it: if not, it has asked the store, or is to look again later.
func (n *node) disputed(o *op, l look) (seed, wait bool) {
	switch {
	case n.w.out[askToAdopt] || n.w.out[freshAsks] && n.belief.asked < 0:
		n.adopt(l.epoch)
		n.answered(o)
	case o.disputed != l.gen:
		o.disputed = l.gen
		n.askFor(o)
	case n.awaitsSeed():
		return false, true
	default:
		return true, false
	}
	return false, false
}

// rereads lets a node ask the store which cursor counts.
func (w *world) rereads() bool {
	n := w.running()
	if n == nil || n.mode != online || n.ops[asking] != nil || w.out[beliefsAge] {
		return false
	}
	n.ask()
	return true
}
