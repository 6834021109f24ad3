package segment

import (
	"context"
	"errors"
	"maps"
	"math"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// Periodic issues the numbers of one biz type that are reset each period. Every period has its own
// counter and its own strategy, so numbers of one period never repeat, whatever the clocks of nodes
// say: a wrong clock only decides which period's number a caller gets, and the sequence says which
// one that was. It is safe for concurrent use.
type Periodic struct {
	family
	view atomic.Pointer[view] // what the last caller who asked the calendar found

	// What follows is guarded by mu.

	failed map[seqd.Period]failedOpening // periods that could not be opened at the last attempt
	again  bool                          // reopen runs
}

// view is the present period, opened.
type view struct {
	*counters.Span
	counting
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

var (
	_ seqd.Strategy         = (*Periodic)(nil)
	_ seqd.HealthReporter   = (*Periodic)(nil)
	_ seqd.DegradedReporter = (*Periodic)(nil)
	_ seqd.DetailReporter   = (*Periodic)(nil)
)

func newPeriodic(env strategy.Env, bizType seqd.BizType, settings *Settings, open opener) *Periodic {
	s := &Periodic{}
	s.family.init(env, bizType, settings, open)
	s.memory.Least = knownPeriods
	s.set = counters.NewSet(counters.Options[counting]{
		Most: mostSpans, Wait: s.settings.AcquireTimeout, Timeout: fetchDeadline, Context: s.running,
		Open: s.openPeriod, Close: s.closeCounter,
	})
	return s
}

// Init opens the present period. A period whose counter was lost does not affect other periods: it
// is refused when it is used.
func (s *Periodic) Init(ctx context.Context, _ bool) error {
	_, err := s.turn(ctx)
	if seqd.CodeOf(err) == seqd.CodeConflict {
		return nil
	}
	return err
}

// Generate adds n numbers of the period that is present when the call begins.
func (s *Periodic) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.ask(ctx, counting.Generate, n, seq)
}

// GenerateSome implements [seqd.PartialGenerator].
func (s *Periodic) GenerateSome(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateSome(ctx, n, seq, s)
}

// GenerateConsecutive implements [seqd.ConsecutiveGenerator].
func (s *Periodic) GenerateConsecutive(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateConsecutive(ctx, n, seq, s)
}

// GenerateRange refuses: a caller would issue the numbers of a period after its end.
func (s *Periodic) GenerateRange(context.Context, int64, *seqd.Sequence) error {
	return seqd.Errorf(seqd.CodeInvalidRequest, "%s hands out no ranges: its numbers reset", s.bizType.Name)
}

// some implements [takesSome].
func (s *Periodic) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.ask(ctx, counting.some, n, seq)
}

// ask gets numbers of the present period.
func (s *Periodic) ask(ctx context.Context, get func(counting, context.Context, int, *seqd.Sequence) error, n int, seq *seqd.Sequence) error {
	before := seq.Len()
	for attempt := 0; ; attempt++ {
		v, err := s.now(ctx)
		if err != nil {
			return err
		}
		err = get(v.counting, ctx, n, seq)
		if seqd.CodeOf(err) == seqd.CodeStopping && seq.Len() == before && attempt < mostSpans && !s.isClosed() {
			// the clock has jumped back to a period that was just closed
			s.view.CompareAndSwap(v, nil)
			continue
		}
		period := v.Period
		if sabotage.Off(sabotage.Period) {
			period = s.calendar.Now(s.env.Now().Add(500 * time.Millisecond))
		}
		seq.In(period)
		return err
	}
}

// now returns the present period, opened.
func (s *Periodic) now(ctx context.Context) (*view, error) {
	v, now := s.view.Load(), s.env.Now().UnixMilli()
	if v == nil || !v.Holds(now) {
		return s.turn(ctx)
	}
	if from := v.prepare.Load(); now >= from && v.prepare.CompareAndSwap(from, math.MaxInt64) {
		s.prepareNext(v)
	}
	return v, nil
}

