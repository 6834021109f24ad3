package seqd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// entry is a definition and where it stands on its way to issuing.
type entry struct {
	// ready is set once Init succeeded; the hot path reads nothing else of the state. It and what
	// issuing needs of the definition stand first, in one cache line.
	ready  atomic.Bool
	closes bool // some plugin is a Closer: calls are inside while they are in the chain
	chain  []*link
	Definition

	inside crowd // calls in the chain, where closes says so

	// in a head: what stands in its place, nil while it stands for itself
	next atomic.Pointer[entry]
	turn sync.Mutex    // in a head: held by whoever changes what stands in its place
	held chan struct{} // where a change is under way: closed at its end
	// where a change is under way: when it began, in ns since the Unix epoch
	since int64
	gone  *Error // where there is no such biz type, or none that may issue: why
	// heritage is the last strategy of before, where there is none now, or none that took it over.
	heritage Strategy

	mu      sync.Mutex   // guards what follows
	pending *initAttempt // the attempt under way, nil when there is none
	failure *Error       // why the last attempt failed
	tried   bool         // Init was called
	closed  bool         // Close was called
	stopped bool
	emptied bool // the plugins were closed, or belong to another entry
}

type initAttempt struct {
	done chan struct{}
	err  *Error // valid once done is closed
}

// initWait is how long a request waits in all for its biz type to be initialised or changed. That
// itself goes on.
const initWait = 2 * time.Second

// timer rings when the request has waited long enough for its biz type.
func (w *walk) timer() *time.Timer {
	if w.until.IsZero() {
		w.until = time.Now().Add(initWait)
	}
	return time.NewTimer(time.Until(w.until))
}

// initialise makes the entry ready. Callers that come while an attempt is under way share it. A
// conflict is final: nothing but another configuration would help, so it is answered without asking
// the store again.
func (is *Issuer) initialise(ctx context.Context, e *entry, w *walk) error {
	attempt, err := is.begin(ctx, e)
	if attempt == nil {
		return err
	}
	patience := w.timer()
	defer patience.Stop()
	select {
	case <-attempt.done:
		if attempt.err != nil {
			return attempt.err
		}
		return nil
	case <-patience.C:
		return errInitialising
	case <-ctx.Done():
		return AsError(ctx.Err())
	}
}

// begin returns the attempt under way, which it starts when there is none, or nil and how things
// stand.
func (is *Issuer) begin(ctx context.Context, e *entry) (*initAttempt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.stopped:
		return nil, errStopping
	case e.ready.Load():
		return nil, nil
	case e.final():
		return nil, e.failure
	case e.pending == nil:
		e.tried = true
		e.pending = &initAttempt{done: make(chan struct{})}
		// Not the caller's context: others share the attempt.
		go is.attempt(context.WithoutCancel(ctx), e, e.pending)
	}
	return e.pending, nil
}

var (
	errStopping     = &Error{Code: CodeStopping, Detail: "the service is stopping", RetryAfter: time.Second}
	errInitialising = &Error{Code: CodeStarting, Detail: "the biz type is still being initialised", RetryAfter: time.Second}
	errUntried      = &Error{Code: CodeStarting, Detail: "not initialised yet", RetryAfter: time.Second}
)

// attempt initialises once. What becomes ready after Close had given up on it is closed at once and
// never issues.
func (is *Issuer) attempt(ctx context.Context, e *entry, a *initAttempt) {
	defer close(a.done)
	err := e.open(ctx)
	if is.opened(e, a, err) {
		_ = e.callClose(ctx) // it has issued nothing
	}
	e.mu.Lock()
	e.pending = nil
	e.mu.Unlock()
}

// opened notes what came of an attempt, and reports whether the strategy is to be closed now.
func (is *Issuer) opened(e *entry, a *initAttempt, err error) (late bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		a.err = AsError(err)
		if e.failure == nil || e.failure.Error() != a.err.Error() {
			is.log.Error("biz type cannot issue", "bizType", e.BizType.Name, "error", a.err)
		}
	}
	switch {
	case e.stopped:
		a.err = cmp.Or(a.err, errStopping)
		late, e.closed = !e.closed, true
	case err == nil:
		e.ready.Store(true)
	}
	e.failure = a.err
	return late
}

// open checks the claim, initialises the strategy and then records the claim: in this order, a
// recorded claim without the strategy's state means that the state was lost, never that a crash
// came between the two.
func (e *entry) open(ctx context.Context) (err error) {
	defer recoverFrom(CodeInternal, "strategy", e.BizType.Strategy, &err)
	fresh := true
	if e.Claim != nil {
		if fresh, err = e.Claim.Check(ctx); err != nil {
			return err
		}
	}
	if err := e.Strategy.Init(ctx, fresh); err != nil {
		return err
	}
	if e.Claim != nil && fresh {
		return e.Claim.Record(ctx)
	}
	return nil
}

