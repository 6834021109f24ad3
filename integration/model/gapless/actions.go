package gapless

import (
	"context"

	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// action is a kind of step.
type action int

// The actions: first what happens in any case, then how faults end, then faults.
const (
	arrives action = iota
	callerComes
	callerGoes
	ticks
	sweeping
	reads
	resumes
	restarts
	reconnects
	storeReturns
	confirms
	replicates
	purges
	timePasses
	looses
	delays
	repeatsMessage
	timesOut
	pauses
	crashes
	stops
	renews
	disconnects
	storeFails
	changesPolicy
	toggles
	hoursPass
	allDie
	backsUp
	restoresStopped
	restoresBare
	failsOver
	actionsInAll
	firstFault = looses
)

// actions are what each action does. It reports false if there is nothing to do it to. base is how
// often it happens, which differs from seed to seed, see weigh.
var actions [actionsInAll]struct {
	base int
	do   func(w *world) bool
}

func init() {
	for a, def := range map[action]struct {
		base int
		do   func(w *world) bool
	}{
		arrives: {600, (*world).arrives}, callerComes: {200, (*world).callerComes}, callerGoes: {10, (*world).callerGoes}, ticks: {60, (*world).ticks},
		sweeping: {60, (*world).sweeps}, reads: {10, (*world).reads}, resumes: {15, (*world).resumes}, restarts: {15, (*world).restarts},
		reconnects: {12, (*world).reconnects}, storeReturns: {15, (*world).storeReturns}, confirms: {6, (*world).confirms}, replicates: {20, (*world).replicates},
		purges: {4, (*world).purges}, timePasses: {10, (*world).timePasses},
		looses: {12, (*world).looses}, delays: {12, (*world).delays}, repeatsMessage: {6, (*world).repeatsMessage}, timesOut: {25, (*world).timesOut},
		pauses: {6, (*world).pauses}, crashes: {6, (*world).crashes}, stops: {5, (*world).stops}, renews: {5, (*world).renews},
		disconnects: {4, (*world).disconnects}, storeFails: {4, (*world).storeFails}, changesPolicy: {4, (*world).changesPolicy}, toggles: {1, (*world).toggles},
		hoursPass: {2, (*world).hoursPass}, allDie: {1, (*world).allDie}, backsUp: {4, (*world).backsUp},
		restoresStopped: {2, (*world).restoresStopped}, restoresBare: {2, (*world).restoresBare}, failsOver: {5, (*world).failsOver},
	} {
		actions[a] = def
	}
}

// weigh decides how often each action happens under this seed. Most faults do not happen at all, so
// that those that happen have time to unfold.
func (w *world) weigh() {
	pure := w.dice.OneIn(3)
	for a := range actions {
		w.weights[a] = actions[a].base
		switch {
		case action(a) < firstFault:
		case pure && (action(a) == restoresStopped || action(a) == restoresBare || action(a) == failsOver):
			w.weights[a] = 0
		default:
			w.weights[a] *= worlds.Pick(&w.dice, 0, 0, 1, 3)
		}
	}
	if w.seed%8 == 5 { // a store that goes back often, under machines that change
		for _, a := range []action{renews, backsUp, restoresBare, failsOver, timesOut, looses} {
			w.weights[a] += 3 * actions[a].base
		}
	}
	w.mayLose = w.weights[restoresStopped]+w.weights[restoresBare] > 0 || w.weights[failsOver] > 0 && w.store.kind == lossy
	w.weights[callerComes] /= worlds.Pick(&w.dice, 1, 1, 3)
	w.sum()
}

func (w *world) sum() {
	for a := 1; a < len(w.weights); a++ {
		w.weights[a] += w.weights[a-1]
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.say("all faults end")
	w.healing = true
	for a := range actions {
		w.weights[a] = actions[a].base
		if action(a) >= firstFault {
			w.weights[a] = 0
		}
	}
	w.weights[ticks], w.weights[sweeping], w.weights[callerComes] = 300, 100, 60
	w.sum()
	w.store.down = false
	w.raiseNow()
	for _, n := range w.nodes {
		n.cut, n.paused = false, false
		if n.stopping {
			n.die("is ended")
		}
		if !n.up {
			n.start()
		}
	}
	for _, m := range w.inFlight {
		m.until = 0
	}
}

// arrives delivers a message, more often an old one.
func (w *world) arrives() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	i := min(w.dice.Below(len(w.inFlight)), w.dice.Below(len(w.inFlight)))
	m := w.inFlight[i]
	if m.until > w.step || m.answered && m.node.paused && m.life == m.node.life {
		return false
	}
	w.remove(i)
	w.arrive(m)
	return true
}

func (w *world) remove(i int) { w.inFlight = append(w.inFlight[:i], w.inFlight[i+1:]...) }

// looses drops a message.
func (w *world) looses() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	i := w.dice.Below(len(w.inFlight))
	w.inFlight[i].node.say("lost: a message of %s", w.inFlight[i].node.name)
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
			if other.cmd.Action == ledger.Write && !other.answered {
				m = other // a late write can do the most harm
			}
		}
	}
	m.until = w.step + w.dice.Below(150)
	return true
}

