// Package gapless is a model of G1 to G4: random callers, nodes, crashes, clocks and stores around the
// machine of strategy/gapless/ledger.
package gapless

import (
	"context"
	"fmt"

	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// counter is the name of the only counter.
const counter = "invoice"

// Times, in ms.
const (
	minute = 60_000
	day    = 24 * 60 * minute
	// margin is how long before the end of its time something is not tried any more.
	margin = minute
	// jitter is how far apart clocks are that are right.
	jitter = 50
)

// world is one counter, its store and the nodes.
type world struct {
	setup
	machineWithout ledger.RuleSet
	seed           uint64
	dice           worlds.Dice
	step           int
	now            int64 // by the store's clock, in ms
	pace           int64 // how much time a step takes, at most
	haste          int
	drawn          int64
	maxBatch       int

	store    *store
	nodes    []*node
	inFlight []*message
	check    checker
	policy   ledger.Policy // of most nodes
	keep     int64         // how long answers are kept
	// skewed means that clocks of nodes are off by up to a day.
	skewed bool
	// mayLose means that the store may lose what it acknowledged.
	mayLose bool
	// everVoid and alwaysVoid are whether any node, or every one, ever had onRelease void.
	everVoid, alwaysVoid bool
	beats                struct{ since, last int64 }
	beaten               int64 // when somebody last said that he is there

	keys     []*onceKey
	bookings map[string]*booking
	told     []*booking // that callers know
	read     *reading   // an account that is being read

	served  map[*node]bool
	weights [actionsInAll]int
	healing bool
	fences  int // of servers so far
	// fragile is set after a store went back without a raise: until then no process starts.
	fragile bool

	events map[string]int
	trace  func(text string)
}

// newWorld makes the world of a seed.
func newWorld(s setup, seed uint64) *world {
	w := &world{setup: s, machineWithout: s.machine, seed: seed, served: map[*node]bool{}, events: map[string]int{}, bookings: map[string]*booking{}}
	w.check = checker{w: w, booked: map[string][]ledger.Run{}, history: map[int64][]cell{}}
	w.dice = worlds.NewDice(seed, 1<<40)
	w.now = 1_800_000_000_000
	w.pace = worlds.Pick(&w.dice, int64(10), 100, 400)
	w.haste = worlds.Pick(&w.dice, 2, 5, 20)
	w.maxBatch = worlds.Pick(&w.dice, 0, 1, 2, 4)
	w.store = newStore(s.out, worlds.Pick(&w.dice, lone, lossy, lossy, lossless))
	w.skewed = w.dice.OneIn(4)
	w.keep = worlds.Pick(&w.dice, int64(10*minute), day)
	if w.skewed {
		w.keep = 4 * day
	}
	w.policy = ledger.Policy{
		Start: worlds.Pick(&w.dice, int64(1), 1, 10), TTL: worlds.Pick(&w.dice, int64(2000), 10_000, 10*minute), Keep: w.keep,
		MaxReserved: worlds.Pick(&w.dice, int64(8), 30, 1000), Void: w.dice.OneIn(4),
	}
	if w.dice.OneIn(4) {
		w.policy.Ends = w.now + worlds.Pick(&w.dice, int64(20_000), 5*minute)
	}
	if w.dice.OneIn(6) { // another strategy has issued some
		w.policy.Floor = 12
		w.check.told = grown(w.check.told, w.policy.Floor)
		for number := range w.policy.Floor {
			w.check.told[number+1] = -1
		}
		w.check.heard = w.policy.Floor
	}
	w.everVoid, w.alwaysVoid = w.policy.Void, w.policy.Void
	for i := range worlds.Pick(&w.dice, 2, 2, 3) {
		n := &node{w: w, name: fmt.Sprintf("N%d", i+1)}
		if w.skewed {
			n.skew = w.dice.Within(-day, day)
		} else if w.dice.OneIn(2) {
			n.skew = w.dice.Within(-jitter/2, jitter/2)
		}
		w.nodes = append(w.nodes, n)
		n.start()
	}
	w.weigh()
	return w
}

// newPolicy returns what a process finds in its configuration.
func (w *world) newPolicy() ledger.Policy {
	p := w.policy
	if w.out[floorOf] {
		p.Floor = 0
	}
	return p
}

func (w *world) count(event string) { w.events[event]++ }

func (w *world) say(format string, args ...any) {
	if w.trace != nil {
		w.trace(fmt.Sprintf("%4d %8d  ", w.step, w.now-1_800_000_000_000) + fmt.Sprintf(format, args...))
	}
}

func (w *world) someNode() *node { return w.nodes[w.dice.Below(len(w.nodes))] }

// running returns a node whose process runs, or nil.
func (w *world) running() *node {
	if n := w.someNode(); n.up && !n.paused {
		return n
	}
	return nil
}

// turn does one step, and reports whether there was something to do.
func (w *world) turn() bool {
	w.dice = worlds.NewDice(w.seed, uint64(w.step))
	w.now += w.dice.Within(0, w.pace)
	for _, n := range w.nodes {
		if n.up && !n.paused {
			n.beat()
		}
	}
	done := actions[w.dice.Draw(w.weights[:])].do(w)
	w.step++
	return done
}

// run lets things go wrong for some steps, ends all faults, and checks what must hold then.
func (w *world) run(steps int, leftOut func(step int) bool) (done int) {
	for w.step < steps && w.check.broken == "" {
		if leftOut != nil && leftOut(w.step) {
			w.step++
			continue
		}
		if w.turn() {
			done++
		}
	}
	if w.check.broken != "" {
		return done
	}
	w.heal()
	for range patience {
		if w.turn() {
			done++
		}
		if w.check.broken != "" {
			return done
		}
		if len(w.served) == len(w.nodes) && w.quiet() {
			w.settle()
			return done
		}
	}
	w.check.fail("liveness: %d steps after all faults ended %d of %d nodes have served", patience, len(w.served), len(w.nodes))
	return done
}

// patience is in how many steps after the end of all faults every node must have served.
const patience = 2000

// quiet reports whether nothing is under way.
func (w *world) quiet() bool {
	for _, n := range w.nodes {
		if len(n.open) > 0 {
			return false
		}
	}
	return true
}

// settle lets all time pass that something waits for, and checks what must be true at the end.
func (w *world) settle() {
	w.say("much time passes")
	horizon := w.now + 3*day
	for round := 0; w.now < horizon && w.check.broken == "" && round < 400; round++ {
		for range 20 {
			for len(w.inFlight) > 0 && w.check.broken == "" {
				m := w.inFlight[0]
				w.inFlight = w.inFlight[1:]
				w.arrive(m)
			}
			for _, n := range w.nodes {
				for len(n.under) > 0 { // it was lost
					n.answer(n.under[0], ledger.Outcome{Err: context.DeadlineExceeded})
				}
				n.sweep()
				n.drive()
			}
			if len(w.inFlight) == 0 {
				break
			}
		}
		step := int64(1000)
		if round > 30 {
			step = 20 * minute
			w.attend(step)
		}
		w.now += step
	}
	w.check.ends()
}

// attend is nodes that say again and again that they are there, for a while.
func (w *world) attend(d int64) {
	if w.beats.last == 0 {
		return
	}
	w.beats.last += d
	w.beaten += d
	for _, n := range w.nodes {
		n.seen += d
	}
}