// final reports whether the last attempt failed in a way that no further attempt can mend. mu is
// held.
func (e *entry) final() bool { return e.failure != nil && e.failure.Code == CodeConflict }

// stop keeps further attempts from beginning, and callers from taking the short way.
func (e *entry) stop() {
	e.mu.Lock()
	e.stopped = true
	e.ready.Store(false)
	e.mu.Unlock()
}

// close waits for the attempt under way, closes the strategy when anything was asked of it, and
// then the plugins. It comes after stop.
func (e *entry) close(ctx context.Context) error {
	failed := []error{e.closeStrategy(ctx)}
	if !e.empty(ctx) {
		return failed[0]
	}
	for _, l := range e.chain {
		if err := l.close(ctx); err != nil {
			failed = append(failed, fmt.Errorf("plugin %s: %w", l.Name, err))
		}
	}
	return errors.Join(failed...)
}

// rest closes the strategy as close does, and leaves the plugins to the entry that gets the chain.
// It comes after stop.
func (e *entry) rest(ctx context.Context) error {
	err := e.closeStrategy(ctx)
	e.empty(ctx)
	return err
}

// empty waits for the calls in the chain, and reports whether there are plugins to be closed now.
// It does so once.
func (e *entry) empty(ctx context.Context) bool {
	e.mu.Lock()
	emptied := e.emptied
	e.emptied = true
	e.mu.Unlock()
	if emptied || !e.closes {
		return false
	}
	e.inside.shut(ctx)
	return true
}

// enter lets a call into the chain, unless the plugins are closed or about to be. leave ends that.
func (e *entry) enter() bool { return !e.closes || e.inside.enter() }

func (e *entry) leave() {
	if e.closes {
		e.inside.leave()
	}
}

// crowd counts who is inside, so that one can wait until all have left.
type crowd struct {
	n     atomic.Int64 // who is inside; shutBy less once shut was called
	empty atomic.Pointer[chan struct{}]
}

const shutBy = int64(1) << 60

func (c *crowd) enter() bool {
	if c.add() {
		return true
	}
	c.leave()
	return false
}

// add is enter for those who come in although it is shut.
func (c *crowd) add() (open bool) { return c.n.Add(1) > 0 }

func (c *crowd) leave() {
	if c.n.Add(-1) == -shutBy {
		select {
		case *c.empty.Load() <- struct{}{}:
		default:
		}
	}
}

// lastCalls is how long calls in a chain are waited for before its plugins are closed: shorter than
// callers wait for a change.
const lastCalls = time.Second

// shut keeps others out, and waits until all have left, but no longer than lastCalls and until ctx
// ends. It is called once.
func (c *crowd) shut(ctx context.Context) {
	empty := make(chan struct{}, 1)
	c.empty.Store(&empty)
	if c.n.Add(-shutBy) == -shutBy {
		return
	}
	late := time.NewTimer(lastCalls)
	defer late.Stop()
	select {
	case <-empty:
	case <-late.C:
	case <-ctx.Done():
	}
}

