package storetake

import (
	"cmp"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// Mode is how a node issues the numbers of a counter.
type Mode uint8

// The modes.
const (
	// Mending: callers wait, or get Refusal, until the counter was read.
	Mending Mode = iota
	// Online: callers take from the store.
	Online
	// Closing: callers are refused.
	Closing
)

// String implements [fmt.Stringer].
func (m Mode) String() string {
	return [...]string{Mending: "mending", Online: "online", Closing: "closing"}[m]
}

// Policy is what a machine does about a counter that a cursor in Redis sequences.
type Policy uint8

// The policies.
const (
	// Refuse: callers are refused with a problem that an operator can solve. It is for
	// `sequencer: auto` on a node without Redis.
	Refuse Policy = iota
	// Follow: callers are refused until the shell takes from that cursor. It is for
	// `sequencer: auto` on a node that has Redis.
	Follow
	// TakeOver: the store takes over, once. It is for `sequencer: store`.
	TakeOver
)

// Config is what a machine is made from. It does not change.
type Config struct {
	// Start is the first number that may be issued.
	Start int64
	// Last is the highest number that may be issued, 0 for [seqd.MaxNumber].
	Last int64
	// Cursor is what to do about a cursor in Redis.
	Cursor Policy
	// Patience is how long callers wait.
	Patience time.Duration
	// Without takes rules out. Only tests do that.
	Without RuleSet
}

// Errors that callers get while a cursor in Redis sequences the counter.
var (
	ErrCursor = &seqd.Error{
		Code: seqd.CodeConflict,
		Detail: "a cursor in Redis sequences this counter, and this node has no Redis: set redis.addrs, " +
			"or let the store take over by a change of the biz type to segment.sequencer: store",
	}
	ErrChanged = &seqd.Error{
		Code: seqd.CodeStarting,
		Detail: "a cursor in Redis has taken over this counter from the store: this node waits until its definition says so too. " +
			"If it does not change, give all nodes the same segment.sequencer, and restart them or change the biz type again",
		RetryAfter: time.Second,
	}
	errBehind = errors.New("the store is behind what this node has seen")
)

// Machine is the state of one node and counter. It is not safe for concurrent use. The zero value
// is not usable: see [New].
//
// The shell that drives it promises:
//   - At most one take is under way, from Send to Took, and only if the mode was Online and Refusal
//     nil when Send was called. It is executed once and never repeated.
//   - It calls Tick when Deadline has come. If Tick returns true, it reads the counter and passes
//     the result to Read.
type Machine struct {
	cfg     Config
	mode    Mode
	to      persist.Target // of the next take
	settled bool           // the store has sequenced the counter while this machine existed
	issued  int64          // the highest number that this machine has issued, 0 for none
	seen    int64          // the highest number that this process has seen, at least Start − 1
	// most is how many numbers the next take may ask for, because no more are left; 0 for any.
	most      int64
	refusal   *seqd.Error // what callers get at once, nil while waiting is worth it
	failure   error       // why the last take or read failed
	mendBegan time.Time
	sent      time.Time // when the take under way was sent, zero while there is none
	// due is when the counter is to be read, zero for never or while it is being read.
	due   time.Time
	pause time.Duration // before the next read, since the last take that succeeded
}

// New returns a machine that has not read the counter yet.
func New(cfg Config) *Machine { return &Machine{cfg: cfg, seen: cfg.Start - 1} }

// Inherit notes the highest number that a predecessor in this process has seen, before the first
// take.
func (m *Machine) Inherit(seen int64) { m.seen = max(m.seen, seen) }

// Mode returns how the node issues now.
func (m *Machine) Mode() Mode { return m.mode }

// Refusal returns the error that callers get at once, nil while waiting is worth it.
func (m *Machine) Refusal() *seqd.Error { return m.refusal }

// Issued returns the highest number that this machine has issued, 0 for none, and Seen the highest
// that this process has seen, or the one below Start.
func (m *Machine) Issued() int64 { return m.issued }

// Seen is described at [Machine.Issued].
func (m *Machine) Seen() int64 { return m.seen }

// Moved reports whether a cursor in Redis sequences the counter, which the shell must follow.
func (m *Machine) Moved() bool { return m.refusal == ErrChanged && m.cfg.Cursor == Follow }

// Read passes on the counter as it was read, or why it could not be read.
func (m *Machine) Read(now time.Time, c persist.Counter, err error) {
	switch {
	case m.mode == Closing:
	case err != nil:
		m.failed(now, err)
		if m.refusal = nil; cursor.IsFinal(err) {
			m.refusal = cursor.StoreError(err)
		}
	default:
		m.enterMending(now)
		m.failure, m.refusal, m.due = nil, nil, time.Time{}
		m.decide(now, c)
	}
}

// Guess goes online before the counter was read, or although there is none, as if the store
// sequenced it. If it does not, the next take changes nothing, and the counter is read.
func (m *Machine) Guess() {
	if m.mode == Mending {
		m.failure, m.refusal, m.due = nil, nil, time.Time{}
		m.mode, m.to = Online, persist.ToCursor(persist.StoreEpoch)
	}
}

// decide goes online if the store sequences the counter, or may take over. Otherwise callers are
// refused.
func (m *Machine) decide(now time.Time, c persist.Counter) {
	left := cmp.Or(m.cfg.Last, seqd.MaxNumber) - max(c.Max, m.seen)
	switch {
	case c.Epoch == persist.StoreEpoch:
		m.settled, m.to = true, persist.ToCursor(persist.StoreEpoch)
	case c.Epoch == "" || m.mayTakeOver():
		m.to = persist.NewCursor(c.Epoch, persist.StoreEpoch)
	default:
		m.waitForCursor(now)
		return
	}
	if m.most > 0 {
		m.most = left
	}
	if left <= 0 {
		m.refusal = cursor.StoreError(persist.ErrExhausted)
		return
	}
	m.mode = Online
}

// mayTakeOver reports whether the store may take over from a cursor in Redis ([RuleOnce]).
func (m *Machine) mayTakeOver() bool {
	return m.cfg.Cursor == TakeOver && (!m.settled || m.cfg.Without.Has(RuleOnce))
}

// waitForCursor refuses callers while a cursor in Redis sequences the counter.
func (m *Machine) waitForCursor(now time.Time) {
	if m.refusal = ErrChanged; m.cfg.Cursor == Refuse {
		m.refusal = ErrCursor
	}
	m.due = now.Add(cursor.LastPause)
}

// failed begins to mend: callers wait, and the counter is read after a pause that grows.
func (m *Machine) failed(now time.Time, err error) {
	m.failure = err
	m.pause = min(max(2*m.pause, cursor.FirstPause), cursor.LastPause)
	m.readIn(now, m.pause)
}

// readIn begins to mend: callers wait, and the counter is read after a pause.
func (m *Machine) readIn(now time.Time, pause time.Duration) {
	m.enterMending(now)
	m.due = now.Add(pause)
}

func (m *Machine) enterMending(now time.Time) {
	if m.mode == Online {
		m.mode, m.mendBegan = Mending, now
	} else if m.mendBegan.IsZero() {
		m.mendBegan = now
	}
}

// Deadline returns when Tick is due, the zero time for never.
func (m *Machine) Deadline() time.Time { return m.due }

// Tick reports whether the counter is to be read now.
func (m *Machine) Tick(now time.Time) (read bool) {
	if m.due.IsZero() || now.Before(m.due) {
		return false
	}
	m.due = time.Time{}
	return m.mode != Closing
}

// Take is what is to be asked of the store.
type Take struct {
	// Size is how many numbers are wanted.
	Size int64
	// Floor is the number that they must be above.
	Floor int64
	To    persist.Target
	// Retire is true if the shell must remove the counter's cursor in Redis before the take. A node
	// without Redis removes none.
	Retire bool
}

// TakesOver reports whether the take makes the store the sequencer.
func (t *Take) TakesOver() bool { return !t.To.Keeps() }

// Send returns the take for callers who want want numbers together.
func (m *Machine) Send(now time.Time, want int64) Take {
	m.sent = now
	t := Take{Size: want, Floor: m.seen, To: m.to}
	if m.most > 0 {
		t.Size = min(want, m.most)
	}
	// An empty epoch may hide a cursor that nodes still believe in: after a failover of the store,
	// a raise, or a change that a node has not applied yet.
	if t.TakesOver() {
		t.Retire = !m.cfg.Without.Has(RuleRetireFirst)
	}
	if m.cfg.Without.Has(RuleTakeFloor) {
		t.Floor = 0
	}
	if m.cfg.Without.Has(RuleNamesEpoch) && !t.TakesOver() {
		t.To = persist.Beside
	}
	return t
}

// Outcome is the result of a take.
type Outcome struct {
	// Range may be issued; the zero range if nothing may.
	Range persist.Range
	// Dropped is a range that was taken and must not be issued, because the store is behind.
	Dropped persist.Range
}

// Took notes the result of a take. If the result is unknown, the numbers are lost, and the callers
// join another take.
func (m *Machine) Took(now time.Time, t Take, r persist.Range, err error) (out Outcome) {
	m.sent = time.Time{}
	switch {
	case errors.Is(err, persist.ErrEpoch), cursor.IsExhausted(err):
		if cursor.IsExhausted(err) {
			m.most = t.Size // fewer are left: the read says how many
		}
		m.readAgain(now)
		return out
	case err != nil:
		if m.refusal = nil; cursor.IsFinal(err) {
			m.refusal = cursor.StoreError(err)
		}
		m.failed(now, err)
		return out
	}
	m.settled, m.to = true, persist.ToCursor(persist.StoreEpoch)
	if r.First <= m.seen && !m.cfg.Without.Has(RuleTakeGuard) {
		m.failed(now, errBehind)
		return Outcome{Dropped: r}
	}
	m.seen, m.issued, m.pause = max(m.seen, r.Last), max(m.issued, r.Last), 0
	if m.most > 0 {
		m.readIn(now, 0)
	}
	return Outcome{Range: r}
}

// readAgain begins to mend after a take that changed nothing. The first time since a take succeeded,
// the counter is read at once, and then after pauses that grow.
func (m *Machine) readAgain(now time.Time) {
	m.readIn(now, m.pause)
	m.pause = min(max(2*m.pause, cursor.FirstPause), cursor.LastPause)
}

// Stop ends issuing.
func (m *Machine) Stop() { m.mode, m.due = Closing, time.Time{} }

// Late returns the refusal of a caller whose patience ended.
func (m *Machine) Late() *seqd.Error {
	if m.failure != nil {
		return cursor.StoreError(m.failure)
	}
	return &seqd.Error{Code: seqd.CodeTimeout, Detail: "no numbers came from the store within " + m.cfg.Patience.String(), RetryAfter: time.Second}
}

// Health returns why the next caller would be refused.
func (m *Machine) Health(now time.Time) *seqd.Error {
	switch {
	case m.refusal != nil && m.refusal.Code == seqd.CodeExhausted:
		return nil
	case m.refusal != nil:
		return m.refusal
	case m.failure != nil && now.Sub(m.mendBegan) >= m.cfg.Patience:
		return m.Late()
	case !m.sent.IsZero() && now.Sub(m.sent) > m.cfg.Patience+cursor.Hangs:
		return m.Late() // the store hangs
	}
	return nil
}
