package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// An instance is one definition at work: a strategy with its chain of plugins. The seat of its name
// holds it until a change replaces it.
type instance struct {
	// First what issuing reads, in one cache line.
	ready        atomic.Bool // phase is ready
	used         atomic.Bool // since it was last asked whether it is idle
	late         bool        // it was put, not given at the start
	closes       bool        // some plugin is a Closer: calls are counted while they are in the chain
	onlyDegrades bool        // see [Definition]
	form         Form        // of its IDs
	keyed        bool        // see [seqd.Traits]
	reset        seqd.Reset  // see [seqd.Traits]
	chain        []*chainPlugin
	strategy     seqd.Strategy // nil if there are only plugins, which show what they know
	name         string

	can      issuing // of the strategy
	most     int     // numbers of one call; see [seqd.CountLimiter]
	reads    bool    // the form of its numbers is known: see [Issuer.Parse]
	kind     string  // the name of the strategy
	display  string  // see Definition
	rejected seqd.RejectedHandler
	claim    seqd.Claim
	recaller seqd.Recaller               // see Definition
	follows  func(context.Context) error // see Definition
	// see [seqd.Traits]
	increment, offset int64
	calls             inflight // calls in the chain, if closes is set

	mu      sync.Mutex // guards what follows
	phase   phase
	drained bool        // the plugins were closed, or are in the chain of another instance
	attempt *attempt    // the attempt under way in phases opening and abandoned
	failure *seqd.Error // why the last attempt failed
	first   *attempt    // the first one; nil before it
}

// attempt is one call of Init, which callers share.
type attempt struct {
	began time.Time
	done  chan struct{}
	err   *seqd.Error // valid once done is closed
}

// newInstance returns the instance of a definition.
func (is *Issuer) newInstance(d Definition) *instance {
	traits := seqd.TraitsOf(d.BizType.Settings)
	i := &instance{
		onlyDegrades: d.OnlyDegrades, chain: newChain(d.Plugins), strategy: d.Strategy, name: d.BizType.Name, kind: d.BizType.Strategy, display: d.Display,
		can: issuingOf(d.Strategy, d.BizType.Settings), most: seqd.MaxCount, rejected: d.Rejected, claim: d.Claim, recaller: d.Recall, follows: d.Follows,
		keyed: traits.Keyed, reset: traits.Calendar.Reset, increment: traits.Increment, offset: traits.Offset,
	}
	if limiter := ask[seqd.CountLimiter](d.Strategy); limiter != nil {
		i.most, _ = limiter.MostInCall()
	}
	i.reads = d.Strategy != nil || d.BizType.Settings != nil
	i.form = Form{Plain: true, Exact: traits.Last <= seqd.MaxNumber}
	if i.rejected == nil {
		i.rejected = is.rejected
	}
	for _, plug := range i.chain {
		i.closes = i.closes || ask[seqd.Closer](plug.Plugin) != nil
		i.form.Plain = i.form.Plain && !plug.Rewrites
	}
	is.hearExpiries(i)
	return i
}

// atRest returns an instance with the chain of i that cannot issue. It shows what its plugins know,
// and reads IDs.
func (i *instance) atRest() *instance {
	return &instance{
		chain: i.chain, closes: i.closes, name: i.name, phase: closed,
		display: i.display, reads: i.reads, keyed: i.keyed, can: issuing{parser: i.can.parser}, increment: i.increment, offset: i.offset,
	}
}

// initWait is how long a request waits in all for its biz type to be initialised or changed. The
// initialisation or the change continues without it.
const initWait = 2 * time.Second

// timer rings when the request has waited long enough for its biz type.
func (w *waits) timer() <-chan time.Time {
	if w.until.IsZero() {
		w.until = time.Now().Add(initWait)
	}
	return time.After(time.Until(w.until))
}