// close ends a plugin, or leaves it when it is not done as ctx ends.
func (l *link) close(ctx context.Context) error {
	c, ok := l.Plugin.(Closer)
	if !ok {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- l.callClose(ctx, c) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select { // one that heeds ctx says what it could not do
	case err := <-done:
		return err
	case <-time.After(closeGrace):
		return fmt.Errorf("it did not close: %w", ctx.Err())
	}
}

// closeGrace is how long a plugin may take to return after its context has ended.
const closeGrace = 200 * time.Millisecond

func (l *link) callClose(ctx context.Context, c Closer) (err error) {
	defer recoverFrom(CodePluginPanic, "plugin", l.Name, &err)
	return c.Close(ctx)
}

func (e *entry) closeStrategy(ctx context.Context) error {
	e.mu.Lock()
	pending := e.pending
	e.mu.Unlock()
	if pending != nil {
		select {
		case <-pending.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.mu.Lock()
	due := e.tried && !e.closed
	e.closed = true
	e.mu.Unlock()
	if !due {
		return nil
	}
	return e.callClose(ctx)
}

func (e *entry) callClose(ctx context.Context) (err error) {
	defer recoverFrom(CodeInternal, "strategy", e.BizType.Strategy, &err)
	return e.Strategy.Close(ctx)
}

// health returns why the entry cannot issue, where that makes the node unready.
func (e *entry) health() *Error {
	if err := e.trouble(); err != nil && !e.bearable(err) {
		return err
	}
	return nil
}

// bearable reports whether a node is only degraded by this: see [Definition].Aside.
func (e *entry) bearable(err *Error) bool { return e.Aside && err.Code == CodeConflict }

// trouble returns why the entry cannot issue. That it was removed or disabled is none of a node's
// reasons, nor is a change, unless callers wait in vain for its end.
func (e *entry) trouble() *Error {
	switch {
	case e.held != nil && time.Since(time.Unix(0, e.since)) >= initWait:
		return errChanging
	case e.held != nil:
		return nil
	}
	if e.gone != nil {
		if e.gone.Code == CodeUnknownBizType || e.gone.Code == CodeDisabled {
			return nil
		}
		return e.gone
	}
	if e.ready.Load() {
		if h, ok := e.Strategy.(HealthReporter); ok {
			if err := h.Health(); err != nil {
				return AsError(err)
			}
		}
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure != nil {
		return e.failure
	}
	return errUntried
}

// degraded returns why the entry issues, but not as it should, or cannot where that makes no node
// unready.
func (e *entry) degraded() *Error {
	if err := e.trouble(); err != nil {
		if e.bearable(err) {
			return err
		}
		return nil
	}
	d, ok := e.Strategy.(DegradedReporter)
	if !ok || e.held != nil || e.gone != nil {
		return nil
	}
	return d.Degraded()
}

// Init makes every biz type ready, and keeps trying those that fail for a reason that can pass,
// until ctx ends. It returns when all are ready or beyond help. Requests need not wait for it: one
// that comes first initialises its own biz type.
func (is *Issuer) Init(ctx context.Context) {
	pause := 50 * time.Millisecond
	for {
		left := is.initAll(ctx)
		if left == 0 || ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, retryInit)
	}
}

// initAll tries each entry once and returns how many are worth another try.
func (is *Issuer) initAll(ctx context.Context) int {
	var left atomic.Int64
	each(is.current(), func(e *entry) {
		if e.ready.Load() {
			return
		}
		switch CodeOf(is.initialise(ctx, e, &walk{})) {
		case "", CodeConflict, CodeStopping:
		default:
			left.Add(1)
		}
	})
	return int(left.Load())
}

// Unready is a biz type that cannot issue, or not as it should, and why.
type Unready struct {
	BizType string
	Reason  *Error
}

// Details is what a strategy tells an operator.
type Details struct {
	BizType string
	Values  map[string]any
}

// Details returns what the strategies tell an operator, by biz type: the first most of them. It
// does no I/O and is safe for concurrent use.
func (is *Issuer) Details(most int) (list []Details) {
	for _, e := range is.current() {
		if d, ok := e.Strategy.(DetailReporter); ok {
			list = append(list, Details{e.BizType.Name, d.Details()})
		}
	}
	slices.SortFunc(list, func(a, b Details) int { return cmp.Compare(a.BizType, b.BizType) })
	return list[:min(most, len(list))]
}

// Health returns the biz types that cannot issue for a reason of this node or its back ends, by
// name: the first most of them, and how many there are in all. It does no I/O and is safe for
// concurrent use.
func (is *Issuer) Health(most int) (unready []Unready, total int) {
	return is.list(most, (*entry).health)
}

// Degraded returns the biz types that can issue, but not as they should, and those that are
// [Definition].Aside and cannot be used here, by name: the first most of them, and how many there
// are in all. Those that [Issuer.Health] lists are not among them. It does no I/O and is safe for
// concurrent use.
func (is *Issuer) Degraded(most int) (degraded []Unready, total int) {
	return is.list(most, (*entry).degraded)
}

// State is how a biz type stands. At most one of the others is set.
type State struct {
	BizType string
	// Unready is why it cannot issue, as [Issuer.Health] has it, and Degraded why not as it should,
	// as [Issuer.Degraded] has it.
	Unready, Degraded *Error
	// Disabled is true where an administrator wants it not to issue.
	Disabled bool
}

// States tells how every biz type that there is stands, in no order. It does no I/O and is safe for
// concurrent use; tell is called by one goroutine.
func (is *Issuer) States(tell func(State)) {
	for name, head := range is.names.all() {
		e := head.newest()
		if e.gone != nil && e.gone.Code == CodeUnknownBizType {
			continue
		}
		s := State{BizType: name, Disabled: e.gone != nil && e.gone.Code == CodeDisabled, Unready: e.health()}
		if s.Unready == nil {
			s.Degraded = e.degraded()
		}
		tell(s)
	}
}

// list returns the biz types that there is a reason to name, sorted: the first most of them, and
// how many there are in all.
func (is *Issuer) list(most int, reason func(*entry) *Error) (list []Unready, total int) {
	first := func() {
		slices.SortFunc(list, func(a, b Unready) int { return cmp.Compare(a.BizType, b.BizType) })
		list = list[:min(most, len(list))]
	}
	for name, head := range is.names.all() {
		reason := reason(head.newest())
		if reason == nil {
			continue
		}
		total++
		list = append(list, Unready{BizType: name, Reason: reason})
		// anybody may ask, also while 100,000 biz types are starting
		if len(list) >= 2*most+sortAt {
			first()
		}
	}
	first()
	return list, total
}

// sortAt is how many more biz types than twice those wanted are listed before the others are left
// out.
const sortAt = 100