// repeatsMessage delivers a message to the store a second time.
func (w *world) repeatsMessage() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	m := w.inFlight[w.dice.Below(len(w.inFlight))]
	if m.answered || m.repeated {
		return false
	}
	again := *m
	again.repeated, again.over, again.until = true, true, w.step+w.dice.Below(100)
	w.inFlight = append(w.inFlight, &again)
	return true
}

// timesOut ends the wait for an outcome, which may still come about.
func (w *world) timesOut() bool {
	n := w.running()
	if n == nil || len(n.under) == 0 {
		return false
	}
	m := n.under[w.dice.Below(len(n.under))]
	waits := false
	for _, other := range w.inFlight {
		waits = waits || other == m
	}
	if waits && (w.healing || !w.dice.OneIn(3)) {
		return false
	}
	n.say("gives up waiting for the %d of the store", m.cmd.Action)
	n.answer(m, ledger.Outcome{Err: context.DeadlineExceeded})
	return true
}

// ticks wakes a node, mostly when it wanted that.
func (w *world) ticks() bool {
	n := w.running()
	if n == nil {
		return false
	}
	if w.healing {
		w.timesOut()
	}
	switch early := n.wake.Sub(n.time()).Milliseconds(); {
	case n.wake.IsZero():
		return false
	case early > 0 && early < 2*minute && w.dice.OneIn(w.haste):
		w.now += early
	case early > 0 && !w.dice.OneIn(10):
		return false
	}
	n.drive()
	if n.stopping && n.m.Idle() && len(n.open) == 0 {
		n.die("has stopped")
	}
	return true
}

func (w *world) sweeps() bool {
	n := w.running()
	if n == nil {
		return false
	}
	n.sweep()
	return true
}

// reading is an account that is being read: the document first.
type reading struct {
	state   *ledger.State
	lineage int
}

// reads reads an account, in two parts.
func (w *world) reads() bool {
	if w.read == nil || w.read.lineage != w.check.lineage {
		d, there := w.store.ledgerDoc()
		if !there {
			return false
		}
		state, err := ledger.Decode(&d)
		if err != nil {
			return false
		}
		w.read = &reading{state, w.check.lineage}
		return true
	}
	state := w.read.state
	w.read = nil
	after, limit := int64(0), 1000
	if w.dice.OneIn(2) {
		after, limit = w.dice.Within(0, max(0, state.Last)), 1+w.dice.Below(4)
	}
	w.readAccount(state, after, limit)
	return true
}

func (w *world) resumes() bool {
	n := w.someNode()
	if !n.paused {
		return false
	}
	n.say("continues")
	n.paused = false
	return true
}

func (w *world) restarts() bool {
	n := w.someNode()
	if n.up || w.fragile {
		return false
	}
	n.start()
	n.say("starts")
	return true
}

func (w *world) reconnects() bool {
	n := w.someNode()
	if !n.cut {
		return false
	}
	n.say("reaches the store again")
	n.cut = false
	return true
}

func (w *world) storeReturns() bool {
	if !w.store.down {
		return false
	}
	w.say("the store is back")
	w.store.down = false
	return true
}

