package cursor

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

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

// state is what a task waits for.
type state uint8

const (
	pausing        state = iota // the time at which it continues
	awaitingRefill              // Refill to end, or the time at which it looks for itself
	awaitingSpare               // likewise Spare
	looking                     // the result of a Take that looks
	skipping                    // the result of a Take of numbers to skip
	installing                  // the result of an Install
	allocating                  // the result of an Allocate
	asking                      // the result of a Question
	reading                     // the result of a ReadStore
	closing                     // the result of a CloseLocal
)

// commanded reports whether a command is under way.
func (s state) commanded() bool { return s >= looking }

// task is a task that is under way: a small state machine. Its method is called when the result or
// the time that it waits for has come. The method sends the next command, pauses, or ends the task.
type task interface {
	base() *work
	tick(now instant)
	looked(now instant, taken rediscursor.Taken, err error)
	installed(now instant, answer rediscursor.Answer, err error)
	allocated(now instant, r persist.Range, err error)
	asked(now instant, err error)
	read(now instant, err error)
}

// work is what all tasks have in common. Its methods do nothing: a task replaces those that it
// needs.
type work struct {
	*Machine
	id    Task
	state state
	sent  instant       // since when the task waits, such as for its command under way
	wake  instant       // when tick is due, zero for never
	pause time.Duration // the next one of later
	// to is where the range goes that is being allocated.
	to persist.Target
	// refused is set while the store is asked why it gave no range for a cursor.
	refused bool
}

func (w *work) base() *work                                { return w }
func (*work) tick(instant)                                 {}
func (*work) looked(instant, rediscursor.Taken, error)     {}
func (*work) installed(instant, rediscursor.Answer, error) {}
func (*work) allocated(instant, persist.Range, error)      {}
func (*work) asked(instant, error)                         {}
func (*work) read(instant, error)                          {}

// begin starts a task and returns true, unless the machine is closing or the task is under way.
func (m *Machine) begin(id Task, t task) bool {
	if m.mode == Closing || m.under(id) {
		return false
	}
	w := t.base()
	w.Machine, w.id = m, id
	m.running = append(m.running, t)
	return true
}

// end takes a task off the list. A mending that waits for it continues.
func (m *Machine) end(now instant, w *work) {
	m.remove(w)
	if t, ok := m.find(Mend).(*mend); ok {
		t.ended(now, w.id)
	}
}

// schedule is the tasks that are under way.
type schedule struct{ running []task }

// remove takes a task off the list.
func (s *schedule) remove(w *work) {
	s.running = slices.DeleteFunc(s.running, func(t task) bool { return t.base() == w })
	if len(s.running) == 0 {
		s.running = nil // an idle machine takes no room for it
	}
}

// find returns a task that is under way, else nil.
func (s *schedule) find(id Task) task {
	for _, t := range s.running {
		if t.base().id == id {
			return t
		}
	}
	return nil
}

// under reports whether a task is under way.
func (s *schedule) under(id Task) bool { return s.find(id) != nil }

// sends notes that a task sends a command and waits for its result, and returns true. If the
// machine is closing, it ends the task and returns false.
func (w *work) sends(now instant, s state) bool {
	if w.mode == Closing {
		w.end(now, w)
		return false
	}
	w.state, w.sent, w.wake = s, now, 0
	return true
}

// pauses lets a task continue after d.
func (w *work) pauses(now instant, s state, d time.Duration) {
	if w.sends(now, s) {
		w.wake = now.add(d)
	}
}

// later lets a task continue after a pause that grows.
func (w *work) later(now instant) {
	w.pauses(now, pausing, w.pause)
	w.pause = min(2*w.pause, LastPause)
}

// peek looks at the cursor. With claim, the look also claims the refill, if one is wanted, for this
// node. A timeout of 0 means none.
func (w *work) peek(now instant, claim bool, timeout time.Duration) {
	if !w.sends(now, looking) {
		return
	}
	take := w.take(0, false)
	if !claim {
		take.Claim = 0
	}
	w.emit(Take{w.id, take, timeout})
}

