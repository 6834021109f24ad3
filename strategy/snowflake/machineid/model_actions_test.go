package machineid

import "github.com/seqd/seqd/internal/testing/worlds"

import "slices"

// action is a kind of step.
type action int

// Actions: normal operation, then repairs, then faults.
const (
	arrives action = iota
	begins
	issues
	timesOut
	resumesRunning
	restarts
	reconnects
	registryReturns
	clockRights
	loses
	holdsBack
	pauses
	kills
	stops
	disconnects
	clockJumps
	clockDrifts
	registryFails
	registryClock
	timeLeaps
	diskLost
	diskFails
	backsUp
	wipes
	dropsOnly
	restoresDropped
	restoresBare
	failsOver
	actionsInAll
	firstFault = loses
)

// actions are what each action does. do returns false if there is nothing to do it to. base is how
// often it happens, which weigh varies with the seed.
var actions = [actionsInAll]struct {
	base int
	do   func(w *world) bool
}{
	arrives:         {500, (*world).arrives},
	begins:          {250, (*world).begins},
	issues:          {150, (*world).issues},
	timesOut:        {15, (*world).timesOut},
	resumesRunning:  {15, (*world).resumesRunning},
	restarts:        {25, (*world).restarts},
	reconnects:      {8, (*world).reconnects},
	registryReturns: {12, (*world).registryReturns},
	clockRights:     {20, (*world).clockRights},
	loses:           {10, (*world).loses},
	holdsBack:       {10, (*world).holdsBack},
	pauses:          {6, (*world).pauses},
	kills:           {5, (*world).kills},
	stops:           {5, (*world).stops},
	disconnects:     {5, (*world).disconnects},
	clockJumps:      {4, (*world).clockJumps},
	clockDrifts:     {8, (*world).clockDrifts},
	registryFails:   {4, (*world).registryFails},
	registryClock:   {8, (*world).registryClock},
	timeLeaps:       {10, (*world).timeLeaps},
	diskLost:        {3, (*world).diskLost},
	// its weight is the probability of failing writes, see node.use
	diskFails:       {1, func(*world) bool { return false }},
	backsUp:         {3, (*world).backsUp},
	wipes:           {2, (*world).wipes},
	dropsOnly:       {1, (*world).dropsOnly},
	restoresDropped: {3, (*world).restoresDropped},
	restoresBare:    {3, (*world).restoresBare},
	failsOver:       {5, (*world).failsOver},
}

// event is something that happened. Events are counted to show that a test is not empty.
type event int

// The events.
const (
	processes event = iota
	acquired
	released
	refusedChange
	lostID
	wentAlone
	startedAlone
	skewRefused
	broke
	setMade
	sourceSeen
	olderCopyNoticed
	lostCovered
	late
	failedOver
	restoredBare
	restoredDropped
	split
	eventsInAll
)

var eventNames = [eventsInAll]string{
	"processes", "acquired", "released", "change refused", "ID lost", "went on alone", "started alone", "skew refused", "broke after the end", "bootstrap part made",
	"new source seen", "older copy noticed", "lost lease covered", "arrived late", "failed over", "restored bare", "restored by the procedure", "split",
}

// weigh chooses how often each action happens with this seed. Most faults never happen, so that the
// others have time to take effect. Those that are likely to break one of the rules happen often.
func (w *world) weigh() {
	pure := w.dice.OneIn(2)
	temptation := temptations[w.tempted()]
	for a := range actions {
		w.weights[a] = actions[a].base
		if action(a) >= firstFault {
			w.weights[a] *= worlds.Pick(&w.dice, 0, 0, 0, 1, 2, 4)
			if pure && len(temptation) > 0 {
				w.weights[a] = 0
			}
		}
		if slices.Contains(temptation, action(a)) {
			w.weights[a] += 3 * actions[a].base
		}
		if a > 0 {
			w.weights[a] += w.weights[a-1]
		}
	}
}

// tempted returns the rule that this world is made for.
func (w *world) tempted() rule { return rule(w.seed % uint64(rulesInAll)) }

// temptations are the faults against which each rule protects.
var temptations = [rulesInAll][]action{
	lagInFloor:      {failsOver, clockDrifts},
	noticedOlder:    {backsUp, restoresBare, timeLeaps},
	breakAfterEnd:   {failsOver, timeLeaps},
	closeFirst:      {stops, clockJumps, clockDrifts},
	invalidateFirst: {stops, diskLost, registryFails},
	aheadRaised:     {failsOver, kills, backsUp, restoresBare},
	skewGuard:       {clockJumps, wipes, failsOver},
	standsKnown:     {failsOver, loses, timeLeaps},
	standMargin:     {failsOver, registryClock, pauses, disconnects},
	nowBound:        {clockJumps, wipes},
	splitStand:      {failsOver},
	sourceCompared:  {failsOver, loses},
	sourceNew:       {failsOver},
	coverOwed:       {backsUp, restoresBare},
	coverAnew:       {backsUp, restoresBare, wipes},
	reservedKept:    {backsUp, restoresBare, clockDrifts},
	spentKept:       {backsUp, restoresBare, kills},
	freshPart:       {wipes, holdsBack, timeLeaps},
}

