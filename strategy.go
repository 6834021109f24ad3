package seqd

import "context"

// Strategy makes the numbers of one biz type.
//
// Promises every strategy keeps: a number leaves Generate at most once in the life of the biz type, over all processes
// and restarts that its documentation covers; Generate is safe for concurrent use; a number that Generate took but
// could not return (an error after a part of a batch) is skipped, never returned later.
type Strategy interface {
	// Init prepares the strategy for its first Generate. fresh is true when no number of this biz type can have been
	// issued before; only then may a missing state be created, otherwise it was lost and Init refuses. Init is called
	// until it succeeds or fails with [CodeConflict], never twice at once.
	Init(ctx context.Context, fresh bool) error
	// Generate adds exactly n numbers to seq, n ≥ 1, or returns an error.
	Generate(ctx context.Context, n int, seq *Sequence) error
	// Close ends issuing: a Generate that begins afterwards returns [CodeStopping]. It gives back what is unused where the
	// store allows that, returns when ctx ends, and is called once, if Init was ever called, whether or not that succeeded.
	Close(ctx context.Context) error
}

// HealthReporter is what a strategy implements when it can know, without being asked for a number, that it could not
// issue one.
type HealthReporter interface {
	// Health returns why no number can be issued now for a reason of this node or its back ends, else nil. It does no I/O.
	// An exhausted biz type is healthy: no node could do better.
	Health() error
}

// DegradedReporter is what a strategy implements when it can know that it issues, but not as it should.
type DegradedReporter interface {
	// Degraded returns what is not as it should be while numbers can be issued, nil when all is well. It does no I/O and is safe for
	// concurrent use. Code and Detail are shown to whoever may ask for readiness.
	Degraded() *Error
}

// DetailReporter is what a strategy implements that has more to tell an operator than whether it can issue.
type DetailReporter interface {
	// Details are names and values that JSON can hold, shown to whoever may ask for readiness. It does no I/O and is safe for concurrent use.
	Details() map[string]any
}

// Parser is what a strategy implements whose numbers say more than themselves.
type Parser interface {
	// Parse reads a number of at least 1 that may be one of the strategy's, or returns an [Error] with [CodeInvalidID]. It does no I/O and is safe for
	// concurrent use.
	Parse(number int64) (Parsed, error)
}

// Caller is who asked for numbers.
type Caller struct {
	// Name is the caller's name where access is by token, else "".
	Name string
	// Addr is the caller's IP address as text, "" for a call from inside the process.
	Addr string
	// RequestID is the ID that stands in the log and in the answer of this request.
	RequestID string
}

// Call is one issuing on its way through plugins and strategy. It belongs to one request and is reused afterwards:
// nothing may keep a pointer into it.
type Call struct {
	// BizType is the name of the biz type.
	BizType string
	// Count is how many numbers are wanted, at least 1.
	Count int
	// Caller is who asked.
	Caller Caller
	// Sequence is empty in Before and holds Count numbers in After.
	Sequence Sequence
}

// Plugin stands around issuing. It is safe for concurrent use. A panic in it is caught and becomes [CodePluginPanic]
// of that one request.
type Plugin interface {
	// Before runs ahead of the strategy. An error vetoes: later plugins and the strategy do not run, and the rejection
	// handler is told. An [Error] reaches the caller as it is; any other error becomes [CodeInternal].
	Before(ctx context.Context, call *Call) error
	// After sees the issued numbers and may rewrite how they are shown. An error fails the request; its numbers are
	// skipped.
	After(ctx context.Context, call *Call) error
	// OnError runs when the request failed after this plugin's Before had returned nil. call.Sequence is empty.
	OnError(ctx context.Context, call *Call, err *Error)
}

// BoundPlugin is a plugin in its place in the chain of one biz type.
type BoundPlugin struct {
	Name string
	// Order decides the place: smaller runs first, in Before, After and OnError alike. Equal orders keep the order in which they
	// were given.
	Order  int
	Plugin Plugin
}

// RejectedHandler is told of every request that a plugin or strategy refused. It runs in the request: it must be fast,
// and safe for concurrent use. A panic in it is caught and logged.
type RejectedHandler interface {
	Rejected(ctx context.Context, call *Call, err *Error)
}

// RejectedHandlerFunc makes a function a [RejectedHandler].
type RejectedHandlerFunc func(ctx context.Context, call *Call, err *Error)

// Rejected calls f.
func (f RejectedHandlerFunc) Rejected(ctx context.Context, call *Call, err *Error) { f(ctx, call, err) }
