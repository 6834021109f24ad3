package model

import (
	"time"

	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// action is a kind of step.
type action int

// The actions: first what happens in any case, then how faults end, then faults.
const (
	arrives action = iota
	callerComes
	handsOut
	replicates
	timesOut
	callerGoes
	ticks
	timePasses
	isAsked
	resumes
	restarts
	reconnects
	evens
	storeReturns
	serverStarts
	splitEnds
	syncs
	storeReplicates
	raisesAgain
	creates
	recovers
	confirms
	looses
	delays
	pauses
	crashes
	stops
	disconnects
	changesSettings
	misled
	switches
	storeFails
	storeFailsOver
	backsUp
	restoresRaised
	restoresStopped
	restoresBare
	restoresTaken
	restoresIssued
	recreates
	moves
	mixes
	turns
	movesSequencer
	mixesSequencers
	savesSnapshot
	evicts
	serverRestarts
	serverDies
	failsOver
	splits
	replicaAttaches
	clockJumps
	actionsInAll
	firstFault = looses
	// These stop all nodes, or configure some of them differently. Half of the worlds have none of
	// them.
	firstRegime, lastRegime = restoresIssued, mixesSequencers
)

// actions are what each action does. It reports false if there is nothing to do it to. base is how
// often it happens, which differs from seed to seed, see weigh.
var actions = [actionsInAll]struct {
	base int
	do   func(w *world) bool
}{
	arrives:         {600, (*world).arrives},
	callerComes:     {250, (*world).callerComes},
	handsOut:        {8, (*world).handsOut},
	replicates:      {40, (*world).replicates},
	timesOut:        {30, (*world).timesOut},
	callerGoes:      {8, (*world).callerGoes},
	ticks:           {150, (*world).ticks},
	timePasses:      {2, (*world).timePasses},
	isAsked:         {5, (*world).isAsked},
	resumes:         {15, (*world).resumes},
	restarts:        {15, (*world).restarts},
	reconnects:      {10, (*world).reconnects},
	evens:           {20, (*world).evens},
	storeReturns:    {12, (*world).storeReturns},
	serverStarts:    {12, (*world).serverStarts},
	splitEnds:       {8, (*world).splitEnds},
	syncs:           {10, (*world).syncs},
	storeReplicates: {6, (*world).storeReplicates},
	raisesAgain:     {1, (*world).raisesAgain},
	creates:         {20, (*world).creates},
	recovers:        {5, (*world).recovers},
	confirms:        {1, (*world).confirms},
	looses:          {10, (*world).looses},
	delays:          {10, (*world).delays},
	pauses:          {6, (*world).pauses},
	crashes:         {3, (*world).crashes},
	stops:           {5, (*world).stops},
	disconnects:     {4, (*world).disconnects},
	changesSettings: {2, (*world).changesSettings},
	misled:          {4, (*world).misled},
	switches:        {6, (*world).switches},
	storeFails:      {3, (*world).storeFails},
	storeFailsOver:  {4, (*world).storeFailsOver},
	backsUp:         {3, (*world).backsUp},
	restoresRaised:  {2, (*world).restoresRaised},
	restoresStopped: {2, (*world).restoresStopped},
	restoresBare:    {4, (*world).restoresBare},
	restoresTaken:   {3, (*world).restoresTaken},
	restoresIssued:  {1, (*world).restoresIssued},
	recreates:       {1, (*world).recreates},
	moves:           {1, (*world).moves},
	mixes:           {2, (*world).mixes},
	turns:           {2, (*world).turns},
	movesSequencer:  {1, (*world).movesSequencer},
	mixesSequencers: {2, (*world).mixesSequencers},
	savesSnapshot:   {3, (*world).savesSnapshot},
	evicts:          {3, (*world).evicts},
	serverRestarts:  {3, (*world).serverRestarts},
	serverDies:      {3, (*world).serverDies},
	failsOver:       {4, (*world).failsOver},
	splits:          {3, (*world).splits},
	replicaAttaches: {2, (*world).replicaAttaches},
	clockJumps:      {2, (*world).clockJumps},
}

// weigh decides how often each action happens under this seed. Most faults do not happen at all, so
// that those that happen have time to unfold. Those that test the rule of this seed happen often.
func (w *world) weigh() {
	pure, even := w.dice.OneIn(2), w.dice.OneIn(2)
	for a := range actions {
		w.weights[a] = actions[a].base
		switch {
		case action(a) < firstFault:
		case pure, even && action(a) >= firstRegime && action(a) <= lastRegime:
			w.weights[a] = 0
		default:
			w.weights[a] *= worlds.Pick(&w.dice, 0, 0, 0, 0, 1, 2)
		}
	}
	w.weights[callerComes] /= worlds.Pick(&w.dice, 1, 1, 3, 10)
	w.weights[handsOut] *= worlds.Pick(&w.dice, 0, 0, 1, 4)
	for _, a := range temptations[w.seed%uint64(rulesInAll)] {
		w.weights[a] += 3 * actions[a].base
	}
	w.sum()
}

// sum makes weights cumulative.
func (w *world) sum() {
	for a := 1; a < len(w.weights); a++ {
		w.weights[a] += w.weights[a-1]
	}
}

// act does one action, and reports whether there was something to do it to.
func (w *world) act() bool { return actions[w.dice.Draw(w.weights[:])].do(w) }

// fragile reports whether Redis must not fail now, see restoresBare.
func (w *world) fragile() bool { return w.restoredTo > 0 }

func (w *world) someNode() *node { return w.nodes[w.dice.Below(len(w.nodes))] }

// someServer returns a server. That of the other Redis is returned only if a node uses it.
func (w *world) someServer() *server {
	s := w.servers[w.dice.Below(len(w.servers))]
	if s.redis == w.redis || w.uses(s.redis) {
		return s
	}
	return w.servers[w.dice.Below(2)]
}

// lucky reports whether a node is spared from faults: in some worlds all of them hit one node.
func (w *world) lucky(n *node) bool { return w.unlucky != nil && n != w.unlucky }

// running returns a node whose process runs, or nil.
func (w *world) running() *node {
	if n := w.someNode(); n.up && !n.paused {
		return n
	}
	return nil
}

// arrives delivers a message, more often an old one.
func (w *world) arrives() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	i := min(w.dice.Below(len(w.inFlight)), w.dice.Below(len(w.inFlight)))
	m := w.inFlight[i]
	n := m.op.node
	if m.until > w.step && !w.healing || m.to == toNode && n.paused && !m.op.over {
		return false
	}
	if w.repeats(m) {
		again := *m
		again.repeated, again.until = true, w.step+w.dice.Below(100)
		w.send(&again)
	}
	w.remove(i)
	if q := m.op.question; n.cut && !q.atStore() && q != closeLocal {
		w.say("%s is cut off: what its %s sent is lost", n.name, m.op.task)
		return true
	}
	w.arrive(m)
	return true
}

