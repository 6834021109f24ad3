package machineid

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/seqd/seqd/internal/testing/worlds"
	"github.com/seqd/seqd/persist"
)

// The model: simulated nodes call the methods of Member in the order in which the holder of package
// snowflake does, on a simulated registry. Package worlds explains worlds. One ms of the model is
// about a tenth of a second.

// contents is what a registry contains.
type contents struct {
	set   *persist.SlotSet // never changed in place
	slots [1 << 3]persist.Slot
	known [1 << 3]bool
}

// version is what the registry contained from a time on.
type version struct {
	at int64
	contents
}

// simulated is a simulated [persist.SlotStore].
type simulated struct {
	contents
	source string
	lag    int64
	blind  bool // it makes changes whatever source their sender saw
	// offset is how far its clock is ahead of true time. offset may increase at any time. wobble is
	// added to it, and is how far the clock can go back: at most the smallest maxSkew, which is the
	// documented limit.
	offset, wobble int64
	history        []version // oldest first: what a failover may bring back
	backup         contents
	down           bool
	old            *oldSide
	aside          bool // the old side is in its place
}

// oldSide is the server that failed over, until it knows: it makes changes that are lost.
type oldSide struct {
	contents
	source string
	until  int64
}

// exchange swaps the registry and the old side.
func (r *simulated) exchange() {
	o := r.old
	r.contents, o.contents = o.contents, r.contents
	r.source, o.source = o.source, r.source
}

// message is a request or its reply in transit. Each has a connection of its own, so they can
// overtake each other.
type message struct {
	o        *op
	reply    bool
	look     bool
	id       int64 // of a look: the slot that is read, -1 for all
	swap     persist.SlotSwap
	held     int64             // of a renewal: the highest time its sender was granted
	reserved int64             // and reserved
	covers   bool              // it raises the floor above a lost lease
	table    persist.SlotTable // of a reply to a look
	made     bool              // of a reply to a swap
	refused  bool              // of a reply: an error
	// of a reply to a swap: the registry was an older copy that nobody had noticed
	bare     bool
	drops    int // of a swap: the world's drops when the registry was read
	restores int // the same for restores
	after    int // the step before which it does not arrive
}

// world is a registry, its nodes and the network between them.
type world struct {
	out   without
	seed  uint64
	dice  worlds.Dice
	step  int
	now   int64 // true time
	bits  int
	mixed bool // nodes have different settings, or change them
	skew  int64
	slow  int    // how many steps a ms takes
	base  Member // the settings if they are not mixed

	registry simulated
	nodes    []*node
	inFlight []*message
	check    checker
	weights  [actionsInAll]int
	healing  bool
	sources  int
	drops    int               // how often the registry lost its bootstrap part
	restores int               // how often it was put back unnoticed
	restored int64             // when it was put back last
	names    map[string]string // of tokens, which do not depend on the seed
	events   [eventsInAll]int
	trace    func(text string)
}

// begin is the true time at the start.
const begin = 100_000

// newWorld returns the world of a seed.
func newWorld(out without, seed uint64) *world {
	w := &world{out: out, seed: seed, now: begin, names: map[string]string{}}
	w.check.w = w
	w.dice = worlds.NewDice(seed, 1<<40)
	w.registry.blind = out.rules[sourceCompared]
	d := &w.dice
	w.bits = worlds.Pick(d, 1, 1, 2, 3)
	w.mixed = d.OneIn(3)
	w.slow = worlds.Pick(d, 4, 8)
	w.skew = worlds.Pick(d, int64(4), 8)
	w.base = Member{Horizon: worlds.Pick(d, int64(15), 30, 50), MaxSkew: w.skew, Offline: worlds.Pick(d, int64(0), 0, 40, 120)}
	if d.OneIn(2) {
		w.registry.source, w.registry.lag = w.newSource(), worlds.Pick(d, int64(5), 10, 30)
	}
	if out.quiet {
		w.registry.source, w.registry.lag, w.base.Offline = w.newSource(), 0, 0
	} else if slices.Contains(temptations[w.tempted()], failsOver) && w.tempted() != aheadRaised {
		w.bits, w.mixed, w.registry.source, w.registry.lag = 1, false, w.newSource(), 30
	}
	for i := range worlds.Pick(d, 2, 2, 3, 4) {
		n := &node{w: w, name: "N" + strconv.Itoa(i+1)}
		n.key = worlds.Pick(d, n.name, n.name, "same")
		w.nodes = append(w.nodes, n)
		n.start()
	}
	w.weigh()
	w.registry.remember(w.now)
	return w
}

