// Package persist is where ranges of numbers come from and what seqd remembers of its biz types. It
// holds the models and the interfaces that stores implement; the drivers are persist/memory,
// persist/bolt and persist/mongo. A driver must pass the suite in persist/persisttest.
package persist

import (
	"context"
	"errors"
)

// FormatVersion is written into every record. A record with a larger one was written by a newer
// seqd and is refused.
const FormatVersion = 1

// MaxNumber is the highest number a range may hold: 2^53 − 1, exact in JavaScript and in Lua.
const MaxNumber int64 = 1<<53 - 1

// Errors that every driver returns, wrapped with what they are about.
var (
	// ErrNotFound is returned when there is no record with this persist ID.
	ErrNotFound = errors.New("not found")
	// ErrExists is returned by Create when the persist ID is taken.
	ErrExists = errors.New("exists already")
	// ErrConflict is returned by Update and Delete of [Documents] when the document has another
	// revision.
	ErrConflict = errors.New("another revision")
	// ErrLowered is returned by Update when it would lower a counter's max, which would issue
	// numbers again.
	ErrLowered = errors.New("would lower the maximum")
	// ErrExhausted is returned by Allocate when the range would end above MaxNumber. Nothing has
	// changed then.
	ErrExhausted = errors.New("exhausted")
	// ErrInvalid is returned when an argument is outside its range, or a record cannot be read.
	ErrInvalid = errors.New("invalid")
	// ErrNewer is returned when a record was written by a newer format than this build knows.
	ErrNewer = errors.New("written by a newer version")
	// ErrEpoch is returned by Allocate when the range is for a cursor and the counter's epoch is
	// another one. No range was taken then, and the epoch is as it was.
	ErrEpoch = errors.New("the counter has another sequencer epoch")
	// ErrUnavailable is returned when the store cannot work now but may later: out of space, out of
	// reach.
	ErrUnavailable = errors.New("store unavailable")
	// ErrClosed is returned by every operation after Close.
	ErrClosed = errors.New("store closed")
)

// Model is anything that is persisted.
type Model interface {
	// PersistID is the key among the models of one kind: the name of a biz type, or a constant
	// where there is only one record.
	PersistID() string
}

// Counter is the record that ranges are taken from.
type Counter struct {
	// BizTag is the biz type.
	BizTag string `json:"bizTag"`
	// Max is the highest number that ever left the store; 0 or more.
	Max int64 `json:"max"`
	// Step is how many numbers the last range held that consumption asked for.
	Step int64 `json:"step"`
	// Timestamp is when Step was last written, in ms since the Unix epoch.
	Timestamp int64 `json:"timestamp"`
	// Epoch is the sequencer epoch: it names the one cursor that counts (invariant U3b). None
	// counts while it is empty, as in a new record. It is compared for equality only: after a
	// restore it may be an older one.
	Epoch string `json:"epoch,omitempty"`
}

// PersistID is the biz type.
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
	case c.Epoch != "" && !isRandom(c.Epoch):
		return invalid("epoch %q is not %d hexadecimal digits", c.Epoch, 2*randomBytes)
	}
	return nil
}

// Shape is what the IDs of a biz type look like: a text that changes with everything that could
// make an ID appear a second time (strategy, bit layout, plugins that rewrite). It is compared,
// never interpreted.
type Shape struct {
	BizTag string `json:"bizTag"`
	Shape  string `json:"shape"`
	// Timestamp is when the shape was recorded, in ms since the Unix epoch.
	Timestamp int64 `json:"timestamp"`
}

// PersistID is the biz type.
func (s Shape) PersistID() string { return s.BizTag }

