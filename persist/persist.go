// Package persist is where ranges of numbers come from and what seqd remembers of its biz types. It
// holds the models and the interfaces that stores implement; the drivers are persist/memory,
// persist/bolt and persist/mongo. A driver must pass the suite in persist/persisttest.
package persist

import (
	"context"
	"errors"
	"time"
)

// FormatVersion is written into every record. A record with a larger one was written by a newer
// seqd and is refused.
const FormatVersion = 1

// MaxNumber is the highest number a range may hold: 2^53 − 1, exact in JavaScript and in Lua.
const MaxNumber int64 = 1<<53 - 1

// Errors that every driver returns, wrapped with what they are about.
var (
	// ErrNotFound is returned when there is no such record.
	ErrNotFound = errors.New("not found")
	// ErrExists is returned by Create when there is such a record.
	ErrExists = errors.New("exists already")
	// ErrConflict is returned by Update and Delete of [Documents] when the document has another
	// revision.
	ErrConflict = errors.New("another revision")
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

// Counter is the record that ranges are taken from.
type Counter struct {
	// BizTag is the name of the counter: that of the biz type, or, if its numbers reset, with the
	// period, such as invoice@2026.
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
	case c.Epoch != "" && !isRandom(c.Epoch):
		return invalid("epoch %q is not %d hexadecimal digits", c.Epoch, 2*randomBytes)
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

// Request is what a range is asked for with.
type Request struct {
	BizTag string
	// Size is how many numbers the range shall hold, 0 to MaxNumber. A request for none takes
	// nothing and returns an empty range; it raises the counter to the floor and, with the zero
	// Target, retires its cursor. It cannot be for a cursor.
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
	case r.Size < 0 || r.Size > MaxNumber:
		return invalid("size %d is outside 0 to %d", r.Size, MaxNumber)
	case r.Size == 0 && r.To.kind == cursor:
		return invalid("a range of no numbers for a cursor")
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

// Counters keeps counters. It is what uniqueness rests on (invariant U1: a range leaves the store
// once). It is safe for concurrent use. Every change is durable when the operation returns nil.
//
// After an error other than those named here a change may have happened, or may happen later. The
// caller forgets a range whose outcome is unknown and never guesses; a driver never repeats an
// Allocate or GiveBack whose outcome it does not know.
type Counters interface {
	// Create stores a new counter, or returns ErrExists. Of concurrent calls one succeeds.
	Create(ctx context.Context, c Counter) error
	// Read returns a counter, or ErrNotFound.
	Read(ctx context.Context, bizTag string) (Counter, error)
	// Delete removes a counter, or returns ErrNotFound.
	Delete(ctx context.Context, bizTag string) error
	// List returns at most limit counters whose names are greater than after, in byte order of
	// their names.
	List(ctx context.Context, after string, limit int) ([]Counter, error)
	// Allocate does max := max(max, floor) + size in one atomic, durable step, and returns the size
	// numbers up to the new max. It adds the gap if max was below floor, and it sets the epoch as
	// the target says. It returns ErrNotFound if there is no counter: one that vanished must not
	// start again. It returns ErrEpoch if the range is for a cursor that does not count. After
	// these, ErrExhausted and ErrInvalid, nothing was taken. After any other error the range may
	// have been taken, and the epoch changed.
	Allocate(ctx context.Context, req Request) (Range, error)
	// GiveBack returns the end of what was handed out. If max is r.Last, it becomes r.First − 1,
	// atomically and durably, and GiveBack returns true. Otherwise nothing changes and it returns
	// false. The caller has taken r out of every buffer first and calls once: after an error the
	// range is lost, not offered again.
	GiveBack(ctx context.Context, bizTag string, r Range) (bool, error)
	// Epoch returns the sequencer epoch that the counter has now, or ErrNotFound. It is called
	// often, and for many counters at about the same time: a driver may answer several callers with
	// one read that began after all of them had called.
	Epoch(ctx context.Context, bizTag string) (string, error)
}

// Clock is the clock of a store, which all who share the store have in common.
type Clock interface {
	// Now returns the time of the store at some moment during the call. Nothing that the store
	// recorded before the call is later than that, except after its clock was set back.
	Now(ctx context.Context) (time.Time, error)
}

// Store is one place where everything is kept. It is safe for concurrent use.
type Store interface {
	// Clock is the clock of the store. A store of one process may use that of the process.
	Clock
	// Counters holds the counters that ranges are allocated from.
	Counters() Counters
	// Documents holds what administrators change at run time, what nodes tell one another, and the
	// small records of package persist: see [ClusterID], [ShapesIn] and [PurgedKind].
	Documents() Documents
	// Slots holds the registries of machine IDs.
	Slots() SlotStore
	// History holds what was issued to whom, for the biz types that keep it.
	History() HistoryStore
	// Shared reports whether other processes can allocate from the same store while this one does.
	Shared() bool
	// Describe says in a sentence what the store promises, for the log at start.
	Describe() string
	// Close ends all use. It waits for writes under way. Afterwards every operation returns
	// ErrClosed.
	Close() error
}
