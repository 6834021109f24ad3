package seqd

import (
	"context"
	"net/url"
	"time"
)

// Caller is who asked for numbers.
type Caller struct {
	// Name is the name of the caller's token, "" if there is none.
	Name string
	// Owner is who owns the answers and reservations that the call makes. The name may be the same
	// for two owners one after the other: see [OwnerOf]. If it is "", Name is the owner.
	Owner string
	// Addr is the caller's IP address as text, "" for a call from inside the process.
	Addr string
	// RequestID is the ID of this request in the log and in the answer.
	RequestID string
}

// Call is one request for numbers. It is reused for other requests: plugins and strategies must not
// keep a pointer into it.
type Call struct {
	// BizType is the name of the biz type.
	BizType string
	// Count is how many numbers are wanted: 1 to [MaxCount]. With [OneRange] it is up to
	// [MaxCount], or 0 for as many as the strategy takes at a time.
	Count int
	// Want is what kind of numbers is wanted.
	Want Want
	// Key is the key whose counter is meant, "" if the biz type is not keyed.
	Key string
	// TTL is how long numbers are reserved with [ReservedNumbers], 0 for the biz type's own time.
	// Reservation is what they are reserved by.
	TTL         time.Duration
	Reservation Reservation
	// Once identifies the request if it may be repeated; see [Order]. Replayed is true if the
	// numbers are those of an earlier request. Then only plugins that change how numbers are shown
	// run after the strategy.
	Once     string
	Replayed bool
	// AnswerKept is whether who calls Issue keeps the answer to a request with Once, and has found
	// none. Issue clears it if a strategy has kept the answer itself, now or before. Without it,
	// only a biz type that keeps answers takes the request; others refuse it with
	// [CodeStarting], because they were changed a moment ago.
	AnswerKept bool
	// NoAnswer is why the answer to a request with Once must not be kept, nil if it may be. Only a
	// request that was answered before is answered then.
	NoAnswer error
	// Made is when the numbers are said to be made, for plugins that show it; zero for now.
	Made time.Time
	// Display refuses the call with [CodeConflict] if the biz type shows numbers in another way than
	// this one, which the issuer has named; "" if that does not matter.
	Display string
	// Caller is who asked.
	Caller Caller
	// Sequence is empty in Before and holds Count numbers in After. A plugin sees a Count of 0 only
	// in Before and OnError.
	Sequence Sequence
	// Limit is the caller's rate limit, which the answer shows; zero if there is none.
	Limit Limit
}

// Want is what kind of numbers a [Call] asks for.
type Want uint8

const (
	// AnyNumbers is numbers in the order of the biz type.
	AnyNumbers Want = iota
	// Consecutive is AnyNumbers without a gap between them: one [Run] with stride 1. A strategy
	// that is no [ConsecutiveGenerator] can only give one number.
	Consecutive
	// OneRange is one run of numbers, all that there are in between, that the caller issues later,
	// such as a segment for a client that counts by itself. They are unique like all others, but
	// not in order with them: when the caller issues one, others may have got larger ones. It is
	// refused with [CodeInvalidRequest] if the strategy is no [Ranger], if the numbers reset, or if
	// a plugin is bound without [BoundPlugin].Ranges.
	OneRange
	// ReservedNumbers is numbers that are handed out for a while, to be confirmed or released. It
	// is refused with [CodeInvalidRequest] if the strategy is no [Ledger].
	ReservedNumbers
)

// Limit is the state of a rate limit for one caller.
type Limit struct {
	// Quota is how much may be requested at once, 0 for no limit. Remaining is how much of it is
	// left.
	Quota, Remaining int64
	// Reset is how long it takes until all of it is available again.
	Reset time.Duration
}

// Tighten replaces l by other if other leaves less.
func (l *Limit) Tighten(other Limit) {
	if l.Quota == 0 || other.Remaining < l.Remaining {
		*l = other
	}
}

// Plugin runs before and after the strategy. It must be safe for concurrent use. A panic fails only
// the request, with [CodePluginPanic].
//
// If a plugin is also a [RejectedHandler], its Rejected is called once for every refusal of its biz
// type, after OnError. That includes refusals by plugins that run before it, for which its Before
// and OnError are not called.
type Plugin interface {
	// Before runs before the strategy. An error refuses the request: later plugins and the strategy
	// do not run. The caller gets an [Error] as it is, and [CodeInternal] for any other error.
	Before(ctx context.Context, call *Call) error
	// After runs after the strategy. It may change how the numbers are shown. An error fails the
	// request, and its numbers are skipped.
	After(ctx context.Context, call *Call) error
	// OnError runs if the request fails after Before of this plugin has returned nil. call.Sequence
	// is empty.
	OnError(ctx context.Context, call *Call, err *Error)
}

