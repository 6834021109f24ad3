package cursor

import (
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// Mode is how a node issues the numbers of a counter.
type Mode uint8

// The modes. See [Machine.enter] for the transitions.
const (
	// Online: callers take from the cursor.
	Online Mode = iota
	// Mending: callers wait until the cursor has numbers above all that this node has issued. They
	// are refused if that takes longer than Patience, and at once while Refusal is not nil.
	Mending
	// Alone: callers take from the node's own buffer, because Redis is away. Order over the nodes
	// is suspended.
	Alone
	// Closing: callers are refused.
	Closing
)

// String implements [fmt.Stringer].
func (m Mode) String() string {
	return [...]string{Online: "online", Mending: "mending", Alone: "alone", Closing: "closing"}[m]
}

// Config is what a machine is made from. It does not change.
type Config struct {
	// Start is the first number that may be issued.
	Start int64
	// Threshold is the share of buffer 1 of the cursor whose use asks for a refill.
	Threshold float64
	// Reserve is how many ranges may wait in the cursor behind buffer 2.
	Reserve int
	// Degrade lets the node issue on its own while Redis is away. Otherwise callers are refused.
	Degrade bool
	// NoStandby keeps no range for an outage of Redis: then the node issues on its own only if the
	// store gives ranges. It is for counters of which there are very many.
	NoStandby bool
	// TakeOver lets a cursor take over a counter that the store sequences, but only until a cursor
	// has counted once: if the store takes over later, another node has a newer definition.
	// Otherwise callers are refused while the store sequences the counter, and [Yield] is emitted.
	TakeOver bool
	// Step is the smallest number of numbers to allocate at a time, MaxStep the largest.
	Step, MaxStep int64
	// Patience is how long callers wait.
	Patience time.Duration
	// NewEpoch draws an epoch; nil for [persist.NewEpoch].
	NewEpoch func() string
	// Without takes rules out. Only tests do that.
	Without RuleSet
}

// Machine is the state of one node and counter. It is not safe for concurrent use. The zero value
// is not usable: see [New].
//
// The shell that drives it promises:
//   - At most one take for callers is under way, from a Send that returned wait == false to Took,
//     and only if the mode was Online when Send was called first.
//   - Each command that names a Task is executed once, never repeated, and its result is passed on
//     once, whether it succeeded or not: [Machine.Looked], [Machine.Installed],
//     [Machine.Allocated], [Machine.Asked] or [Machine.Read].
//   - After each call of a method that takes a time, it executes Commands. It calls Tick when
//     Deadline has come.
type Machine struct {
	cfg  Config
	mode Mode
	over bool  // Finish was called: results that still arrive are dropped
	away error // why the store gives no ranges now, nil if it does or never will
	outbox
	schedule
	callers
	numbers
	belief belief
	outage outage
	spare  spareRange
	redis  redisHealth
}

// callers is the callers who wait, and the errors that callers get.
type callers struct {
	wanted    int64   // how many numbers the callers who wait lack
	mendBegan instant // when the present or last mending began
	// what the present mending found wrong last; after Patience callers get it
	failure *seqd.Error
	refusal *seqd.Error // what callers get at once, nil while waiting is worth it
}

// New returns a machine in the mode Online that knows nothing yet.
func New(cfg Config) *Machine {
	if cfg.NewEpoch == nil {
		cfg.NewEpoch = persist.NewEpoch
	}
	before := cfg.Start - 1
	return &Machine{cfg: cfg, numbers: numbers{highest: before, floor: before, seen: before}, belief: belief{without: cfg.Without}}
}

// enter is the only place where the mode changes. It is called by enterMending, [mend.mended],
// goAlone and [Machine.Stop]. DESIGN §3 "Modes" has a table of the transitions.
//
//	         a take lacks numbers; Prepare
//	Online ────────────────────────────────► Mending
//	       ◄────────────────────────────────  │   ▲
//	         the cursor has numbers above      │   │ Redis answers, and the range that
//	         all that this node issued         │   │ the return needs is in hand
//	                                           ▼   │
//	   Redis has failed for RedisPatience ►  Alone
//
//	any ──► Closing, which is final
//
// Callers who wait look again at each change.
func (m *Machine) enter(next Mode) {
	if m.mode == Mending || next == Closing {
		m.emit(Wake{})
	}
	m.mode = next
}

// Mode returns how the node issues now.
func (m *Machine) Mode() Mode { return m.mode }

// Refusal returns the error that callers get at once, nil while waiting is worth it.
func (c *callers) Refusal() *seqd.Error { return c.refusal }

// without reports whether a test has taken a rule out.
func (m *Machine) without(r Rule) bool { return m.cfg.Without.Has(r) }

// Prepare mends the cursor before anybody wants a number. No take is under way.
func (m *Machine) Prepare(when time.Time) { m.startMending(at(when), nil) }

// Waiting notes that a caller begins to wait for n numbers.
func (c *callers) Waiting(n int64) { c.wanted += n }

// Gone notes that a caller waits for n numbers no longer.
func (c *callers) Gone(n int64) { c.wanted -= n }

// Store notes why the store gives no ranges, nil if it does. It is called whenever that changes. If
// the result of a command showed it, Store is called before the result is passed on. The local
// buffer may find out after it was closed.
func (m *Machine) Store(when time.Time, away error) {
	if m.away = away; away != nil {
		m.startWatch(at(when))
	}
}

// storeAnswers notes that the store is no longer known to be away.
func (m *Machine) storeAnswers() {
	m.away = nil
	m.emit(StoreAnswers{})
}

// Stop ends issuing. No task begins any more, except that a range which was allocated for the
// cursor is still installed. Results of commands under way must still be passed on.
func (m *Machine) Stop(when time.Time) {
	now := at(when)
	m.enter(Closing)
	m.emit(Resume{})
	for _, t := range slices.Clone(m.running) {
		w := t.base()
		if w.wake = 0; !w.state.commanded() {
			m.end(now, w)
		}
	}
}

// Finish ends what Stop began, and returns the ranges that only this node has, once, the lower one
// first. Results that still arrive are dropped.
func (m *Machine) Finish() []persist.Range {
	m.over = true
	return m.hand()
}