// act does one random action, and reports whether there was anything to do it to.
func (w *world) act() bool { return actions[w.dice.Draw(w.weights[:])].do(w) }

func (w *world) someNode() *node { return w.nodes[w.dice.Below(len(w.nodes))] }

// arrives delivers a message, rather an old one.
func (w *world) arrives() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	i := min(w.dice.Below(len(w.inFlight)), w.dice.Below(len(w.inFlight)))
	m := w.inFlight[i]
	if m.after > w.step || m.reply && m.o.n.paused && !m.o.over {
		return false
	}
	if !m.reply && m.o.over {
		w.events[late]++
	}
	w.remove(i)
	w.arrive(m)
	return true
}

func (w *world) begins() bool { return w.someNode().begin() }
func (w *world) issues() bool { return w.someNode().issue() }

// timesOut ends an attempt that has timed out.
func (w *world) timesOut() bool {
	n := w.someNode()
	if n.op == nil || n.paused {
		return false
	}
	for _, m := range w.inFlight {
		if m.o == n.op && (w.healing || !w.dice.OneIn(3)) {
			return false
		}
	}
	w.say("%s: its %s times out", n.name, n.op.task)
	n.failed(n.op, errUnanswered)
	return true
}

func (w *world) resumesRunning() bool {
	n := w.someNode()
	if !n.paused {
		return false
	}
	w.say("%s: goes on", n.name)
	n.paused = false
	return true
}

func (w *world) restarts() bool {
	n := w.someNode()
	if n.mode != down {
		return false
	}
	n.start()
	return true
}

func (w *world) reconnects() bool {
	n := w.someNode()
	if !n.cut {
		return false
	}
	w.say("%s: reaches the registry again", n.name)
	n.cut = false
	return true
}

func (w *world) registryReturns() bool {
	if !w.registry.down {
		return false
	}
	w.say("registry: back")
	w.registry.down = false
	return true
}

// clockRights corrects a clock.
func (w *world) clockRights() bool {
	n := w.someNode()
	if n.offset == w.registry.offset {
		return false
	}
	n.offset = w.registry.offset
	w.say("%s: its clock is set right: %d", n.name, rel(n.clock()))
	return true
}

// loses loses a message.
func (w *world) loses() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	i := w.dice.Below(len(w.inFlight))
	m := w.inFlight[i]
	w.say("lost: a message of the %s of %s", m.o.task, m.o.n.name)
	w.remove(i)
	return true
}

// holdsBack delays a message for long.
func (w *world) holdsBack() bool {
	if len(w.inFlight) == 0 {
		return false
	}
	m := w.inFlight[w.dice.Below(len(w.inFlight))]
	m.after = w.step + w.dice.Below(200)
	w.say("late: a message of the %s of %s", m.o.task, m.o.n.name)
	return true
}

func (w *world) pauses() bool {
	n := w.someNode()
	if n.paused || n.mode == down {
		return false
	}
	w.say("%s: pauses", n.name)
	n.paused = true
	return true
}

func (w *world) kills() bool {
	n := w.someNode()
	if n.mode == down {
		return false
	}
	w.say("%s: is killed", n.name)
	n.die()
	return true
}

func (w *world) stops() bool {
	n := w.someNode()
	if n.paused || n.mode == down || n.mode == stopping {
		return false
	}
	w.say("%s: stops", n.name)
	n.stop()
	return true
}

func (w *world) disconnects() bool {
	n := w.someNode()
	if n.cut {
		return false
	}
	w.say("%s: is cut off", n.name)
	n.cut = true
	return true
}

// clockJumps sets a clock to any time.
func (w *world) clockJumps() bool {
	n := w.someNode()
	n.offset = w.registry.offset + w.dice.Within(-500, 500)
	w.say("%s: its clock jumps to %d", n.name, rel(n.clock()))
	return true
}

// clockDrifts sets a clock as far off as maxSkew allows.
func (w *world) clockDrifts() bool {
	n := w.someNode()
	n.offset = w.registry.offset + w.dice.Within(-n.MaxSkew, n.MaxSkew)
	w.say("%s: its clock is %d", n.name, rel(n.clock()))
	return true
}

