package cursor

import (
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// Mode is how a node issues.
type Mode uint8

// The modes. See [Machine.enter] for the transitions.
const (
	// Online: callers take from the cursor.
	Online Mode = iota
	// Mending: callers wait until the cursor has numbers above all that this node has issued.
	Mending
	// Alone: callers take from the node's own buffer, because Redis is away.
	Alone
	// Closing: callers are refused.
	Closing
)

// String implements [fmt.Stringer].
func (m Mode) String() string {
	return [...]string{Online: "online", Mending: "mending", Alone: "alone", Closing: "closing"}[m]
}

// Task names a piece of background work. Each has at most one command under way, and its result
// comes back under its name.
type Task uint8

// The tasks.
const (
	Mend     Task = iota // look at the cursor and do what it lacks, while callers wait
	Refill               // fill the queue of the cursor
	Spare                // allocate the range that a beginning of the cursor needs
	Standby              // allocate the range that the node would issue first on its own
	Comeback             // find out whether a node on its own can use the cursor again
	Watch                // find out whether a store that was away answers again
	Ask                  // ask the store which cursor counts
	Check                // look whether Redis serves the cursor, for Health
	tasks
)

// String implements [fmt.Stringer].
func (t Task) String() string {
	return [...]string{"mend", "refill", "spare", "standby", "comeback", "watch", "ask", "check"}[t]
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
//     and only while the mode was Online when the Send was called.
//   - Each command that names a Task is executed once, never repeated, and its result is passed on
//     once, whether it succeeded or not: [Machine.Looked], [Machine.Installed],
//     [Machine.Allocated], [Machine.Asked] or [Machine.Read].
//   - After each call of a method that takes now, Commands is called, and Tick is called when
//     Deadline has come.
type Machine struct {
	cfg Config
}

// New returns a machine in the mode Online that knows nothing yet.
func New(cfg Config) *Machine { panic("TODO") }

// Mode returns how the node issues now.
func (m *Machine) Mode() Mode { panic("TODO") }

// Refusal returns what callers get at once, nil while waiting is worth it.
func (m *Machine) Refusal() *seqd.Error { panic("TODO") }

// Commands returns what is to be done since the last call, in order.
func (m *Machine) Commands() []Command { panic("TODO") }

// Deadline returns when Tick is due next, the zero time for never.
func (m *Machine) Deadline() time.Time { panic("TODO") }

// Tick continues what waited for a time that has come.
func (m *Machine) Tick(now time.Time) { panic("TODO") }

// Began notes the epoch that the store held when the node began to use the counter, as the answer
// to a question that was sent at asked. It is not called if the store could not be read.
func (m *Machine) Began(now, asked time.Time, epoch string) { panic("TODO") }

// Send returns the take for callers who want want numbers together. If wait is true the take must
// not be sent yet (RuleBeliefsAge): the command [Resume] follows, and then Send is called again.
func (m *Machine) Send(now time.Time, want int64) (take rediscursor.Take, wait bool) {
	panic("TODO")
}

// Outcome is what came of a take.
type Outcome struct {
	// Runs may be issued, in this order. They share memory with those that were taken.
	Runs []persist.Range
	// Below is how many numbers were taken and are skipped, Wrong how many of them nothing
	// explains. The commands tell of both.
	Below, Wrong int64
}

// Took notes what came of a take of want numbers that was sent at sent. The result of a take that
// succeeds while all is well costs no allocation and causes no command.
func (m *Machine) Took(now, sent time.Time, want int64, taken rediscursor.Taken, err error) Outcome {
	panic("TODO")
}

// Prepare mends the cursor before anybody wants a number. No take is under way.
func (m *Machine) Prepare(now time.Time) { panic("TODO") }

// Waiting notes that a caller begins to wait for n numbers, in the mode Mending.
func (m *Machine) Waiting(n int64) { panic("TODO") }

// Gone notes that a caller waits for n numbers no longer.
func (m *Machine) Gone(n int64) { panic("TODO") }

// Late returns the refusal of a caller whose patience ended.
func (m *Machine) Late() *seqd.Error { panic("TODO") }

// Looked passes on what a [Take] of a task brought.
func (m *Machine) Looked(now time.Time, task Task, taken rediscursor.Taken, err error) {
	panic("TODO")
}

// Installed passes on what came of an [Install]. After an error nobody knows whether the range is
// in the cursor.
func (m *Machine) Installed(now time.Time, task Task, answer rediscursor.Answer, err error) {
	panic("TODO")
}

// Allocated passes on what came of an [Allocate]. Whether the error says that the store is away is
// passed on by Store, ahead of it.
func (m *Machine) Allocated(now time.Time, task Task, r persist.Range, err error) { panic("TODO") }

// Asked passes on the epoch that the store answered a [Question] with.
func (m *Machine) Asked(now time.Time, task Task, epoch string, err error) { panic("TODO") }

// Read passes on whether the store answered a [ReadStore].
func (m *Machine) Read(now time.Time, task Task, err error) { panic("TODO") }

// Store notes why the store gives no ranges, nil if it does: whenever that changes, whoever found
// out.
func (m *Machine) Store(now time.Time, away error) { panic("TODO") }

// Local notes the highest number that callers took out of the local buffer, 0 for none, and the
// highest that it ever held. In the mode Alone it is called ahead of every result of Comeback.
func (m *Machine) Local(issued, top int64) { panic("TODO") }

// Closed passes on that the local buffer was closed ([CloseLocal]), with what Local notes.
func (m *Machine) Closed(now time.Time, issued, top int64) { panic("TODO") }

// Stop ends issuing. Nothing begins any more; what comes of commands under way is still wanted.
func (m *Machine) Stop(now time.Time) { panic("TODO") }

// Finish ends what Stop began, and returns the ranges that only this node has, once, the lower one
// first. What still comes in is dropped.
func (m *Machine) Finish() []persist.Range { panic("TODO") }

// Known is what a process knows of a counter beyond what the store says. 0 is nothing.
type Known struct {
	Issued int64 // the highest number that was issued
	Alone  int64 // the highest of those that did not come from the cursor
	Ceil   int64 // the highest number that was in the cursor
}

// Known returns what the successor of this machine in the same process must know. issued is the
// highest number that callers took out of the local buffer, 0 without one.
func (m *Machine) Known(issued int64) Known { panic("TODO") }

// Inherit takes over what a predecessor knew, before anything is issued.
func (m *Machine) Inherit(k Known) { panic("TODO") }

// Measured is what is in hand.
type Measured struct {
	Step    int64 // the size of the last segment that this node allocated, 0 before the first
	Cursor  int64 // numbers that waited in the cursor when it was seen last
	Standby int64 // numbers of the standby range
	Seen    int64 // the highest number that is known to exist
}

// Measure returns what is in hand.
func (m *Machine) Measure() Measured { panic("TODO") }

// Issued returns the highest number that this process has issued from the cursor, or the one below
// Start.
func (m *Machine) Issued() int64 { panic("TODO") }

// Health returns why the next caller would be refused, in any mode but Alone.
func (m *Machine) Health(now time.Time) *seqd.Error { panic("TODO") }

// Degraded returns why the node does not issue as it should, although it does.
func (m *Machine) Degraded(now time.Time) *seqd.Error { panic("TODO") }

// Away returns why the next caller would find Redis away, although no take has failed yet. Redis
// was found away since since, for the reason cause.
func (m *Machine) Away(now, since time.Time, cause error) *seqd.Error { panic("TODO") }