func (w *world) newSource() string {
	w.sources++
	if w.out.rules[sourceNew] {
		return "s" + strconv.Itoa(w.sources%2)
	}
	return "s" + strconv.Itoa(w.sources)
}

// newMember returns settings for a node.
func (w *world) newMember(key string) Member {
	d := &w.dice
	m := w.base
	if w.mixed {
		m.Horizon, m.MaxSkew, m.Offline = worlds.Pick(d, int64(15), 30, 50), worlds.Pick(d, w.skew, 2*w.skew), worlds.Pick(d, int64(0), 0, 40, 120)
	}
	m.Layout, m.Key, m.Floored = "layout", key, true
	if m.Doubtful = w.out.quiet && !w.out.trusting; w.out.quiet {
		m.Offline = 0
	}
	size := int64(1) << w.bits
	m.Last = size - 1
	switch {
	case d.OneIn(6): // a fixed machine ID
		m.First = d.Within(0, size-1)
		m.Last = m.First
	case d.OneIn(6): // a rack
		m.First = worlds.Pick(d, 0, size/2)
		m.Last = m.First + size/2 - 1
	}
	return m
}

// say writes a line of the schedule if it is being printed.
func (w *world) say(format string, args ...any) {
	if w.trace != nil {
		w.trace(fmt.Sprintf("%4d %6d  ", w.step, w.now-begin) + fmt.Sprintf(format, args...))
	}
}

// named returns a short name for a random token.
func (w *world) named(token string) string {
	if token == "" {
		return "none"
	}
	if w.names[token] == "" {
		w.names[token] = "t" + strconv.Itoa(len(w.names)+1)
	}
	return w.names[token]
}

// rel returns a time relative to the start.
func rel(t int64) int64 { return max(t-begin, -1) }

func (w *world) slotText(s persist.Slot) string {
	return fmt.Sprintf("ID %d: %s of %s, until %d, reserved %d", s.ID, w.named(s.Token), s.Key, rel(s.Until), rel(s.Reserved))
}

func (r *simulated) clock(now int64) int64 { return now + r.offset + r.wobble }

// remember keeps the contents from now on, as long as a failover may need them.
func (r *simulated) remember(now int64) {
	if r.source == "" || r.aside {
		return
	}
	for len(r.history) > 1 && r.history[1].at < now-r.lag {
		r.history = r.history[1:]
	}
	r.history = append(r.history, version{now, r.contents})
}

// table returns the answer to a look.
func (w *world) table(id int64) persist.SlotTable {
	r := &w.registry
	t := persist.SlotTable{Set: r.set, Now: r.clock(w.now), Source: r.source, Lag: r.lag}
	for i, known := range r.known {
		if known && (id < 0 || id == int64(i)) {
			t.Slots = append(t.Slots, r.slots[i])
		}
	}
	return t
}

// apply makes a change if everything is as its sender saw it.
func (w *world) apply(m *message) bool {
	r, swap := &w.registry, m.swap
	if !w.out.rules[compareAndSet] && !r.as(swap) {
		w.say("%s: its change is refused", m.o.n.name)
		w.events[refusedChange]++
		return false
	}
	if w.out.quiet && swap.NewSlot != nil && r.clock(w.now)-swap.NewSlot.RenewedAt > m.o.n.MaxSkew { // Patience of coordslots
		return false
	}
	if swap.NewSet != nil && swap.OldSet == nil && m.drops != w.drops && !w.out.rules[freshPart] {
		return false
	}
	if swap.NewSlot != nil {
		id := swap.NewSlot.ID
		old := r.slots[id]
		if swap.NewSlot.Until < old.Until && swap.NewSlot.Token != "" {
			w.check.fail(backwards, "the recorded until of ID %d goes from %d to %d", id, rel(old.Until), rel(swap.NewSlot.Until))
		}
		r.slots[id], r.known[id] = *swap.NewSlot, true
		w.say("%s: now %s", m.o.n.name, w.slotText(*swap.NewSlot))
	}
	if swap.NewSet != nil {
		w.say("%s: now floor %d, ahead %d, source %q", m.o.n.name, rel(swap.NewSet.Floor), swap.NewSet.Ahead, swap.NewSet.Source)
		set := *swap.NewSet
		r.set = &set
		if w.check.bare && swap.OldSet == nil {
			w.check.noticed()
		}
	}
	switch {
	case swap.OldSlot != nil && (swap.OldSlot.Until < m.held || swap.OldSlot.Reserved < m.reserved):
		w.events[olderCopyNoticed]++
		w.check.noticed()
	case m.covers && m.restores == w.restores:
		w.events[lostCovered]++
		w.check.noticed()
	}
	r.remember(w.now)
	return true
}