// Validate returns ErrInvalid and the field that is out of its range.
func (s Shape) Validate() error {
	if s.BizTag == "" || s.Shape == "" {
		return invalid("bizTag or shape is empty")
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

// Repository keeps the models of one kind. It is safe for concurrent use. When a write returns an
// error other than those named here, it may or may not have happened.
type Repository[M Model] interface {
	// Create stores a new record, or returns ErrExists.
	Create(ctx context.Context, m M) error
	// Read returns a record, or ErrNotFound.
	Read(ctx context.Context, id string) (M, error)
	// Update replaces a record, or returns ErrNotFound, or ErrLowered for a counter whose max would
	// go down.
	Update(ctx context.Context, m M) error
	// Delete removes a record, or returns ErrNotFound.
	Delete(ctx context.Context, id string) error
	// List returns at most limit records whose persist ID is greater than after, in byte order of
	// their persist IDs.
	List(ctx context.Context, after string, limit int) ([]M, error)
}

// Request is what a range is asked for with.
type Request struct {
	BizTag string
	// Size is how many numbers the range shall hold, 1 to MaxNumber.
	Size int64
	// Floor is the highest number the asking process ever saw for this counter, 0 for none: the
	// range begins above it.
	Floor int64
	// Gap is how many numbers above Floor are skipped if the counter's maximum is below Floor,
	// which says that the store was restored from an older copy. It is decided in the step that
	// allocates: a read before it may be out of date.
	Gap int64
	// Step, when not 0, is recorded with the present time; 0 leaves the record's step and timestamp
	// alone (for ranges that fill a buffer for the first time, which say nothing about
	// consumption).
	Step int64
	// To is where the range goes. The zero Target is a node's own buffer.
	To Target
}

// Target is where a range goes, which decides what becomes of the counter's epoch (invariant U3b):
// the zero Target, Beside, ToCursor or NewCursor. To retire a cursor, make the epoch empty: that is
// what the zero Target does.
type Target struct {
	kind        targetKind
	epoch, next string
}

type targetKind int

const (
	node targetKind = iota
	beside
	cursor
)

// Beside is the buffer of a node that issues on its own although there is a cursor. The cursor goes
// on counting.
var Beside = Target{kind: beside}

// ToCursor is the cursor of an epoch. Allocate returns ErrEpoch if the counter believes in another
// one.
func ToCursor(epoch string) Target { return Target{cursor, epoch, epoch} }

// NewCursor is a cursor that is about to begin under the epoch next. Allocate makes that the
// counter's epoch if it still is epoch, and returns ErrEpoch otherwise. Of concurrent calls with
// the same epoch at most one succeeds.
func NewCursor(epoch, next string) Target { return Target{cursor, epoch, next} }

// Epoch is the epoch of the cursor that a range goes to, "" if it goes to none.
func (t Target) Epoch() string { return t.next }

// Cursor reports whether the range goes to a cursor, and the epoch that the counter must have for
// that.
func (t Target) Cursor() (epoch string, ok bool) { return t.epoch, t.kind == cursor }

// Keeps reports whether the counter's epoch stays as it is. If not, it becomes Epoch: a node's own
// buffer leaves none, so that no cursor counts beside it.
func (t Target) Keeps() bool { return t.kind == beside || t.kind == cursor && t.next == t.epoch }

// Validate returns ErrInvalid and the field that is out of its range.
func (r Request) Validate() error {
	switch {
	case r.Size < 1 || r.Size > MaxNumber:
		return invalid("size %d is outside 1 to %d", r.Size, MaxNumber)
	case r.Floor < 0 || r.Floor > MaxNumber:
		return invalid("floor %d is outside 0 to %d", r.Floor, MaxNumber)
	case r.Gap < 0 || r.Gap > MaxNumber:
		return invalid("gap %d is outside 0 to %d", r.Gap, MaxNumber)
	case r.Step < 0 || r.Step > MaxNumber:
		return invalid("step %d is outside 0 to %d", r.Step, MaxNumber)
	case r.To.kind == cursor && !isRandom(r.To.next):
		return invalid("the cursor's epoch %q is not %d hexadecimal digits", r.To.next, 2*randomBytes)
	}
	return nil
}

// Allocator hands out ranges. It is what uniqueness rests on (invariant U1: a range leaves the
// store once).
type Allocator interface {
	// Allocate does max := max(max, floor) + size in one atomic, durable step, and returns the size
	// numbers up to the new max. It adds the gap if max was below floor, and it sets the epoch as
	// the target says. ErrNotFound when there is no counter: one that vanished must not start
	// again. ErrEpoch when the range is for a cursor that does not count. After these, ErrExhausted
	// and ErrInvalid nothing was taken. On any other error the range may have been taken, and the
	// epoch changed: the caller forgets the range and never guesses.
	Allocate(ctx context.Context, req Request) (Range, error)
	// GiveBack returns the end of what was handed out: where max is r.Last it becomes r.First − 1,
	// atomically and durably, and the answer is true; otherwise nothing changes and it is false.
	// The caller has taken r out of every buffer first and calls once: after an error the range is
	// lost, not offered again.
	GiveBack(ctx context.Context, bizTag string, r Range) (bool, error)
}

// Counters is the repository of counters with the two operations that ranges move by.
type Counters interface {
	Repository[Counter]
	Allocator
	// Epoch returns the sequencer epoch that the counter has now, or ErrNotFound. It is asked
	// often, and for many counters at about the same time: a driver may answer several callers with
	// one read that began after all of them had asked.
	Epoch(ctx context.Context, bizTag string) (string, error)
}

// Store is one place where everything is kept. It is safe for concurrent use.
type Store interface {
	Counters() Counters
	Shapes() Repository[Shape]
	// Clusters holds at most one record; see [ClusterID].
	Clusters() Repository[Cluster]
	// Slots holds the registries of machine IDs.
	Slots() SlotStore
	// History holds what was issued to whom, where a biz type keeps it.
	History() HistoryStore
	// Documents holds what administrators change at run time, and what nodes tell one another.
	Documents() Documents
	// Shared reports whether other processes can allocate from the same store while this one does.
	Shared() bool
	// Describe says in a sentence what the store promises, for the log at start.
	Describe() string
	// Close ends all use. It waits for writes under way.
	Close() error
}
