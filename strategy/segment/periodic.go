package segment

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/strategy/counters"
)

// Without keys, only the present period is used, and the next one is prepared before it begins. The
// counter of the present period is found without looking for it. Numbers of one period never
// repeat, whatever the clocks of nodes say: a wrong clock only decides which period's number a
// caller gets, and the sequence says which one that was.

// view is the present period, opened.
type view struct {
	*counters.Span
	*Counter
	prepare atomic.Int64 // from when the next period is prepared, in ms since the Unix epoch
}

const (
	// ahead is how long before its beginning a period is prepared at most; the least is a fifth of
	// it.
	ahead = 5 * time.Minute
	// mostSpans is how many periods a node keeps open: the present one, and the previous or next
	// one.
	mostSpans = 2
	// knownPeriods is how many closed periods a node remembers at least. If its clock comes back to
	// another one, the node may issue lower numbers than before, but never the same.
	knownPeriods = 32
	// openPause is the least pause between two attempts to open one period.
	openPause = 100 * time.Millisecond
)

// askPeriod gets numbers of the present period.
func (f *family) askPeriod(ctx context.Context, get func(*Counter, context.Context, int, *seqd.Sequence) error, n int, seq *seqd.Sequence) error {
	before := seq.Len()
	for attempt := 0; ; attempt++ {
		v, err := f.now(ctx)
		if err != nil {
			return err
		}
		err = get(v.Counter, ctx, n, seq)
		if seqd.CodeOf(err) == seqd.CodeStopping && seq.Len() == before && attempt < mostSpans && !f.Closed() {
			// the clock has jumped back to a period that was just closed
			f.view.CompareAndSwap(v, nil)
			continue
		}
		period := v.Period
		if sabotage.Off(sabotage.Period) {
			period = f.Calendar.Now(f.Env.Now().Add(500 * time.Millisecond))
		}
		seq.In(period)
		return err
	}
}

// now returns the present period, opened.
func (f *family) now(ctx context.Context) (*view, error) {
	v, now := f.view.Load(), f.Env.Now().UnixMilli()
	if v == nil || !v.Holds(now) {
		return f.openPresent(ctx)
	}
	if from := v.prepare.Load(); now >= from && v.prepare.CompareAndSwap(from, math.MaxInt64) {
		f.prepareNext(v)
	}
	return v, nil
}

// openPresent asks the calendar for the present period and opens it.
func (f *family) openPresent(ctx context.Context) (*view, error) {
	span := f.present()
	p := span.Period
	if err := f.mayOpen(p); err != nil {
		return nil, err
	}
	e, err := f.Acquire(ctx, counters.Name{Period: p}, "")
	if errors.Is(err, counters.ErrLate) {
		err = &seqd.Error{Code: seqd.CodeTimeout, Detail: "the period " + p.String() + " did not begin in time", RetryAfter: time.Second}
	}
	if err != nil {
		return nil, err
	}
	defer e.Release() // it stays open while it is the present one
	v := &view{Span: span, Counter: e.Counter()}
	v.prepare.Store(span.Until - f.lead().Milliseconds())
	f.view.Store(v)
	return v, nil
}

// mayOpen returns why a period cannot be opened now, even if it is open.
func (f *family) mayOpen(p seqd.Period) error {
	if err := p.Check(); err != nil {
		return err
	}
	if f.Closed() {
		return errStopping
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if last, failed := f.failed[p]; failed && time.Since(last.tried) < openPause {
		return last.err
	}
	return nil
}

// lead is how long before its beginning this node prepares a period of this biz type. It differs
// from node to node, so that not all do so at once.
func (f *family) lead() time.Duration {
	return ahead/5 + counters.Spread(ahead-ahead/5, f.BizType.Name, f.Env.Addr)
}

// prepareNext opens the period after a view and fetches numbers for it, in the background.
func (f *family) prepareNext(v *view) {
	p := f.Calendar.Now(time.UnixMilli(v.Until))
	if f.mayOpen(p) != nil {
		return
	}
	f.Go(func() {
		if e, err := f.Await(f.Running, counters.Name{Period: p}); err == nil {
			e.Counter().prepare()
			e.Release()
		}
	})
}

// openPeriod opens a period, or leaves it to the next attempt.
func (f *family) openPeriod(ctx context.Context, name counters.Name) (*Counter, error) {
	c, err := f.openCounter(ctx, name, "")
	if f.Closed() {
		return c, errStopping // it has issued nothing
	}
	if err != nil {
		err := seqd.AsError(err)
		f.openFailed(name.Period, err)
		return nil, err
	}
	f.mu.Lock()
	delete(f.failed, name.Period)
	f.mu.Unlock()
	f.Env.Log.Debug("period", "bizType", f.BizType.Name, "period", name.Period)
	return c, nil
}
