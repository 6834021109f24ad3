package seqd

import (
	"context"
	"net/url"
	"time"
)

// Caller is who asked for numbers.
type Caller struct {
	// Name is the caller's name where access is by token, else "".
	Name string
	// Addr is the caller's IP address as text, "" for a call from inside the process.
	Addr string
	// RequestID is the ID that stands in the log and in the answer of this request.
	RequestID string
}

// Call is one issuing on its way through plugins and strategy. It belongs to one request and is
// reused afterwards: nothing may keep a pointer into it.
type Call struct {
	// BizType is the name of the biz type.
	BizType string
	// Count is how many numbers are wanted, at least 1.
	Count int
	// Caller is who asked.
	Caller Caller
	// Sequence is empty in Before and holds Count numbers in After.
	Sequence Sequence
	// Limit is how much the caller may ask for, for the answer; zero where nobody limits.
	Limit Limit
}

// Limit is where a caller stands against a rate limit.
type Limit struct {
	// Quota is how much may be asked for at once; 0 for no limit. Remaining is how much of it is
	// left.
	Quota, Remaining int64
	// Reset is after how long all of it is there again.
	Reset time.Duration
}

// Tighten notes a limit unless one that leaves less is known.
func (l *Limit) Tighten(other Limit) {
	if l.Quota == 0 || other.Remaining < l.Remaining {
		*l = other
	}
}

// Plugin stands around issuing. It is safe for concurrent use. A panic in it is caught and becomes
// [CodePluginPanic] of that one request.
//
// A plugin that also is a [RejectedHandler] is told of every refusal of its biz type, once each,
// after OnError: also of those that a plugin ahead of it made, of which its own Before and OnError
// know nothing.
type Plugin interface {
	// Before runs ahead of the strategy. An error vetoes: later plugins and the strategy do not
	// run, and the rejection handler is told. An [Error] reaches the caller as it is; any other
	// error becomes [CodeInternal].
	Before(ctx context.Context, call *Call) error
	// After sees the issued numbers and may rewrite how they are shown. An error fails the request;
	// its numbers are skipped.
	After(ctx context.Context, call *Call) error
	// OnError runs when the request failed after this plugin's Before had returned nil.
	// call.Sequence is empty.
	OnError(ctx context.Context, call *Call, err *Error)
}

// NopPlugin does nothing. A plugin embeds it and replaces what it needs.
type NopPlugin struct{}

// Before lets every request pass.
func (NopPlugin) Before(context.Context, *Call) error { return nil }

// After changes nothing.
func (NopPlugin) After(context.Context, *Call) error { return nil }

// OnError does nothing.
func (NopPlugin) OnError(context.Context, *Call, *Error) {}

var _ Plugin = NopPlugin{}

// Reader is what a plugin implements that rewrites how numbers are shown, so that its IDs can be
// read back.
type Reader interface {
	// Read takes back what After did: it returns the display form that After was given, or an
	// [Error] with [CodeInvalidID] for a text that After never makes. It does no I/O and is safe
	// for concurrent use.
	Read(shown string) (Reading, error)
}

// Reading is what a [Reader] finds in an ID.
type Reading struct {
	// Shown is the display form before the plugin rewrote it.
	Shown string
	// Invalid is true when the ID carries a check digit that does not fit.
	Invalid bool
	// Period is what the date in the ID says, 0 where there is none.
	Period Period
}

// Closer is what a plugin or a rejection handler implements that has something to finish.
type Closer interface {
	// Close finishes what is under way, such as a queue to be written out, and returns when ctx
	// ends. It is called once, after the last call to everything else has returned or was given up
	// on: one second after the strategy was closed, at the latest. A call that comes later yet is
	// best refused with [CodeStopping]: where the biz type got another definition, that one then
	// answers the request.
	Close(ctx context.Context) error
}

// Resource is what a plugin implements that has something to show of its biz type, at GET
// /biz-types/{name}/{resource}.
type Resource interface {
	// ResourceName is the last part of the path: lower-case letters. It is unique in a biz type.
	ResourceName() string
	// Show returns what JSON can hold. An unknown or wrong parameter of the query is an [Error]
	// with [CodeInvalidRequest]. It is called as well while the biz type is disabled, when nothing
	// else of the plugin is, or cannot issue.
	Show(ctx context.Context, query url.Values) (any, error)
}

// BoundPlugin is a plugin in its place in the chain of one biz type.
type BoundPlugin struct {
	Name string
	// Rewrites says that After changes how numbers are shown. IDs can only be read back when the
	// plugin is a [Reader] then.
	Rewrites bool
	// Quick says that the plugin returns promptly whatever happens, or when the context ends. It
	// runs in the request's own goroutine. Others run in one of their own, and a request does not
	// wait for them longer than [Options].PluginTimeout.
	Quick bool
	// Order decides the place: smaller runs first, in Before, After and OnError alike. Equal orders
	// keep the order in which they were given.
	Order  int
	Plugin Plugin
}

// RejectedHandler is told of every request that a plugin or strategy refused. call.Sequence is
// empty. It runs in the request: it must be fast, and safe for concurrent use. A panic in it is
// caught and logged.
type RejectedHandler interface {
	Rejected(ctx context.Context, call *Call, err *Error)
}

// RejectedHandlerFunc makes a function a [RejectedHandler].
type RejectedHandlerFunc func(ctx context.Context, call *Call, err *Error)

// Rejected calls f.
func (f RejectedHandlerFunc) Rejected(ctx context.Context, call *Call, err *Error) { f(ctx, call, err) }