// as reports whether everything is as the sender of a change saw it.
func (r *simulated) as(swap persist.SlotSwap) bool {
	if swap.Source != r.source && !r.blind || (swap.OldSet == nil) != (r.set == nil) || r.set != nil && *r.set != *swap.OldSet {
		return false
	}
	if swap.NewSlot == nil {
		return true
	}
	id := swap.NewSlot.ID
	return (swap.OldSlot != nil) == r.known[id] && (swap.OldSlot == nil || *swap.OldSlot == r.slots[id])
}

// arrive delivers a message.
func (w *world) arrive(m *message) {
	if m.reply {
		if !m.o.over {
			m.o.n.receive(m)
		}
		return
	}
	if old := w.registry.old; old != nil && old.until >= w.now && m.o.n.behind {
		w.registry.exchange()
		w.registry.aside = true
		defer func() {
			w.registry.exchange()
			w.registry.aside = false
		}()
	}
	answer := &message{o: m.o, reply: true, look: m.look, drops: w.drops, restores: w.restores}
	switch {
	case w.registry.down || m.o.n.cut:
		answer.refused = true
	case m.look:
		answer.table = w.table(m.id)
	default:
		answer.bare = w.check.bare // before what it does itself
		answer.made = w.apply(m)
		answer.bare = answer.bare && w.check.bare
	}
	if !m.o.over {
		w.inFlight = append(w.inFlight, answer)
	}
}

func (w *world) remove(i int) { w.inFlight = slices.Delete(w.inFlight, i, i+1) }

// turn does one step.
func (w *world) turn() {
	w.dice = worlds.NewDice(w.seed, uint64(w.step))
	if w.dice.OneIn(w.slow) {
		w.now++
	}
	for tries := 0; tries < 20 && !w.act(); tries++ {
	}
	w.step++
}

// worldSteps is how many steps of a world have faults.
const worldSteps = 1000

// run runs some steps with faults, without those that leftOut selects, then ends all faults and
// checks that every node can issue again. It returns early with a violation. It returns how many
// steps were done.
func (w *world) run(steps int, leftOut func(step int) bool) (done int) {
	for w.step < steps && w.check.broken == "" {
		if leftOut != nil && leftOut(w.step) {
			w.step++
			continue
		}
		w.turn()
		done++
	}
	if w.check.broken != "" || steps < worldSteps {
		return done
	}
	w.heal()
	for range healingSteps {
		w.turn()
		done++
		if w.check.broken != "" || w.step%10 == 0 && w.healed() {
			return done
		}
	}
	for _, n := range w.nodes {
		if !n.settled() {
			w.check.fail(liveness, "%d steps after all faults ended %s has no machine ID that it can use: %v, lease %+v", healingSteps, n.name, n.mode, n.lease)
		}
	}
	return done
}

// healingSteps is how many steps after the end of all faults every node must be able to issue.
const healingSteps = 4000

// healed reports whether every node can issue.
func (w *world) healed() bool {
	for _, n := range w.nodes {
		if !n.settled() {
			return false
		}
	}
	return true
}

// heal ends all faults.
func (w *world) heal() {
	w.healing = true
	w.say("all faults end")
	w.now, w.slow = w.now+2000, 8 // every time that was granted, by whatever clock, is over
	w.registry.down = false
	for a := firstFault; a < actionsInAll; a++ {
		w.weights[a] = w.weights[firstFault-1]
	}
	for _, m := range w.inFlight {
		m.after = 0
	}
	for _, n := range w.nodes {
		n.paused, n.cut, n.offset = false, false, w.registry.offset
	}
}