// initialise makes the instance ready. Callers that come while an attempt is under way share it. If
// that attempt fails for a reason that an operator mends, it does not count for those who came
// after it began: the operator may have mended it since.
func (is *Issuer) initialise(ctx context.Context, i *instance, w *waits) error {
	arrived := time.Now()
	for {
		a, err := is.begin(ctx, i)
		if a == nil {
			return err
		}
		select {
		case <-a.done:
		case <-w.timer():
			return errInitialising
		case <-ctx.Done():
			return seqd.AsError(ctx.Err())
		}
		switch {
		case a.err == nil:
			return nil
		case a.err.Code != seqd.CodeConflict && a.err.Code != seqd.CodeStoreFailedOver, !a.began.Before(arrived):
			return a.err
		}
	}
}

// begin returns the attempt under way, and starts one if it can help. Without an attempt, err says
// whether the instance issues.
func (is *Issuer) begin(ctx context.Context, i *instance) (a *attempt, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch i.phase {
	case ready:
		return nil, nil
	case stopping, abandoned, closed:
		return nil, errStopping
	case fresh, failed:
		i.phase = i.phase.after(begin)
		i.attempt = &attempt{began: time.Now(), done: make(chan struct{})}
		i.first = cmp.Or(i.first, i.attempt)
		// Not the caller's context: others share the attempt.
		go is.try(context.WithoutCancel(ctx), i, i.attempt)
	}
	return i.attempt, nil
}

var (
	errStopping     = &seqd.Error{Code: seqd.CodeStopping, Detail: "the service is stopping", RetryAfter: time.Second}
	errInitialising = &seqd.Error{Code: seqd.CodeStarting, Detail: "the biz type is still being initialised", RetryAfter: time.Second}
	errUntried      = &seqd.Error{Code: seqd.CodeStarting, Detail: "not initialised yet", RetryAfter: time.Second}
)

// abandonedPatience is how long the strategy of an instance that was stopped while it began may
// take to close. Nobody may be there any more to bound it, and its store may be away for good.
const abandonedPatience = 30 * time.Second

// try initialises once. If the instance was stopped meanwhile, try closes the strategy, which never
// issues.
func (is *Issuer) try(ctx context.Context, i *instance, a *attempt) {
	defer close(a.done)
	if is.tried(i, a, i.open(ctx)) == abandoned {
		ctx, cancel := context.WithTimeout(ctx, abandonedPatience)
		_ = i.callClose(ctx) // it has issued nothing
		cancel()
		i.on(end)
	}
}