// repeats reports whether the network delivers a message twice. It does so only if the rule is
// taken out that says that such a message is never repeated.
func (w *world) repeats(m *message) bool {
	if m.repeated || !w.dice.OneIn(3) {
		return false
	}
	if w.out[takeOnce] && m.to == toStore && m.op.take != nil {
		return true
	}
	return w.out[installOnce] && m.to == toRedis && m.question == install || w.out[giveBackOnce] && m.to == toStore && m.question == giveBack
}

// looses drops a message.
func (w *world) looses() bool {
	if len(w.inFlight) == 0 || w.fragile() {
		return false
	}
	i := w.dice.Below(len(w.inFlight))
	m := w.inFlight[i]
	if w.lucky(m.op.node) || m.op.task == closing {
		return false
	}
	w.say("lost: a message of the %s of %s", m.op.task, m.op.node.name)
	w.remove(i)
	return true
}

// delays keeps a message on the network for long.
func (w *world) delays() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	m := w.inFlight[w.dice.Below(len(w.inFlight))]
	if w.dice.OneIn(2) {
		for _, other := range w.inFlight {
			if other.question == install && other.to == toRedis {
				m = other // a late install can do the most harm
			}
		}
	}
	m.until = w.step + w.dice.Below(200)
	w.say("late: a message of the %s of %s", m.op.task, m.op.node.name)
	return true
}

func (w *world) callerComes() bool {
	n := w.running()
	if n == nil || n.stopping || len(n.waiting) > 3 {
		return false
	}
	n.call(1 + w.dice.Below(4))
	return true
}

// callerGoes lets a caller give up.
func (w *world) callerGoes() bool {
	n := w.running()
	if n == nil {
		return false
	}
	if o := n.ops[taking]; o != nil && w.dice.OneIn(2) {
		o.calls[w.dice.Below(len(o.calls))].gone = true
	} else if len(n.waiting) > 0 {
		n.unwait(n.waiting[0])
		n.waiting = n.waiting[1:]
	} else {
		return false
	}
	w.say("%s: a caller gives up", n.name)
	return true
}