// NopPlugin does nothing. Plugins embed it and define the methods they need.
type NopPlugin struct{}

// Before lets every request pass.
func (NopPlugin) Before(context.Context, *Call) error { return nil }

// After changes nothing.
func (NopPlugin) After(context.Context, *Call) error { return nil }

// OnError does nothing.
func (NopPlugin) OnError(context.Context, *Call, *Error) {}

var _ Plugin = NopPlugin{}

// Reader is implemented by plugins that change how numbers are shown and can read their IDs back.
type Reader interface {
	// Read undoes what After does: it returns the display form that After was given, or an [Error]
	// with [CodeInvalidID] for a text that After never makes. of is what the number is counted for,
	// as plugins that run later read it in the ID or the caller has named it: fields are zero if
	// nobody says. If Read needs a key and there is none, the error is [CodeInvalidKey]. Read may ask
	// the store, until ctx ends. It is safe for concurrent use.
	Read(ctx context.Context, shown string, of Counter) (Reading, error)
}

// Counter is what numbers of a biz type are counted for.
type Counter struct {
	// Period is the day, month or year, 0 if the numbers never reset.
	Period Period
	// Key is "" if the biz type is not keyed.
	Key string
}

// Reading is what a [Reader] finds in an ID.
type Reading struct {
	// Shown is the display form before the plugin changed it.
	Shown string
	// Invalid is true if the ID has a check digit that is wrong.
	Invalid bool
	// Period is the period of the date in the ID, 0 if there is none.
	Period Period
	// Key is the key in the ID, "" if there is none.
	Key string
}

// Closer is implemented by plugins and rejection handlers that have something to finish.
type Closer interface {
	// Close finishes what is under way, such as writing a queue, and returns when ctx ends. It is
	// called once, when all other calls have returned, but at most one second after the strategy
	// was closed. A plugin should refuse later calls with [CodeStopping]: if the biz type has a new
	// definition, that one then answers the request.
	Close(ctx context.Context) error
}

// Resource is implemented by plugins that show something of their biz type at GET
// /biz-types/{name}/{resource}.
type Resource interface {
	// ResourceName is the last part of the path: lower-case letters. It is unique in a biz type.
	ResourceName() string
	// Show returns a value that can be encoded as JSON, or an [Error] with [CodeInvalidRequest] for
	// an unknown or wrong parameter of the query. It is called also if the biz type cannot issue or
	// is disabled; while it is disabled, no other method is called.
	Show(ctx context.Context, query url.Values) (any, error)
}

// Table is implemented by what a [Resource] shows if it is a page of a list, so that the whole list can
// be downloaded as CSV or as lines of JSON. The resource has the parameters after and limit then.
type Table interface {
	// Columns are the titles of the columns of the CSV.
	Columns() []string
	// Rows yields each item, which can be encoded as JSON, and its cells of CSV.
	Rows(yield func(item any, cells []string) bool)
	// NextPage is the value of after for the next page, "" on the last page.
	NextPage() string
}

// Erasable is implemented by a [Resource] from which administrators can remove what it keeps, for
// DELETE /biz-types/{name}/{resource}.
type Erasable interface {
	Resource
	// Erase removes what the query names. Otherwise it is as Show.
	Erase(ctx context.Context, query url.Values) (any, error)
}

// BoundPlugin is a plugin in its place in the chain of one biz type.
type BoundPlugin struct {
	Name string
	// Rewrites is true if After changes how numbers are shown. Then IDs can be read back only if
	// the plugin is a [Reader].
	Rewrites bool
	// Quick is true if the plugin always returns promptly, or when the context ends. It runs in the
	// goroutine of the request. Any other plugin runs in a goroutine of its own, and a request
	// waits for it at most the issuer's PluginTimeout.
	Quick bool
	// Ranges is true if the plugin tolerates numbers that it does not see one by one, and that are
	// issued later: see [OneRange].
	Ranges bool
	// Order is the place in the chain. Plugins with a smaller order run first, in Before, After and
	// OnError. Plugins with equal orders run in the order in which they are listed.
	Order  int
	Plugin Plugin
}

// RejectedHandler handles refusals. It runs in the goroutine of the request, so it must be fast. It
// must be safe for concurrent use. A panic is logged and has no other effect.
type RejectedHandler interface {
	// Rejected is called for every request that was refused. call.Sequence is empty.
	Rejected(ctx context.Context, call *Call, err *Error)
}

// RejectedHandlerFunc is a function as a [RejectedHandler].
type RejectedHandlerFunc func(ctx context.Context, call *Call, err *Error)

// Rejected calls f.
func (f RejectedHandlerFunc) Rejected(ctx context.Context, call *Call, err *Error) { f(ctx, call, err) }