func (w *world) registryFails() bool {
	if w.registry.down {
		return false
	}
	w.say("registry: away")
	w.registry.down = true
	return true
}

// registryClock sets the clock of the registry: forward, or back by at most the smallest maxSkew
// since it was first read.
func (w *world) registryClock() bool {
	r := &w.registry
	// Lag is measured by that clock
	if forward := r.old == nil || r.old.until < w.now; forward && w.dice.OneIn(8) {
		r.offset += w.dice.Within(0, 50)
	}
	r.wobble = w.dice.Within(0, w.skew)
	w.say("registry: its clock is %d", rel(r.clock(w.now)))
	return true
}

func (w *world) timeLeaps() bool {
	w.now += w.dice.Within(0, worlds.Pick(&w.dice, int64(20), 60, 200))
	w.say("time passes")
	return true
}

func (w *world) diskLost() bool {
	n := w.someNode()
	if n.mode != down || n.disk == nil {
		return false
	}
	w.say("%s: its file is lost", n.name)
	n.disk = nil
	return true
}

func (w *world) backsUp() bool {
	w.registry.backup = w.registry.contents
	return true
}

// forgets reports whether a registry may revert to these contents. If the registry loses how far
// the leases of its nodes can reach, its floor is too low: no rule protects against that.
func (w *world) forgets(c contents) bool {
	set := w.registry.set
	return !w.mixed || w.out.rules[aheadKept] || set == nil || c.set != nil && c.set.Ahead >= set.Ahead
}

// becomes replaces everything in the registry.
func (w *world) becomes(c contents) {
	w.registry.contents, w.registry.old = c, nil
	w.registry.remember(w.now)
	if c.set == nil { // the next node sets a floor
		w.drops++
		w.check.noticed()
	}
}

func (w *world) wipes() bool {
	if !w.forgets(contents{}) {
		return false
	}
	w.say("registry: wiped")
	w.becomes(contents{})
	return true
}

// dropsOnly drops the bootstrap part of a registry that lost nothing.
func (w *world) dropsOnly() bool {
	c := w.registry.contents
	c.set = nil
	if w.registry.set == nil || !w.forgets(c) {
		return false
	}
	w.say("registry: bootstrap part dropped")
	w.becomes(c)
	return true
}

// restoresDropped restores a backup as documented, while nodes run.
func (w *world) restoresDropped() bool {
	c := w.registry.backup
	c.set = nil
	if !w.forgets(c) {
		return false
	}
	w.say("registry: an older copy is restored, and its bootstrap part dropped")
	w.events[restoredDropped]++
	w.becomes(c)
	return true
}

// restoresBare restores an older copy and does nothing else.
func (w *world) restoresBare() bool {
	if w.registry.backup.set == nil || !w.forgets(w.registry.backup) {
		return false
	}
	if w.out.quiet && w.now < w.restored+onceIn {
		return false
	}
	w.say("registry: an older copy is restored without the documented step")
	w.events[restoredBare]++
	w.check.bare, w.restored = !w.out.quiet, w.now
	w.restores++
	w.becomes(w.registry.backup)
	return true
}

// onceIn is longer than any lease, as far as a quiet registry may be put back again: if a lease that
// it forgot the first time comes back before it ends, two nodes have it.
const onceIn = 100

// failsOver loses the last writes, and those that the old server still accepts: for Lag it may not
// know of the failover.
func (w *world) failsOver() bool {
	r := &w.registry
	if r.source == "" || w.out.quiet || r.old != nil && r.old.until >= w.now {
		return false
	}
	first := 0 // what was there Lag ago was there until the next version
	for first+1 < len(r.history) && r.history[first+1].at <= w.now-r.lag {
		first++
	}
	v := r.history[first+w.dice.Below(len(r.history)-first)]
	if !w.forgets(v.contents) {
		return false
	}
	r.old = nil
	if w.dice.OneIn(3) && !w.mixed && !w.check.bare {
		r.old = &oldSide{r.contents, r.source, w.now + r.lag}
		w.events[split]++
	}
	for _, n := range w.nodes {
		if n.behind = r.old != nil && w.dice.OneIn(2); n.behind {
			w.say("%s: stays with the server that is given up", n.name)
		}
	}
	r.contents, r.source = v.contents, w.newSource()
	r.wobble = w.dice.Within(0, w.skew) // another server's clock
	r.history = nil
	r.remember(w.now)
	w.say("registry: fails over to %s with what it was at %d", r.source, rel(v.at))
	w.events[failedOver]++
	return true
}