// levelOf returns the level at which to log why a biz type cannot issue yet: a warning if it will
// by itself, because a store or Redis is only away.
func levelOf(err *seqd.Error) slog.Level {
	switch err.Code {
	case seqd.CodeStoreUnavailable, seqd.CodeRedisUnavailable:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// tried notes the outcome of an attempt and returns the phase that follows.
func (is *Issuer) tried(i *instance, a *attempt, err error) phase {
	i.mu.Lock()
	defer i.mu.Unlock()
	outcome := succeed
	if err != nil {
		outcome = fail
		a.err = seqd.AsError(err)
		if i.failure == nil || i.failure.Error() != a.err.Error() {
			is.log.Log(context.Background(), levelOf(a.err), "biz type cannot issue", "bizType", i.name, "error", a.err)
		}
	}
	i.phase = i.phase.after(outcome)
	if i.phase == abandoned {
		a.err = cmp.Or(a.err, errStopping)
	} else {
		i.attempt = nil
	}
	i.failure = a.err
	i.ready.Store(i.phase == ready)
	return i.phase
}

// on moves the instance to the phase that follows an event, and returns the phase before, with the
// attempt that was under way.
func (i *instance) on(e event) (before phase, a *attempt) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, a = i.phase, i.attempt
	i.phase = before.after(e)
	i.ready.Store(i.phase == ready)
	return before, a
}

// open checks the claim, initialises the strategy and then records the claim. In this order, a
// recorded claim without the strategy's state means that the state was lost, never that a crash
// came between the two.
func (i *instance) open(ctx context.Context) (err error) {
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	first := true
	if i.claim != nil {
		if first, err = i.claim.Check(ctx); err != nil {
			return err
		}
	}
	if err := i.strategy.Init(ctx, first); err != nil {
		return err
	}
	if i.claim != nil && first {
		return i.claim.Record(ctx)
	}
	return nil
}

// stop ends issuing: no further attempt begins, and calls find the instance not ready.
func (i *instance) stop() { i.on(stop) }

// close closes the strategy and then the plugins. It comes after stop, unless nobody knew of the
// instance.
func (i *instance) close(ctx context.Context) error {
	failed := []error{i.closeStrategy(ctx)}
	if !i.drain(ctx) {
		return failed[0]
	}
	for _, plug := range i.chain {
		if err := plug.close(ctx); err != nil {
			failed = append(failed, fmt.Errorf("plugin %s: %w", plug.Name, err))
		}
	}
	return errors.Join(failed...)
}

// closeForRest closes the strategy and leaves the plugins to the instance at rest that gets the
// chain. It comes after stop.
func (i *instance) closeForRest(ctx context.Context) error {
	err := i.closeStrategy(ctx)
	i.drain(ctx)
	return err
}

// closeStrategy closes the strategy, if Init was ever called. An attempt under way closes it at its
// end, which closeStrategy waits for.
func (i *instance) closeStrategy(ctx context.Context) error {
	switch before, a := i.on(shut); before {
	case stopping:
		return i.callClose(ctx)
	case abandoned:
		select {
		case <-a.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (i *instance) callClose(ctx context.Context) (err error) {
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	return i.strategy.Close(ctx)
}

// drain waits for the calls in the chain, and reports whether there are plugins to close. It
// does so once.
func (i *instance) drain(ctx context.Context) (due bool) {
	i.mu.Lock()
	drained := i.drained
	i.drained = true
	i.mu.Unlock()
	if drained || !i.closes {
		return false
	}
	i.calls.drain(ctx)
	return true
}

// enter lets a call into the chain, unless the plugins are closed or about to be. leave ends that.
func (i *instance) enter() bool {
	if !i.used.Load() { // not written each time: callers share the cache line
		i.used.Store(true)
	}
	return !i.closes || i.calls.enter()
}

func (i *instance) leave() {
	if i.closes {
		i.calls.leave()
	}
}

// trouble returns why the instance cannot issue, nil if it can, or will before callers give up.
func (i *instance) trouble() *seqd.Error {
	if i.ready.Load() {
		if err := i.health(); err != nil {
			return seqd.AsError(err)
		}
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.failure != nil:
		return i.failure
	case i.late && (i.attempt == nil || time.Since(i.attempt.began) < initWait):
		return nil // callers wait for it, and where very many are in use some are always being opened
	}
	return errUntried
}

// firstChance is how long a biz type may take to start before the node gets requests without it.
const firstChance = 2 * time.Minute

// starts reports whether the instance was given at the start and has not had its first chance yet:
// no attempt to initialise it has ended, except by saying that it is still starting, as while the
// lease of a machine ID has not begun.
func (i *instance) starts() bool {
	if i.late || i.ready.Load() {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.phase == fresh:
		return true
	case i.phase != opening && i.phase != failed, time.Since(i.first.began) >= firstChance:
		return false
	}
	return i.failure == nil || i.failure.Code == seqd.CodeStarting
}

// health is what the strategy says of its health, nil if it is no reporter.
func (i *instance) health() (err error) {
	reporter := ask[seqd.Reporter](i.strategy)
	if reporter == nil {
		return nil
	}
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	return reporter.Health()
}

// degraded is what the strategy says of being degraded, nil if it is no reporter.
func (i *instance) degraded() (why *seqd.Error) {
	reporter := ask[seqd.Reporter](i.strategy)
	if reporter == nil {
		return nil
	}
	var err error
	defer func() {
		if err != nil {
			why = seqd.AsError(err)
		}
	}()
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	return reporter.Degraded()
}

// details is what the strategy reports to operators. ok is false if it reports nothing.
func (i *instance) details() (values map[string]any, ok bool, err error) {
	reporter := ask[seqd.Reporter](i.strategy)
	if reporter == nil {
		return nil, false, nil
	}
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	values = reporter.Details()
	return values, values != nil, nil
}