// timesOut ends an op that waits for an answer.
func (w *world) timesOut() bool {
	n := w.running()
	if n == nil {
		return false
	}
	o := n.ops[w.dice.Below(int(tasksInAll))]
	if o == nil || o.task == closing || w.awaited(o) && (w.healing || w.lucky(n) || !w.dice.OneIn(3)) {
		return false
	}
	if !o.question.atStore() && !w.mayDegrade(n) {
		return false
	}
	n.fail(o)
	return true
}

// awaited reports whether a message of an op is still on its way.
func (w *world) awaited(o *op) bool {
	for _, m := range w.inFlight {
		if m.op == o {
			return true
		}
	}
	return false
}

// ticks ticks the machine of a node, mostly when its deadline has passed.
func (w *world) ticks() bool {
	n := w.running()
	if n == nil {
		return false
	}
	due := n.due()
	switch early := due.Sub(w.now); {
	case due.IsZero():
		return false
	case early > 0 && w.dice.OneIn(w.haste):
		w.advance(early)
	case early > 0 && !w.dice.OneIn(10):
		return false
	}
	if n.st != nil {
		n.tickStored(w.now)
	} else {
		n.m.Tick(w.now)
	}
	n.settle()
	return true
}

// isAsked asks a node how it is, which may make it look, or has it prepare for callers.
func (w *world) isAsked() bool {
	n := w.running()
	if n != nil && n.st != nil {
		n.st.Health(w.now)
	}
	if n == nil || n.m == nil {
		return false
	}
	if w.dice.OneIn(4) {
		if n.ops[taking] == nil && n.ops[beginning] == nil && !n.held {
			n.m.Prepare(w.now)
		}
	} else {
		away := cursor.RedisAway{Since: w.now.Add(-time.Minute)}
		if w.dice.OneIn(2) {
			away.Cause = errAway
		}
		n.m.Health(w.now, away)
		n.m.Degraded(w.now, away)
	}
	n.settle()
	return true
}

// timePasses lets time pass in which nothing else happens.
func (w *world) timePasses() bool {
	d := worlds.Pick(&w.dice, 300*time.Millisecond, time.Second, 6*time.Second, 70*time.Second)
	w.say("nothing happens for %v", d)
	w.advance(d)
	return true
}

func (w *world) pauses() bool {
	n := w.running()
	if n == nil || w.lucky(n) {
		return false
	}
	w.say("%s: pauses", n.name)
	n.paused = true
	return true
}

func (w *world) resumes() bool {
	n := w.someNode()
	if !n.paused {
		return false
	}
	w.say("%s: continues", n.name)
	n.paused = false
	return true
}

func (w *world) crashes() bool {
	n := w.someNode()
	if !n.up || w.restoredTaken {
		return false
	}
	n.die("crashes")
	return true
}

func (w *world) stops() bool {
	n := w.running()
	if n == nil || n.ops[givingBack] != nil || w.restoredTaken {
		return false
	}
	if n.stopping {
		n.finish() // it waits no longer
	} else {
		n.stop()
	}
	return true
}

func (w *world) restarts() bool {
	n := w.someNode()
	if n.up {
		return false
	}
	w.say("%s: starts", n.name)
	n.start(w.newSettings())
	return true
}

func (w *world) disconnects() bool {
	n := w.someNode()
	if n.cut || w.lucky(n) || !w.mayDegrade(n) {
		return false
	}
	w.say("%s: is cut off from Redis", n.name)
	n.cut = true
	return true
}

func (w *world) reconnects() bool {
	n := w.someNode()
	if !n.cut {
		return false
	}
	w.say("%s: reaches Redis again", n.name)
	n.cut = false
	return true
}

// changesSettings changes the settings of a running process.
func (w *world) changesSettings() bool {
	n := w.running()
	if n == nil {
		return false
	}
	n.renew(w.newSettings())
	n.settle()
	return true
}

// misled points a node at a replica, which may accept writes.
func (w *world) misled() bool {
	n, s := w.running(), w.someServer()
	if n == nil || !s.up || !s.replica || s.redis != n.redis || !w.mayDegrade(n) {
		return false
	}
	s.writable = w.dice.OneIn(2)
	n.target = s
	w.say("%s: takes the replica %s for the primary", n.name, s.name)
	return true
}

// switches points a node at another primary, without an error in between: its client learnt of a
// promotion.
func (w *world) switches() bool {
	n := w.running()
	if n == nil || n.target == w.findPrimary(n) || !w.mayDegrade(n) {
		return false
	}
	n.target = n.target.peer
	w.say("%s: %s is the primary now", n.name, n.target.name)
	return true
}
