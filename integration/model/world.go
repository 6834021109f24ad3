package model

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// world is one cluster with its Redis, its store and the network between them.
type world struct {
	out   without
	lua   *interpreter
	seed  uint64
	dice  worlds.Dice
	step  int
	now   time.Time
	pace  time.Duration // how much time a step takes, at most
	haste int           // one in this many times a node's deadline is what comes next
	// jitter is how much earlier than now it may be for a machine.
	jitter time.Duration
	drawn  int64 // random texts, replication IDs and epochs so far

	servers  [3]*server // A and B are one Redis, C is another
	redis    int        // the one that the configuration names
	by       sequencer  // that the configuration names
	store    store
	usual    int64 // the step that most nodes are set to
	nodes    []*node
	unlucky  *node // the only node that faults hit; nil for all
	inFlight []*message
	check    checker
	away     map[*node]bool // nodes that issue on their own, or have not come back from that
	served   map[*node]bool // nodes that issued since the faults ended
	weights  [actionsInAll]int
	// healing is set once the faults have ended.
	healing bool
	// restoredTo is above 0 after the store was restored without the documented step: until all
	// have seen a ceil of this, Redis must not fail.
	restoredTo int64
	// restoredTaken is whether only the processes of that time know what was issued, so that none of
	// them must end before.
	restoredTaken bool

	// events count what happened, to show that a test is not empty.
	events map[string]int
	trace  func(text string)
}

// start is the number before the first.
const start = 0

// newWorld makes the world of a seed.
func newWorld(l *interpreter, out without, seed uint64) *world {
	w := &world{out: out, lua: l, seed: seed, away: map[*node]bool{}, served: map[*node]bool{}, events: map[string]int{}}
	w.check.w = w
	w.dice = worlds.NewDice(seed, 1<<40)
	w.now = time.Unix(1e9, 0)
	w.pace = worlds.Pick(&w.dice, 10*time.Millisecond, 40*time.Millisecond, 120*time.Millisecond)
	w.jitter = worlds.Pick(&w.dice, 0, 0, 5*time.Millisecond)
	w.haste = worlds.Pick(&w.dice, 2, 5, 20)
	a, b, c := newServer("A", 0), newServer("B", 0), newServer("C", 1)
	a.peer, b.peer, c.peer = b, a, &server{name: "none", redis: 1}
	c.lead(w.newReplid())
	w.servers = [3]*server{a, b, c}
	a.lead(w.newReplid())
	b.follow()
	w.store.counter = persist.Counter{BizTag: counter, Max: start, Step: 1}
	if w.dice.OneIn(4) {
		w.upgrade()
	}
	b.sync()
	w.store.backup = w.store.counter
	w.store.begin(out, w.dice.OneIn(4), w.dice.OneIn(4))
	w.by = worlds.Pick(&w.dice, byRedis, byRedis, byStore, auto)
	switch r := rule(seed % uint64(rulesInAll)); {
	case r == retireFirst || r == autoKeeps || r == seedRefused:
		w.by = auto
	case r == takeFloor || r == takeGuard || r == namesEpoch || r == takeJoins || r == takeOnce || r == ownAnswer || r == handOutAbove || r == handOutGap:
		w.by = byStore
	case r <= installNames || r >= guardRule && r <= patienceRule: // of the cursor
		w.by = byRedis
	}
	if w.by == auto && w.dice.OneIn(2) {
		w.store.counter.Epoch = persist.StoreEpoch
		w.store.backup = w.store.counter
		w.store.copied()
	}
	w.usual = worlds.Pick(&w.dice, int64(3), 3, 4, 6)
	for i := range worlds.Pick(&w.dice, 2, 2, 3, 4) {
		n := &node{w: w, name: "N" + strconv.Itoa(i+1), next: w.even()}
		w.nodes = append(w.nodes, n)
		n.start(w.newSettings())
	}
	if w.dice.OneIn(2) {
		w.unlucky = w.nodes[0]
	}
	w.weigh()
	return w
}

// upgrade begins with what a seqd without epochs left: 6 numbers, of which callers got 4, and a
// cursor of format 1 with the other two.
func (w *world) upgrade() {
	w.servers[0].keys[key] = hash{
		"v": "1", "cluster": cluster, "replid": w.servers[0].replid, "gen": "old", "ceil": "6", "live": "1",
		"first": "4", "cur": "4", "last": "6", "queue": "", "queued": "0", "claim": "0",
	}
	w.store.counter.Max, w.store.highest = 6, 6
	w.check.ended, w.check.endedCursor, w.check.taken, w.check.calls = 4, 4, 4, 1
	w.check.owner = []int32{0, 1, 1, 1, 1}
	w.count("upgraded")
}

