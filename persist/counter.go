package persist

import (
	"context"
	"fmt"
)

// Counter is the record in the store that ranges are allocated from. A biz type has one, or one for
// each period if its numbers reset.
type Counter struct {
	// BizTag is the name of the counter: that of the biz type, or, if its numbers reset, with the
	// period, such as invoice@2026.
	BizTag string `json:"bizTag"`
	// Max is the highest number that ever left the store; 0 or more.
	Max int64 `json:"max"`
	// Step is the size of the last range that was allocated because numbers were consumed.
	Step int64 `json:"step"`
	// Timestamp is when Step was last written, in ms since the Unix epoch.
	Timestamp int64 `json:"timestamp"`
	// Epoch is the sequencer epoch: it names the one cursor that may issue numbers of this counter
	// (invariant U3b). If it is empty, as in a new record, no cursor may. [StoreEpoch] says that
	// the counter itself is the cursor. It is compared for equality only: after a restore it may be
	// an older one.
	Epoch string `json:"epoch,omitempty"`
	// FailedOver is true if the store has failed over since the record was written, and may have
	// lost later changes of the record. Then Epoch is empty: no cursor may issue. It is not stored:
	// a driver derives it from the fence that it keeps with the record. It is always false in a
	// store that is no [Fenced].
	FailedOver bool `json:"-"`
	// Failovers is how many failovers there were since then, at least 1 if FailedOver is true, as far as
	// a driver knows. It is not stored either.
	Failovers int64 `json:"-"`
}

// StoreEpoch is the sequencer epoch of a counter that is its own cursor: nodes take numbers from it
// in strict order, and there is no cursor in Redis.
const StoreEpoch = "store"

// isEpoch reports whether a text can be the epoch of a cursor.
func isEpoch(text string) bool { return text == StoreEpoch || isRandom(text) }

// PersistID is the name.
func (c Counter) PersistID() string { return c.BizTag }

// Validate returns ErrInvalid and the field that is out of its range.
func (c Counter) Validate() error {
	switch {
	case c.BizTag == "":
		return invalid("bizTag is empty")
	case c.Max < 0 || c.Max > MaxNumber:
		return invalid("max %d is outside 0 to %d", c.Max, MaxNumber)
	case c.Step < 1 || c.Step > MaxNumber:
		return invalid("step %d is outside 1 to %d", c.Step, MaxNumber)
	case c.Epoch != "" && !isEpoch(c.Epoch):
		return invalid("epoch %q is neither %q nor %d hexadecimal digits", c.Epoch, StoreEpoch, 2*randomBytes)
	}
	return nil
}

// Range is the numbers from First to Last, both included. First ≥ 1.
type Range struct{ First, Last int64 }

// Size is how many numbers the range holds.
func (r Range) Size() int64 { return r.Last - r.First + 1 }

// Validate returns ErrInvalid unless 1 ≤ First ≤ Last ≤ MaxNumber.
func (r Range) Validate() error {
	if r.First < 1 || r.Last < r.First || r.Last > MaxNumber {
		return invalid("range %d to %d", r.First, r.Last)
	}
	return nil
}

// Request asks for a range.
type Request struct {
	BizTag string
	// Size is how many numbers the range shall hold, 0 to MaxNumber. With size 0 nothing is taken
	// and the range is empty, but the counter is raised to the floor, and the zero Target or
	// [Retire] retires its cursor. A range for a cursor cannot have size 0.
	Size int64
	// Floor is the highest number that the calling process ever saw for this counter, 0 for none.
	// The range begins above it.
	Floor int64
	// Gap is how many numbers above Floor are skipped if the counter's maximum is below Floor: then
	// the store was restored from an older copy. The step that allocates decides this, because an
	// earlier read may be out of date.
	Gap int64
	// FailoverGap is how many numbers are skipped if [Counter.FailedOver] is true when the range is
	// allocated: others may have got numbers above the counter's maximum. If a driver knows that
	// there were n failovers, it skips n gaps: the second failover may have lost a range that began
	// above the gap of the first one. At most half of the numbers that are left are skipped.
	FailoverGap int64
	// FailoverSteps makes FailoverGap at least that many steps: those in the record when the range
	// is allocated. A caller may not know them, and a step that it has read may have grown since.
	FailoverSteps int64
	// Step is recorded with the present time. 0 leaves the step and the timestamp of the record as
	// they are: a range that fills a buffer for the first time says nothing about consumption.
	Step int64
	// To is where the range goes. The zero Target is the buffer of a node.
	To Target
}