func (w *world) replicates() bool {
	n := len(w.store.unsent)
	if n == 0 {
		return false
	}
	w.store.replicate(1 + w.dice.Below(n))
	return true
}

// purges removes records whose time has passed, by the clock of a node.
func (w *world) purges() bool {
	n := w.running()
	if n == nil || n.cut || w.store.down {
		return false
	}
	now := n.clock()
	if w.out[keepsAnswers] {
		now += 2 * day
	}
	if w.skewed && !w.out[keepsAnswers] {
		now = w.now - day // it must not be earlier than by the store's clock
	}
	purged := 0
	for _, kind := range []string{persist.AnswerKind, persist.EndedKind} {
		some, _ := w.store.Purge(context.Background(), kind, now, 100)
		purged += some
	}
	if purged > 0 {
		w.say("%d records are purged", purged)
		w.count("purged")
	}
	return true
}

// timePasses lets time pass in which nothing else happens, but nodes say that they are there.
func (w *world) timePasses() bool {
	w.now += worlds.Pick(&w.dice, int64(500), 2000, 4500)
	for _, n := range w.nodes {
		if n.up && !n.paused {
			n.beat()
		}
	}
	return true
}

func (w *world) pauses() bool {
	n := w.running()
	if n == nil {
		return false
	}
	n.say("pauses")
	n.paused = true
	return true
}

func (w *world) crashes() bool {
	n := w.someNode()
	if !n.up || w.fragile {
		return false
	}
	n.die("crashes")
	return true
}

func (w *world) stops() bool {
	n := w.running()
	if n == nil || n.stopping || w.fragile {
		return false
	}
	n.say("stops")
	n.stopping = true
	return true
}

// renews replaces the machine of a process.
func (w *world) renews() bool {
	n := w.running()
	if n == nil || n.stopping || len(n.open) > 0 || len(n.under) > 0 || !n.m.Idle() {
		return false
	}
	n.say("has another definition")
	n.renew()
	w.count("renewed")
	return true
}

func (w *world) disconnects() bool {
	n := w.someNode()
	if n.cut {
		return false
	}
	n.say("is cut off from the store")
	n.cut = true
	return true
}

func (w *world) storeFails() bool {
	if w.store.down {
		return false
	}
	w.say("the store is away")
	w.store.down = true
	return true
}

// changesPolicy changes the definition, which nodes learn one by one.
func (w *world) changesPolicy() bool {
	p := &w.policy
	switch w.dice.Below(5) {
	case 0:
		p.Start += worlds.Pick(&w.dice, int64(0), 5, 40, -3)
		p.Start = max(1, p.Start)
	case 1:
		p.TTL = worlds.Pick(&w.dice, int64(2000), 10_000, 10*minute)
	case 2:
		p.MaxReserved = worlds.Pick(&w.dice, int64(8), 30, 1000)
	}
	n := w.running()
	if n == nil {
		return false
	}
	awake := n.policy.Awake
	n.policy = w.newPolicy()
	n.policy.Awake = awake
	n.m.SetPolicy(n.policy)
	w.count("another policy")
	return true
}

// toggles changes what becomes of numbers that come back.
func (w *world) toggles() bool {
	w.policy.Void = !w.policy.Void
	w.everVoid, w.alwaysVoid = true, false
	w.say("onRelease is void: %t", w.policy.Void)
	w.count("onRelease changed")
	return true
}

// hoursPass lets hours pass in which no node does anything.
func (w *world) hoursPass() bool {
	w.now += worlds.Pick(&w.dice, int64(20_000), 60*minute, 5*60*minute)
	w.say("hours pass")
	w.count("nobody did anything for long")
	return true
}

// allDie ends all processes for hours.
func (w *world) allDie() bool {
	if w.fragile {
		return false
	}
	for _, n := range w.nodes {
		if n.up {
			n.die("dies")
		}
	}
	w.now += worlds.Pick(&w.dice, int64(20_000), 60*minute, 3*60*minute)
	w.say("all were away")
	w.count("all were away")
	for _, n := range w.nodes {
		if w.dice.OneIn(2) {
			n.start()
		}
	}
	return true
}