// turn asks the calendar for the present period and opens it.
func (s *Periodic) turn(ctx context.Context) (*view, error) {
	span := s.calendar.Present(s.env.Now())
	p := span.Period
	if err := s.mayOpen(p); err != nil {
		return nil, err
	}
	e, err := s.set.Acquire(ctx, counters.Name{Period: p}, "")
	if errors.Is(err, counters.ErrLate) {
		err = &seqd.Error{Code: seqd.CodeTimeout, Detail: "the period " + p.String() + " did not begin in time", RetryAfter: time.Second}
	}
	if err != nil {
		return nil, err
	}
	defer e.Release() // it stays open while it is the present one
	v := &view{Span: span, counting: e.Counter()}
	v.prepare.Store(span.Until - s.lead().Milliseconds())
	s.view.Store(v)
	if s.purger.Due(p) {
		s.start(s.purger.Run)
	}
	return v, nil
}

// mayOpen returns why a period cannot be opened now, even if it is open.
func (s *Periodic) mayOpen(p seqd.Period) error {
	if err := p.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStopping
	}
	if f, failed := s.failed[p]; failed && time.Since(f.tried) < openPause {
		return f.err
	}
	return nil
}

// lead is how long before its beginning this node prepares a period of this biz type. It differs
// from node to node, so that not all do so at once.
func (s *Periodic) lead() time.Duration {
	return ahead/5 + counters.Spread(ahead-ahead/5, s.bizType.Name, s.env.Addr)
}

// prepareNext opens the period after a view and fetches numbers for it, in the background.
func (s *Periodic) prepareNext(v *view) {
	p := s.calendar.Now(time.UnixMilli(v.Until))
	if s.mayOpen(p) != nil {
		return
	}
	s.start(func() {
		if e, err := s.set.Await(s.running, counters.Name{Period: p}); err == nil {
			e.Counter().prepare()
			e.Release()
		}
	})
}

// openPeriod opens a period, or leaves it to the next attempt.
func (s *Periodic) openPeriod(ctx context.Context, name counters.Name, _ string) (counting, error) {
	c, err := s.openCounter(ctx, name, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return c, errStopping // it has issued nothing
	}
	if err != nil {
		err := seqd.AsError(err)
		s.openFailed(name.Period, err)
		return nil, err
	}
	delete(s.failed, name.Period)
	s.env.Log.Debug("period", "bizType", s.bizType.Name, "period", name.Period)
	return c, nil
}

// present returns the open strategy of the present period, or why it cannot be opened. It returns
// neither before the first request.
func (s *Periodic) present() (counting, *seqd.Error) {
	p := s.calendar.Now(s.env.Now())
	if err := p.Check(); err != nil {
		return nil, seqd.AsError(err)
	}
	if c, ok := s.set.Peek(counters.Name{Period: p}); ok {
		return c, nil
	}
	if v := s.view.Load(); v != nil && v.Period == p && s.isClosed() {
		return v.counting, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return nil, s.failed[p].err
}

// Health implements [seqd.HealthReporter].
func (s *Periodic) Health() error {
	c, err := s.present()
	switch {
	case err != nil:
		return err
	case c == nil:
		return nil
	}
	return c.Health()
}

// Degraded implements [seqd.DegradedReporter].
func (s *Periodic) Degraded() *seqd.Error {
	if c, _ := s.present(); c != nil {
		return c.Degraded()
	}
	return nil
}

// Details implements [seqd.DetailReporter].
func (s *Periodic) Details() map[string]any {
	details := map[string]any{"period": s.calendar.Now(s.env.Now()).String()}
	c, _ := s.present()
	if d, ok := c.(seqd.DetailReporter); ok {
		maps.Copy(details, d.Details())
	}
	return details
}

// Close ends issuing and gives back the numbers that only this node had, of every period.
func (s *Periodic) Close(ctx context.Context) error { return s.family.close(ctx) }
