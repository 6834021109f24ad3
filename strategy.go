package seqd

import (
	"context"
	"time"
)

// Strategy makes the numbers of one biz type.
//
// Every strategy promises: Generate returns a number at most once in the life of the biz type, over
// all processes and restarts that the documentation of the strategy covers. It is safe for
// concurrent use. A number that Generate took but could not return, because of an error in the
// middle of a batch, is skipped and never returned later.
type Strategy interface {
	// Init prepares the strategy for its first Generate. fresh is true if the store has no record
	// of this biz type with this strategy. Only then may Init create missing state; otherwise the
	// state was lost, and Init returns [CodeConflict]. Existing state is used even if fresh is
	// true: a process that crashed may have called Init before, or another node at the same time.
	// Init is called until it succeeds, never concurrently in a process: soon after it has failed,
	// and after a pause if it failed with [CodeConflict].
	Init(ctx context.Context, fresh bool) error
	// Generate adds exactly n numbers to seq, n ≥ 1, or returns an error.
	Generate(ctx context.Context, n int, seq *Sequence) error
	// Close ends issuing: a Generate that starts afterwards returns [CodeStopping]. Close gives
	// unused numbers back if the store allows it, and returns when ctx ends. It is called once, and
	// only if Init was called, whether or not Init succeeded.
	Close(ctx context.Context) error
}

// PartialGenerator is implemented by strategies that can return what they have if it is less than
// was asked for. Then callers who share one Generate lose nothing if it fails.
type PartialGenerator interface {
	// GenerateSome is Generate, except that an error skips nothing: the numbers that it added to seq,
	// 0 to n−1, belong to the caller.
	GenerateSome(ctx context.Context, n int, seq *Sequence) error
}

// CountLimiter is implemented by strategies that may have to refuse a count below [MaxCount].
type CountLimiter interface {
	// MostInCall returns how many numbers one call gets at most, and for its caller why. It does no
	// I/O, and returns the same each time. A call that wants [OneRange] is not limited, and several
	// calls that share a Generate may get more together.
	MostInCall() (most int, why string)
}

// ConsecutiveGenerator is implemented by strategies that can make numbers without a gap.
type ConsecutiveGenerator interface {
	// GenerateConsecutive adds n numbers, 1 to [MaxCount], as one run with stride 1 to seq, which is
	// empty, or returns an error. They are in order with the numbers of Generate. It may skip
	// numbers to find a run.
	GenerateConsecutive(ctx context.Context, n int, seq *Sequence) error
}

// Ranger is implemented by strategies that can hand out a range of numbers beside those of
// Generate.
type Ranger interface {
	// GenerateRange adds a range of n numbers, 1 to [MaxCount], as one run, to seq, which is empty,
	// or returns an error. The stride is [Traits].Increment. n = 0 asks for as many as the strategy
	// takes at a time.
	// No other call of any process gets these numbers. They are not in order with those of Generate.
	GenerateRange(ctx context.Context, n int64, seq *Sequence) error
}

// Reporter is implemented by strategies that can tell without a request how they are. Its methods
// do no I/O and are safe for concurrent use. What Degraded and Details return is shown to callers
// that may see the details of readiness.
type Reporter interface {
	// Health returns why no number can be issued now because of this node or its back ends, or nil.
	// An exhausted biz type is healthy: no other node could issue either.
	Health() error
	// Degraded returns what is wrong although numbers can be issued, or nil.
	Degraded() *Error
	// Details returns values that can be encoded as JSON, by name, nil for none.
	Details() map[string]any
}

// Parser is implemented by strategies whose numbers contain other values, such as a time, and by
// their settings, so that IDs can be read while a biz type is disabled.
type Parser interface {
	// Parse returns the values in a number of at least 1, or an [Error] with [CodeInvalidID] if the
	// strategy cannot have made it. It does no I/O and is safe for concurrent use.
	Parse(number int64) (Parsed, error)
}

// Parsed is what an ID says.
type Parsed struct {
	// Number is the number behind the display form.
	Number int64
	// Valid is false if the ID has a check digit that is wrong.
	Valid bool
	// Time is when the number was made, the zero time if the number does not contain it.
	Time time.Time
	// Period is the period of the date in the ID, 0 if there is none.
	Period Period
	// Key is the key in the ID, or the one that the caller named, "" if there is none.
	Key string
	// MachineID and Sequence are nil if the number does not contain them.
	MachineID, Sequence *int64
}

// Learner is implemented by strategies that know what the store does not, such as the highest
// number that this process has issued. The next strategy of the same biz type learns that.
type Learner interface {
	// Learn is called at most once, before Init. from is the Knowledge of an earlier strategy of the
	// biz type, which may be of another kind.
	Learn(from any)
	// Knowledge is called after Close, which may have left something running. It returns what the
	// next strategy learns, nil for nothing. The issuer keeps the knowledge of a biz type that was
	// removed or disabled, so Knowledge is small.
	Knowledge() any
}

// Idler is implemented by strategies and plugins that can be closed while nobody uses them, and
// made anew from their definition later, so that callers see no difference. Other biz types stay
// open.
type Idler interface {
	// Idle reports whether nothing is lost if the strategy or plugin is closed now. It does no I/O,
	// and is safe for concurrent use.
	Idle() bool
}

// Claim makes sure that the numbers of a biz type are only ever made in one shape (strategy,
// layout, display), so that a changed configuration cannot repeat an ID (invariant U6).
type Claim interface {
	// Check returns fresh = true if the store has no record of the biz type, and [CodeConflict] if
	// it has one of another shape.
	Check(ctx context.Context) (fresh bool, err error)
	// Record stores the shape, after Strategy.Init and before the first number.
	Record(ctx context.Context) error
	// Reshaped reports whether the biz type lately had another shape, so that answers of that time
	// may still be kept. It is known after Check, or after Record if there was one.
	Reshaped() bool
}
