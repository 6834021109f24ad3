package snowflake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
)

// generator makes numbers under a lease. It is safe for concurrent use.
//
// Whatever happens to the process and its clock, the time of a number is in (lower, bound] and not
// below the last time. Both are checked for the very time that goes into the number, under the lock
// under which leases change. So it does not matter when clocks are read, or in which order.
type generator struct {
	layout  *layout
	options generatorOptions
	// turn is held by the one caller that waits for the clock; capacity 1. The next is the one that
	// has waited for longest.
	turn chan struct{}
	// many is held by the one caller that needs more numbers than one time has; likewise.
	many  chan struct{}
	alarm alarm // the caller with the turn uses it

	mu          sync.Mutex // guards what follows
	stopped     *seqd.Error
	machine     int64
	lower       int64       // times are above it, in ms since the Unix epoch
	floored     bool        // lower is the floor of a registry, not a time that was used
	bound       int64       // times are not above it
	last        int64       // the last time used
	start       int64       // the first sequence of the last time
	used        int64       // how many numbers of the last time were used
	refusing    bool        // the clock is behind, and onRollback was called
	lastError   *seqd.Error // the last error made by once
	lastErrorAt int64       // the time for which it was made
}

// generatorOptions are the options of newGenerator.
type generatorOptions struct {
	// now is the clock.
	now func() time.Time
	// maxWait is the longest wait for a clock that was set back.
	maxWait time.Duration
	// randomStart starts the sequence of each millisecond at a random value of its lower half.
	randomStart bool
	// onRollback is called when the generator begins to refuse because the clock was set back by
	// gap, and when the clock has passed the last time. It is called without locks. It may be nil.
	onRollback func(begins bool, gap time.Duration)
	// left is the last time that a biz type of this process may have used before it left its generator.
	// It may be nil.
	left *atomic.Int64
}

// patience is the longest that one call waits for numbers.
const patience = 2 * time.Second

// newGenerator returns a generator without a lease.
func newGenerator(l *layout, opts generatorOptions) *generator {
	if opts.onRollback == nil {
		opts.onRollback = func(bool, time.Duration) {}
	}
	if opts.left == nil {
		opts.left = new(atomic.Int64)
	}
	return &generator{layout: l, options: opts, turn: make(chan struct{}, 1), many: make(chan struct{}, 1), stopped: errSeeking}
}

var errSeeking = &seqd.Error{Code: seqd.CodeNoMachineID, Detail: "there is no machine ID yet", RetryAfter: time.Second}

// set installs or extends a lease: a machine ID and the times above lower up to bound. The last
// time stays, so numbers of a node increase even if its machine ID changes.
func (g *generator) set(machine, lower, bound int64, floored bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if machine != g.machine || g.stopped != nil {
		// skip the rest of the last time: another machine ID may make a lower number
		g.used = 1 << g.layout.bits.Sequence
	}
	g.machine, g.lower, g.bound, g.floored, g.stopped, g.lastError = machine, lower, bound, floored, nil, nil
}

// stop stops issuing until set is called, and returns the last time that was used, 0 if none.
func (g *generator) stop(reason *seqd.Error) (last int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped, g.lastError = reason, nil
	return g.last
}

// lastUsed returns the last time that was used, 0 if none.
func (g *generator) lastUsed() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last
}

// forget forgets the last time. The generator must be stopped, and continue with times of a lease
// that nobody has used.
func (g *generator) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.refusing = 0, false
	g.options.left.Store(0)
}

// leave leaves the last time to whatever generator a biz type uses next. It is called after the biz
// type has used this one.
func (g *generator) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		if left := g.options.left.Load(); left >= g.last || g.options.left.CompareAndSwap(left, g.last) {
			return
		}
	}
}

// join continues above the times that biz types of this process left. It is called before a biz type
// uses this generator, so its numbers increase even if it used one of another machine ID before, and
// the clock was set back.
func (g *generator) join() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if left := g.options.left.Load(); left >= g.last {
		g.last, g.used = left, 1<<g.layout.bits.Sequence
	}
}

