package gapless

import (
	"fmt"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// cell is what a number is.
type cell struct {
	state byte // one of those below
	res   string
}

// The states of a cell.
const (
	none     = 0 // it was never handed out
	issued   = 'i'
	reserved = 'r'
	released = 'f'
	void     = 'v'
)

// checker checks what is written, and what callers are told, against what NEXT.md §3 promises. It
// demands, except of what a store lost that says so:
//
//   - every number from the first to the last is in exactly one state, after every write;
//   - G1: what a caller is told is in the store by then;
//   - G2: what a caller was told as issued stays issued, unless an administrator asked for it to
//     become void; nobody else is ever told it; what is void stays void;
//   - G3: of confirm, release and expiry exactly one happens to a reservation, expiry not before
//     its time if clocks are right, and after a time in which nobody was awake not before its
//     whole time has passed again;
//   - G4: the lowest released number goes out first, and with void none goes out again;
//   - one answer for a key, whatever was lost on the way;
//   - at the end nothing that was due is left, and numbers that are issued although nobody was told
//     are those of requests whose node died, or whose key nobody sent again;
//   - an account says exactly what was true at one moment.
type checker struct {
	w      *world
	broken string

	claims int32
	told   []int32 // by number: which claim a caller was told as issued
	asked  []bool  // by number: whether an administrator asked for it to become void
	// highest is the highest number that was ever in the store, and heard the highest that a caller
	// was told.
	highest, heard int64

	// lineage counts how often the store went back, and writes the writes.
	lineage, writes int
	// isRaised is whether an operator has raised the counter since the store last went back.
	isRaised bool
	state    *ledger.State
	// previous is the state before the write that is being checked, which was composed then.
	previous *ledger.State
	composed int64
	cells    []cell // of state, by number
	// durable is, by number, the last write after which it was issued.
	durable []int
	// bookings are the numbers that reservations had in the store.
	booked map[string][]ledger.Run
	// history are the cells after each write, by revision, in this lineage.
	history map[int64][]cell
	// lost are numbers that may be issued without anybody knowing.
	lost       int64
	tolds      int
	toldIssued int64
	// awakeFrom is when the last time ended in which nobody was awake.
	awakeFrom int64
}

func (c *checker) fail(format string, args ...any) {
	if c.broken == "" {
		c.broken = fmt.Sprintf(format, args...)
		c.w.say("%s %s", violation, c.broken)
	}
}

// violation begins the line of a schedule that shows which promise was broken.
const violation = "VIOLATION"

func grown[T any](list []T, number int64) []T {
	for int64(len(list)) <= number {
		list = append(list, make([]T, len(list)+16)...)
	}
	return list
}

func (c *checker) askVoid(number int64) {
	c.asked = grown(c.asked, number)
	c.asked[number] = true
}

func (c *checker) mayVoid(number int64) bool { return number < int64(len(c.asked)) && c.asked[number] }

func (c *checker) claimOf(number int64) int32 {
	if number < int64(len(c.told)) {
		return c.told[number]
	}
	return 0
}

func each(runs []ledger.Run, f func(number int64)) {
	for _, r := range runs {
		for number := r.From; number <= r.To; number++ {
			f(number)
		}
	}
}

// load takes the state of the counter as it is in the store now.
func (c *checker) load() (state *ledger.State, cells []cell) {
	d, there := c.w.store.ledgerDoc()
	if !there {
		return nil, nil
	}
	state, err := ledger.Decode(&d)
	if err != nil {
		c.fail("state: %v", err)
		return nil, nil
	}
	voids := c.voidRuns(state)
	if err := state.Check(voids); err != nil {
		c.fail("one state: %v", err)
		return nil, nil
	}
	cells = make([]cell, state.Last+1)
	for number := state.First; number <= state.Last; number++ {
		cells[number].state = issued
	}
	set := func(runs []ledger.Run, to cell) {
		each(runs, func(number int64) {
			if number > state.Last || cells[number].state != issued {
				c.fail("one state: %d is %q and %q", number, cells[number].state, to.state)
				return
			}
			cells[number] = to
		})
	}
	for _, r := range state.Reserved {
		set(r.Runs, cell{reserved, r.ID})
	}
	for _, r := range state.Released {
		set([]ledger.Run{r.Run}, cell{state: released})
	}
	set(voids, cell{state: void})
	return state, cells
}

// voidRuns returns all void numbers: those of the records and of the outbox.
func (c *checker) voidRuns(state *ledger.State) []ledger.Run {
	runs, err := state.AllVoids(c.w.store.voidRecords())
	if err != nil {
		c.fail("records: %v", err)
	}
	return runs
}

// written checks a change of the document.
func (c *checker) written(d *persist.Document) {
	c.writes++
	before, old := c.state, c.cells
	c.previous, c.composed = before, d.Timestamp
	state, cells := c.load()
	if c.broken != "" {
		return
	}
	c.due(d, state)
	c.state, c.cells = state, cells
	c.highest = max(c.highest, state.Last)
	c.history[state.Revision] = cells
	c.durable = grown(c.durable, state.Last)
	for number := state.First; number <= state.Last; number++ {
		if cells[number].state == issued {
			c.durable[number] = c.writes
		}
	}
	for _, r := range state.Reserved {
		if c.booked[r.ID] == nil {
			c.booked[r.ID] = r.Runs
		}
	}
	if before == nil {
		before = &ledger.State{First: state.First, Last: state.First - 1}
	}
	if state.Era == before.Era {
		c.changed(before, state, old, cells)
	}
	for number, claim := range c.told {
		if claim > 0 && int64(number) <= state.Last && int64(number) >= state.First {
			if s := cells[number].state; s != issued && !(s == void && c.mayVoid(int64(number))) && c.lineage == 0 {
				c.fail("told: %d was told as issued and is %q", number, s)
			}
		}
	}
}

// due checks that the store wakes somebody when something is due.
func (c *checker) due(d *persist.Document, state *ledger.State) {
	earliest := int64(0)
	for _, r := range state.Reserved {
		if at := r.Made + r.TTL; earliest == 0 || at < earliest {
			earliest = at
		}
	}
	if len(state.Released) > 0 && state.Ends > 0 && (earliest == 0 || state.Ends < earliest) {
		earliest = state.Ends
	}
	if earliest > 0 && (d.Expires == 0 || d.Expires > earliest && len(state.Outbox) == 0) {
		c.fail("due: something is due at %d, and the document says %d", earliest, d.Expires)
	}
}

// changed checks a write against the state before it, by number.
func (c *checker) changed(before, state *ledger.State, old, cells []cell) {
	if state.First != before.First && before.Last >= before.First {
		c.fail("first: it was %d and is %d", before.First, state.First)
	}
	if state.Last < before.Last {
		c.fail("last: it was %d and is %d", before.Last, state.Last)
		return
	}
	lowest := int64(0) // that is released, before and after
	for number := before.First; number <= before.Last; number++ {
		if lowest == 0 && old[number].state == released && cells[number].state == released {
			lowest = number
		}
	}
	for number := before.First; number <= state.Last; number++ {
		was := cell{}
		if number <= before.Last {
			was = old[number]
		}
		now := cells[number]
		if was == now {
			continue
		}
		if lowest > 0 && number > lowest && (was.state == released || was.state == none) && (now.state == issued || now.state == reserved) {
			c.fail("G4: %d went out, and %d is released", number, lowest)
		}
		c.moved(state, number, was, now)
	}
}

// moved checks what became of one number.
func (c *checker) moved(state *ledger.State, number int64, was, now cell) {
	switch was.state {
	case void:
		c.fail("G2: %d was void and is %q", number, now.state)
	case issued:
		if now.state == void && c.mayVoid(number) {
			c.w.count("issued, void")
			return
		}
		if c.claimOf(number) != 0 {
			c.fail("G2: %d was told as issued and is %q", number, now.state)
		}
	case released:
		if now.state == void && !c.mayVoid(number) && !c.w.everVoid && (state.Ends == 0 || state.Ends > c.w.now+day+jitter) {
			c.fail("void: %d was released and is void, and nobody asked for it", number)
		}
	case reserved:
		c.settled(state, number, was.res, now)
	}
	if now.state == released && c.w.alwaysVoid {
		c.fail("G4: %d is released although numbers that come back become void", number)
	}
}

// settled checks what became of a reserved number.
func (c *checker) settled(state *ledger.State, number int64, id string, now cell) {
	b := c.w.bookings[id]
	switch {
	case b == nil:
		c.fail("reservation: nobody asked for %s", short(id))
	case now.state == issued && b.confirming:
		b.write, b.composed = c.writes, c.composed
		c.w.count("confirmed")
	case now.state == void && c.mayVoid(number):
		c.w.count("reserved, void")
	case b.releasing || b.abandoned:
		c.w.count("reservation released")
	default:
		c.reclaimed(number, id)
	}
}

// reclaimed checks that a reservation expires no earlier than it may.
func (c *checker) reclaimed(number int64, id string) {
	c.w.count("reclaimed")
	if c.w.skewed {
		return
	}
	r := c.before(id)
	if r == nil {
		return
	}
	if at := r.Made + r.TTL; at > c.composed+jitter {
		c.fail("G3: %d of %s was reclaimed %d ms before its time", number, short(id), at-c.composed)
	}
	if at := c.awakeFrom + r.TTL; !r.Suspect && r.Made < c.awakeFrom && c.composed > c.awakeFrom && at > c.composed+jitter {
		c.fail("grace: %d of %s was reclaimed %d ms before the end of its grace", number, short(id), at-c.composed)
	}
}

// before returns a reservation as it was before the present write.
func (c *checker) before(id string) *ledger.Reservation {
	if c.previous == nil {
		return nil
	}
	return c.previous.Reservation(id)
}

// expired notes reservations that rejection handlers are told about.
func (c *checker) expired(list []*ledger.Entry) {
	for _, e := range list {
		c.end(e.ID, e.End)
	}
}

// end notes what became of a reservation.
func (c *checker) end(id string, how ledger.End) {
	b := c.w.bookings[id]
	if b == nil || how == ledger.Open {
		return
	}
	if b.outcome != ledger.Open && b.outcome != how && c.lineage == 0 {
		c.fail("G3: %s is %q and was %q", short(id), how, b.outcome)
	}
	if b.outcome == ledger.Open || b.outcomeAt != c.lineage {
		b.outcome, b.outcomeAt, b.outcomeTime = how, c.lineage, c.w.now
	}
}