// allocate takes a range from the store. All its numbers are above floor, which is the highest
// number that this process has seen (invariant U1, [RuleFloor]).
func (w *work) allocate(now instant, to persist.Target, want, floor int64, why Reason) {
	if !w.sends(now, allocating) {
		return
	}
	if w.without(RuleFloor) {
		floor = 0
	}
	w.to = to
	w.emit(Allocate{Task: w.id, To: to, Want: want, Floor: floor, Why: why})
}

// question asks the store which cursor counts.
func (w *work) question(now instant, timeout time.Duration) {
	w.pose(now, Question{Task: w.id, Timeout: timeout})
}

func (w *work) pose(now instant, q Question) {
	if w.sends(now, asking) {
		w.belief.tried = now
		w.emit(q)
	}
}

// Deadline returns when Tick is due next, the zero time for never.
func (s *schedule) Deadline() time.Time {
	const never = instant(math.MaxInt64)
	due := never
	for _, t := range s.running {
		if wake := t.base().wake; !wake.never() {
			due = min(due, wake)
		}
	}
	if due == never {
		return time.Time{}
	}
	return due.time()
}

// Tick continues what waited for a time that has come.
func (m *Machine) Tick(when time.Time) {
	now := at(when)
	for _, t := range slices.Clone(m.running) {
		if w := t.base(); !w.wake.never() && now >= w.wake {
			w.wake = 0
			t.tick(now)
		}
	}
}

// expects returns the task if it is in one of the states, else nil.
func (s *schedule) expects(id Task, states ...state) task {
	t := s.find(id)
	if t == nil || !slices.Contains(states, t.base().state) {
		return nil
	}
	return t
}

// Looked passes on the result of a [Take] of a task.
func (m *Machine) Looked(when time.Time, id Task, taken rediscursor.Taken, err error) {
	now := at(when)
	m.dropAll(taken.Runs, ErrBelow)
	t := m.expects(id, looking, skipping)
	if t == nil {
		return
	}
	if t.base().state == looking {
		m.seeCeil(taken.Ceil)
		if err == nil {
			m.seeNext(&taken)
		}
	}
	if m.mode == Closing {
		m.end(now, t.base())
		return
	}
	t.looked(now, taken, err)
}

// Installed passes on the result of an [Install]. After an error it is unknown whether the range is
// in the cursor.
func (m *Machine) Installed(when time.Time, id Task, answer rediscursor.Answer, err error) {
	now := at(when)
	if t := m.expects(id, installing); t != nil {
		t.installed(now, answer, err)
	}
}

// Allocated passes on the result of an [Allocate]. If the counter has another epoch than the range
// is for, the node asks the store which one.
func (m *Machine) Allocated(when time.Time, id Task, r persist.Range, err error) {
	now := at(when)
	t := m.expects(id, allocating)
	if t == nil {
		m.drop(r, ErrStopping)
		return
	}
	w := t.base()
	switch {
	case errors.Is(err, persist.ErrEpoch):
		w.refused = true
		w.question(now, FetchDeadline)
		return
	case err == nil:
		m.see(r.Last)
		if !w.to.Keeps() {
			m.belief.drew(w.to.Epoch(), w.sent)
		}
		if id != Standby {
			m.step = r.Size()
		}
	}
	t.allocated(now, r, err)
}

// Asked passes on the epoch that the store answered a [Question] with.
func (m *Machine) Asked(when time.Time, id Task, epoch string, err error) {
	now := at(when)
	t := m.expects(id, asking)
	if t == nil {
		return
	}
	w := t.base()
	if err == nil {
		m.belief.believe(now, epoch, w.sent)
	}
	switch {
	case m.mode == Closing:
		m.end(now, w)
	case w.refused:
		w.refused = false
		if err == nil {
			err = persist.ErrEpoch
		} // otherwise not ErrEpoch, so that the task pauses before it tries again
		t.allocated(now, persist.Range{}, err)
	default:
		t.asked(now, err)
	}
}

// Read passes on whether the store answered a [ReadStore].
func (m *Machine) Read(when time.Time, id Task, err error) {
	now := at(when)
	t := m.expects(id, reading)
	if t == nil {
		return
	}
	if m.mode == Closing {
		m.end(now, t.base())
		return
	}
	t.read(now, err)
}