// take adds n numbers to seq, in ascending order. If it fails, the numbers it took are skipped.
func (g *generator) take(ctx context.Context, n int, seq *seqd.Sequence) error {
	taken, _, _, err := g.some(n, seq)
	if err != nil || taken == n {
		return err
	}
	return g.takeLater(ctx, n-taken, seq)
}

// takeLater is take for a caller that must wait. Such callers line up, so that each gets numbers
// after those who came before it, however fast a caller comes back for more.
func (g *generator) takeLater(ctx context.Context, n int, seq *seqd.Sequence) error {
	limited, cancel := context.WithTimeout(ctx, patience+g.options.maxWait)
	defer cancel()
	err := g.takeInTurn(limited, n, seq)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return &seqd.Error{Code: seqd.CodeTimeout, Detail: "this layout cannot make that many numbers, and those of the callers before, in " + patience.String(), RetryAfter: time.Second}
	}
	return seqd.AsError(err)
}

// takeInTurn waits for the caller's turn, and takes numbers until it has all. A caller who needs more
// than one time has gives others a turn after each. So few numbers do not wait for many; and only one
// caller at a time needs many, so that each of them gets all of its numbers before the next one.
func (g *generator) takeInTurn(ctx context.Context, n int, seq *seqd.Sequence) error {
	if n > 1<<g.layout.bits.Sequence {
		if err := enter(ctx, g.many); err != nil {
			return err
		}
		defer func() { <-g.many }()
	}
	for n > 0 {
		taken, err := g.takeOnce(ctx, n, seq)
		if err != nil {
			return err
		}
		n -= taken
	}
	return nil
}

// takeOnce waits for the caller's turn, and then until it can take numbers.
func (g *generator) takeOnce(ctx context.Context, n int, seq *seqd.Sequence) (taken int, err error) {
	if err := enter(ctx, g.turn); err != nil {
		return 0, err
	}
	defer func() { <-g.turn }()
	for before := (time.Time{}); ; {
		taken, now, wait, err := g.some(n, seq)
		if err != nil || taken > 0 {
			return taken, err
		}
		if err := g.pass(ctx, wait, !now.Equal(before)); err != nil {
			return 0, err
		}
		before = now
	}
}