// Target is where a range goes, and so what happens to the counter's epoch (invariant U3b). It is
// [Beside], the result of [ToCursor], [NewCursor] or [Retire], or the zero Target: the buffer of a
// node, which empties the epoch and so retires the cursor.
type Target struct {
	kind        targetKind
	epoch, next string
}

type targetKind int

const (
	node targetKind = iota
	beside
	cursor
	retired
)

// Beside is the buffer of a node that issues on its own although there is a cursor. The epoch stays
// as it is.
var Beside = Target{kind: beside}

// ToCursor is the cursor of an epoch: a cursor in Redis, or, with [StoreEpoch], the counter itself,
// whose range goes to the callers of one take. Allocate returns ErrEpoch if the counter has another
// epoch.
func ToCursor(epoch string) Target { return Target{cursor, epoch, epoch} }

// NewCursor is a cursor that begins with the epoch next. With it one sequencer takes over from
// another. If the counter's epoch still is epoch, Allocate replaces it by next. Otherwise Allocate
// returns ErrEpoch. Of concurrent calls with the same epoch at most one succeeds.
func NewCursor(epoch, next string) Target { return Target{cursor, epoch, next} }

// Retire is the buffer of a node, as the zero Target is. But if the counter's epoch is not epoch any
// more, Allocate returns ErrEpoch: another sequencer has taken over.
func Retire(epoch string) Target { return Target{retired, epoch, ""} }

// Epoch is the epoch of the cursor that the range goes to, "" if it goes to none.
func (t Target) Epoch() string { return t.next }

// Needs reports whether the counter must have a certain epoch, and which.
func (t Target) Needs() (epoch string, ok bool) {
	return t.epoch, t.kind == cursor || t.kind == retired
}

// Cursor reports whether the range goes to a cursor, and which epoch the counter must have.
func (t Target) Cursor() (epoch string, ok bool) { return t.epoch, t.kind == cursor }

// Keeps reports whether the counter's epoch stays as it is. If not, Allocate sets it to Epoch.
func (t Target) Keeps() bool { return t.kind == beside || t.kind == cursor && t.next == t.epoch }

// Validate returns ErrInvalid and the field that is out of its range.
func (r Request) Validate() error {
	switch {
	case r.Size < 0 || r.Size > MaxNumber:
		return invalid("size %d is outside 0 to %d", r.Size, MaxNumber)
	case r.Size == 0 && r.To.kind == cursor:
		return invalid("a range of no numbers for a cursor")
	case r.Floor < 0 || r.Floor > MaxNumber:
		return invalid("floor %d is outside 0 to %d", r.Floor, MaxNumber)
	case r.Gap < 0 || r.Gap > MaxNumber:
		return invalid("gap %d is outside 0 to %d", r.Gap, MaxNumber)
	case r.FailoverGap < 0 || r.FailoverGap > MaxNumber:
		return invalid("failover gap %d is outside 0 to %d", r.FailoverGap, MaxNumber)
	case r.FailoverSteps < 0 || r.FailoverSteps > MaxNumber:
		return invalid("failover gap of %d steps is outside 0 to %d", r.FailoverSteps, MaxNumber)
	case r.Step < 0 || r.Step > MaxNumber:
		return invalid("step %d is outside 0 to %d", r.Step, MaxNumber)
	case r.To.kind == cursor && !isEpoch(r.To.next):
		return invalid("the cursor's epoch %q is neither %q nor %d hexadecimal digits", r.To.next, StoreEpoch, 2*randomBytes)
	}
	return nil
}

// MostFailoverStep returns the largest step that FailoverSteps counts in full. So their product is
// at most MaxNumber.
func (r Request) MostFailoverStep() int64 { return MaxNumber / max(1, r.FailoverSteps) }