func (w *world) newSettings() settings {
	return settings{
		step:      worlds.Pick(&w.dice, w.usual, w.usual, w.usual, 3, 4, 6, 10),
		reserve:   worlds.Pick(&w.dice, 0, 1, 2),
		threshold: worlds.Pick(&w.dice, 0.2, 0.5, 1),
		reject:    w.dice.OneIn(8),
	}
}

// draw returns text that it never returned before.
func (w *world) draw() string {
	w.drawn++
	return "r" + strconv.FormatInt(w.drawn, 10)
}

func (w *world) newReplid() string {
	w.drawn++
	return fmt.Sprintf("%040x", w.drawn)
}

// newEpoch draws an epoch.
func (w *world) newEpoch() string {
	w.drawn++
	return fmt.Sprintf("%032x", w.drawn)
}

// short is how a schedule shows an epoch.
func short(epoch string) string {
	if epoch == "" {
		return "none"
	}
	return "e" + strings.TrimLeft(epoch, "0")
}

func (w *world) count(event string) { w.events[event]++ }

// say writes a line of the schedule if that is being printed.
func (w *world) say(format string, args ...any) {
	if w.trace != nil {
		w.trace(fmt.Sprintf("%4d  ", w.step) + fmt.Sprintf(format, args...))
	}
}

// onlyPrimary returns the primary of the Redis in use if there is exactly one.
func (w *world) onlyPrimary() (primary *server) {
	for _, s := range w.servers {
		if s.redis != w.redis || !s.primary() {
			continue
		}
		if primary != nil {
			return nil
		}
		primary = s
	}
	return primary
}

// findPrimary is what a node finds that looks for the primary: any of two, or what it has if there
// is none.
func (w *world) findPrimary(n *node) *server {
	s := w.servers[w.dice.Below(2)]
	switch {
	case n.redis == 1:
		return w.servers[2]
	case s.primary():
		return s
	case s.peer.primary():
		return s.peer
	case n.target != nil:
		return n.target
	}
	return s
}

// mayDegrade reports whether a node may find Redis away now, see restoresBare.
func (w *world) mayDegrade(n *node) bool { return w.restoredTo == 0 || n.ceil() >= w.restoredTo }

// advance lets time pass.
func (w *world) advance(d time.Duration) {
	w.now = w.now.Add(d)
	for _, s := range w.servers {
		s.clock += d.Microseconds()
	}
}

// refresh updates what follows from the state.
func (w *world) refresh() {
	primaries := 0
	for _, s := range w.servers {
		if s.primary() && s.redis == w.redis {
			primaries++
		}
	}
	if w.byStoreAlone() {
		primaries = 1 // no cursor matters
		w.check.ordered()
	}
	w.check.primaries(primaries)
	w.check.regimes(w.uneven())
	w.check.refresh()
	if w.restoredTo > 0 && w.allHaveSeen(w.restoredTo) {
		w.restoredTo, w.restoredTaken = 0, false
	}
}

// allHaveSeen reports whether the store and every process are beyond n.
func (w *world) allHaveSeen(n int64) bool {
	for _, node := range w.nodes {
		if !w.restoredTaken && node.m != nil && node.m.Mode() != cursor.Alone && node.ceil() < n {
			return false
		}
	}
	return w.store.counter.Max >= n
}

// turn does one step and reports whether there was something to do.
func (w *world) turn() bool {
	w.dice = worlds.NewDice(w.seed, uint64(w.step))
	w.advance(time.Duration(w.dice.Below(int(w.pace))))
	done := false
	for tries := 0; tries < 20 && !done; tries++ {
		done = w.act()
	}
	w.refresh()
	w.step++
	return done
}

// run runs some steps with faults, except those that are to be left out. Then it ends all faults
// and checks that every node can issue again. It ends early at a violation. It returns how many
// steps were done.
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
		if w.check.broken != "" || w.healed() {
			return done
		}
	}
	w.check.fail("liveness: %d steps after all faults ended %d of %d nodes have issued; order suspended: %t",
		patience, len(w.served), len(w.nodes), w.check.suspended)
	return done
}

// patience is in how many steps after the end of all faults every node must have issued, and order
// over all nodes must hold again.
const patience = 3000

// healed reports whether all nodes have issued again, in order.
func (w *world) healed() bool { return len(w.served) == len(w.nodes) && !w.check.suspended }