// enter waits for a place in a line that one caller at a time leaves, or until ctx ends.
func enter(ctx context.Context, line chan struct{}) error {
	select {
	case line <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// some takes at most n numbers of the current time. It returns that time, and how long to wait if
// these are not enough.
func (g *generator) some(n int, seq *seqd.Sequence) (taken int, now time.Time, wait time.Duration, err error) {
	g.mu.Lock()
	now = g.options.now()
	ms := now.UnixMilli()
	if ms == g.last && g.used < 1<<g.layout.bits.Sequence-g.start || g.moved(ms) {
		if soon := time.Duration(g.lower+1-ms) * time.Millisecond; g.stopped == nil && soon > 0 && soon <= g.options.maxWait {
			g.mu.Unlock()
			return 0, now, soon, nil // the lease is about to begin
		}
		if g.stopped != nil || ms <= g.lower || ms > g.bound || ms <= g.layout.epoch || ms > g.layout.last() {
			err := g.once(ms, func() *seqd.Error { return g.outside(ms) })
			over := g.passed()
			g.mu.Unlock()
			g.tell(over, false, 0)
			return 0, now, 0, err
		}
		taken = g.takeAt(ms, n, seq)
		over := g.passed()
		g.mu.Unlock()
		g.tell(over, false, 0)
		return taken, now, nextMilli(now), nil
	}
	last, stopped := g.last, g.stopped
	gap := time.Duration(last-ms) * time.Millisecond
	late := gap > g.options.maxWait
	begins := late && !g.refusing && stopped == nil
	g.refusing = g.refusing || begins
	if late && stopped == nil {
		stopped = g.once(ms, func() *seqd.Error { return rolledBack(last, gap) })
	}
	g.mu.Unlock()
	if stopped != nil {
		g.tell(begins, true, gap)
		return 0, now, 0, stopped
	}
	return 0, now, gap + nextMilli(now), nil
}

// moved reports whether a time is after the last one. mu is held.
func (g *generator) moved(ms int64) bool {
	return ms > g.last || sabotage.Off(sabotage.Rollback) && ms != g.last
}

// passed ends an episode of refusing, and reports whether there was one. mu is held.
func (g *generator) passed() bool {
	was := g.refusing
	g.refusing = false
	return was
}

// tell calls onRollback if there is news.
func (g *generator) tell(news, begins bool, gap time.Duration) {
	if news {
		g.options.onRollback(begins, gap)
	}
}

// once returns an error that it makes at most once per millisecond, because every request may get
// it. mu is held.
func (g *generator) once(ms int64, make func() *seqd.Error) *seqd.Error {
	if g.lastError == nil || g.lastErrorAt != ms {
		g.lastError, g.lastErrorAt = make(), ms
	}
	return g.lastError
}

func rolledBack(last int64, gap time.Duration) *seqd.Error {
	return &seqd.Error{Code: seqd.CodeClockRollback, RetryAfter: gap + time.Millisecond,
		Detail: fmt.Sprintf("the clock was set back: it is %s behind %s, the last time that was used", gap, at(last))}
}

// outside returns why a time must not be used. mu is held.
func (g *generator) outside(ms int64) *seqd.Error {
	switch {
	case g.stopped != nil:
		return g.stopped
	case ms <= g.layout.epoch:
		return beforeEpoch(ms)
	case ms <= g.lower:
		code := seqd.CodeClockRollback
		if g.floored {
			code = seqd.CodeStarting
		}
		return &seqd.Error{Code: code, RetryAfter: time.Duration(g.lower+1-ms) * time.Millisecond,
			Detail: fmt.Sprintf("the lease of machine ID %d begins at %s; the clock says %s", g.machine, at(g.lower+1), at(ms))}
	case ms > g.layout.last():
		return seqd.Errorf(seqd.CodeExhausted, "the times of this layout ended at %s", at(g.layout.last()))
	}
	return &seqd.Error{Code: seqd.CodeNoMachineID, RetryAfter: time.Second,
		Detail: fmt.Sprintf("the lease of machine ID %d ended at %s and could not be renewed", g.machine, at(g.bound))}
}

// takeAt takes at most n numbers of a time that may be used. mu is held.
func (g *generator) takeAt(ms int64, n int, seq *seqd.Sequence) int {
	if g.moved(ms) {
		g.last, g.used, g.start = ms, 0, 0
		if g.options.randomStart {
			g.start = rand.Int64N(1 << (g.layout.bits.Sequence - 1))
		}
	}
	count := min(int64(n), 1<<g.layout.bits.Sequence-g.start-g.used)
	stride := int64(1) << g.layout.bits.Machine
	seq.Add(g.layout.first(ms, g.machine)+(g.start+g.used)*stride, int(count), stride)
	g.used += count
	if sabotage.Off(sabotage.SequenceOnce) {
		g.used -= count - count/2
	}
	return int(count)
}

// health returns an error if no number could be made at a time because the clock was set back, or
// is before the epoch.
func (g *generator) health(ms int64) *seqd.Error {
	if ms <= g.layout.epoch {
		return beforeEpoch(ms)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if gap := time.Duration(g.last-ms) * time.Millisecond; gap > g.options.maxWait {
		return rolledBack(g.last, gap)
	}
	return nil
}

// nextMilli returns the time until the next millisecond.
func nextMilli(now time.Time) time.Duration {
	return time.Millisecond - time.Duration(now.Nanosecond())%time.Millisecond
}

// pass waits for d, or until ctx ends. If the clock has not moved since the last wait, it waits for
// a millisecond at least. The caller has the turn.
func (g *generator) pass(ctx context.Context, d time.Duration, moved bool) error {
	if moved && d <= time.Millisecond && g.alarm.sleep(d) {
		return ctx.Err()
	}
	if !moved {
		d = max(d, time.Millisecond)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