// Allocated returns the counter as it is after a request, and the range. It only computes. A driver
// reads the counter, calls Allocated and writes the result in one transaction, and returns the
// range only after that (invariant U1). If FailedOver is true, it passes an empty Epoch, and writes
// the fence of the present server with the result. now is in ms since the Unix epoch.
func (c Counter) Allocated(req Request, now int64) (Counter, Range, error) {
	if err := req.Validate(); err != nil {
		return c, Range{}, err
	}
	if epoch, ok := req.To.Needs(); ok && epoch != c.Epoch {
		return c, Range{}, fmt.Errorf("%s: %w", c.BizTag, ErrEpoch)
	}
	base := c.Max
	if base < req.Floor {
		base = req.Floor + min(req.Gap, MaxNumber-req.Floor)
	}
	if c.FailedOver {
		steps := min(c.Step, req.MostFailoverStep()) * req.FailoverSteps
		base += min(max(req.FailoverGap, steps), (MaxNumber-base)/2)
	}
	if req.Size > MaxNumber-base {
		return c, Range{}, fmt.Errorf("%w: %s has %d numbers left", ErrExhausted, c.BizTag, MaxNumber-base)
	}
	c.Max, c.FailedOver, c.Failovers = base+req.Size, false, 0
	if !req.To.Keeps() {
		c.Epoch = req.To.Epoch()
	}
	if req.Step > 0 {
		c.Step, c.Timestamp = req.Step, now
	}
	return c, Range{First: base + 1, Last: c.Max}, nil
}

// Counters keeps counters. Allocate is what keeps two nodes from issuing the same number (invariant
// U1: a range leaves the store once). Counters is safe for concurrent use. Every change is durable
// when the operation returns nil.
//
// After an error other than those named here a change may have happened, or may happen later. A
// caller never uses a range whose outcome is unknown. A driver never repeats an Allocate or
// GiveBack whose outcome it does not know (invariant U2).
type Counters interface {
	// Create stores a new counter, or returns ErrExists. Of concurrent calls one succeeds. It
	// returns ErrFailedOver, and stores nothing, if the store may have lost counters; see
	// [Fenced].
	Create(ctx context.Context, c Counter) error
	// Read returns a counter, or ErrNotFound.
	Read(ctx context.Context, bizTag string) (Counter, error)
	// Delete removes a counter, or returns ErrNotFound.
	Delete(ctx context.Context, bizTag string) error
	// List returns at most limit counters whose names are greater than after, in byte order of
	// their names.
	List(ctx context.Context, after string, limit int) ([]Counter, error)
	// Allocate does max := max(max, floor) + size in one atomic, durable step, and returns the size
	// numbers up to the new max. So of concurrent calls, on one node or many, no two get the same
	// number (invariant U1). Allocate also adds the gap if max was below floor, adds the failover
	// gap if the store failed over since the counter was written, and sets the epoch as the target
	// says. [Counter.Allocated] is the exact rule.
	//
	// It returns ErrNotFound if there is no counter, and creates none: a counter that vanished must
	// not start again. It returns ErrEpoch if the target needs an epoch and the counter has another
	// one (invariant U3b). After these, ErrExhausted and ErrInvalid nothing has changed. After
	// any other error the range may have been taken, and the epoch changed.
	Allocate(ctx context.Context, req Request) (Range, error)
	// GiveBack returns the end of what was handed out. If max is r.Last, max becomes r.First − 1,
	// atomically and durably, and GiveBack returns true. If max is another number, or the store
	// failed over since the counter was written, nothing changes and GiveBack returns false. Before
	// the call, the caller takes r out of every buffer. It calls once: after an error the range is
	// lost and is not offered again.
	GiveBack(ctx context.Context, bizTag string, r Range) (bool, error)
	// Epoch returns the sequencer epoch that the counter has now, or ErrNotFound. It is called
	// often, and for many counters at about the same time: a driver may answer several callers with
	// one read that began after all of them had called.
	Epoch(ctx context.Context, bizTag string) (string, error)
}
