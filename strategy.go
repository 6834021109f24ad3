package seqd

import "context"

// Strategy makes the numbers of one biz type.
//
// Promises every strategy keeps: a number leaves Generate at most once in the life of the biz type,
// over all processes and restarts that its documentation covers; Generate is safe for concurrent
// use; a number that Generate took but could not return (an error after a part of a batch) is
// skipped, never returned later.
type Strategy interface {
	// Init prepares the strategy for its first Generate. fresh is true if the store has no record
	// of this biz type with this strategy: only then may a missing state be created, otherwise it
	// was lost and Init refuses with [CodeConflict]. State that is there counts whatever fresh
	// says: Init may have been called before, by a process that crashed, or by another node at the
	// same time. Init is called until it succeeds or fails with [CodeConflict], never twice at once
	// in a process.
	Init(ctx context.Context, fresh bool) error
	// Generate adds exactly n numbers to seq, n ≥ 1, or returns an error.
	Generate(ctx context.Context, n int, seq *Sequence) error
	// Close ends issuing: a Generate that begins afterwards returns [CodeStopping]. It gives back
	// what is unused where the store allows that, returns when ctx ends, and is called once, if
	// Init was ever called, whether or not that succeeded.
	Close(ctx context.Context) error
}

// HealthReporter is what a strategy implements when it can know, without being asked for a number,
// that it could not issue one.
type HealthReporter interface {
	// Health returns why no number can be issued now for a reason of this node or its back ends,
	// else nil. It does no I/O. An exhausted biz type is healthy: no node could do better.
	Health() error
}

// DegradedReporter is what a strategy implements when it can know that it issues, but not as it
// should.
type DegradedReporter interface {
	// Degraded returns what is not as it should be while numbers can be issued, nil when all is
	// well. It does no I/O and is safe for concurrent use. Code and Detail are shown to whoever may
	// see details of readiness.
	Degraded() *Error
}

// DetailReporter is what a strategy implements that has more to tell an operator than whether it
// can issue.
type DetailReporter interface {
	// Details are names and values that JSON can hold, shown to whoever may see details of
	// readiness. It does no I/O and is safe for concurrent use.
	Details() map[string]any
}

// Parser is what a strategy implements whose numbers say more than themselves.
type Parser interface {
	// Parse reads a number of at least 1 that may be one of the strategy's, or returns an [Error]
	// with [CodeInvalidID]. It does no I/O and is safe for concurrent use.
	Parse(number int64) (Parsed, error)
}
