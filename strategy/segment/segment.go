// Package segment is the strategy that hands out ranges of numbers from the store through a double buffer: increasing numbers
// without gaps but for crashes, at the cost of one store write per segment.
package segment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

// Name is what a biz type's strategy says.
const Name = "segment"

func init() {
	strategy.Register(strategy.Factory{
		Name:     Name,
		Settings: func() any { s := DefaultSettings(); return &s },
		New:      func(env strategy.Env, bizType seqd.BizType) (seqd.Strategy, error) { return New(env, bizType) },
		Shape:    func(seqd.BizType) string { return Name },
	})
}

// fetchDeadline bounds one attempt to get a range.
const fetchDeadline = 10 * time.Second

// Strategy issues the numbers of one biz type. It is safe for concurrent use.
type Strategy struct {
	buffer   buffer // first: issuing touches little else, and with very many biz types every cache line counts
	env      strategy.Env
	name     string
	settings *Settings

	mu      sync.Mutex // guards failure
	failure string     // what was last logged as wrong, "" when all is well
}

var (
	_ seqd.Strategy       = (*Strategy)(nil)
	_ seqd.HealthReporter = (*Strategy)(nil)
)

// New returns the strategy of one biz type, whose Settings must be of type *Settings. It touches nothing.
func New(env strategy.Env, bizType seqd.BizType) (*Strategy, error) {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return nil, fmt.Errorf("biz type %s: settings of type %T are not *segment.Settings", bizType.Name, bizType.Settings)
	}
	s := &Strategy{env: env, name: bizType.Name, settings: settings}
	s.buffer.init(s, settings.Threshold, settings.AcquireTimeout, settings.Start-1)
	return s, nil
}

// Init makes sure that the counter exists. No range is taken before the first request, so a biz type that nobody uses costs
// nothing.
func (s *Strategy) Init(ctx context.Context, fresh bool) error {
	counters := s.env.Store.Counters()
	_, err := counters.Read(ctx, s.name)
	if errors.Is(err, persist.ErrNotFound) {
		if !fresh {
			return refusal(err)
		}
		err = counters.Create(ctx, persist.Counter{
			BizTag:    s.name,
			Max:       s.settings.Start - 1,
			Step:      s.settings.Step,
			Timestamp: s.env.Now().UnixMilli(),
		})
		if errors.Is(err, persist.ErrExists) {
			return nil
		}
	}
	return refusal(err)
}

// Generate adds n consecutive numbers to seq, or several runs of them where a segment ends in between.
func (s *Strategy) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.buffer.take(ctx, n, seq)
}

// Health returns why the next request would be refused.
func (s *Strategy) Health() error { return s.buffer.health() }

// Close gives the numbers that nobody got back to the store, so that the next start goes on where this one stopped. Each
// range is offered once; what is refused or fails is skipped (invariant U2).
func (s *Strategy) Close(ctx context.Context) error {
	rest := s.buffer.close(ctx)
	if len(rest) == 2 && rest[1].Last+1 == rest[0].First {
		rest = []persist.Range{{First: rest[1].First, Last: rest[0].Last}}
	}
	for i, r := range rest {
		given, err := s.env.Store.Counters().GiveBack(ctx, s.name, r)
		if err == nil && given {
			s.report(seqd.Event{Kind: seqd.EventGivenBack, Numbers: r.Size()})
			continue
		}
		// The ranges below could only be given back after this one.
		var skipped int64
		for _, lost := range rest[i:] {
			skipped += lost.Size()
		}
		s.report(seqd.Event{Kind: seqd.EventAbandoned, Numbers: skipped, Err: err})
		if err != nil {
			return fmt.Errorf("give back %d numbers, which are skipped: %w", skipped, err)
		}
		return nil
	}
	return nil
}

// fetch implements [fetcher].
func (s *Strategy) fetch(want, floor int64, why reason) (persist.Range, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchDeadline)
	defer cancel()
	r, err := s.allocate(ctx, want, floor, why)
	s.note(r, err)
	return r, err
}

// allocate takes a range of the size that the step rule gives, of what waiting callers need when that is more, or of what is left
// at the end of all numbers.
func (s *Strategy) allocate(ctx context.Context, want, floor int64, why reason) (persist.Range, error) {
	counters := s.env.Store.Counters()
	for {
		counter, err := counters.Read(ctx, s.name)
		if err != nil {
			return persist.Range{}, err
		}
		left := seqd.MaxNumber - max(counter.Max, floor)
		if left <= 0 {
			return persist.Range{}, fmt.Errorf("%s: %w", s.name, persist.ErrExhausted)
		}
		req := persist.Request{BizTag: s.name, Floor: floor}
		step := s.settings.step(counter.Step, 0, 0)
		switch {
		case why == consumed:
			step = s.settings.step(counter.Step, counter.Timestamp, s.env.Now().UnixMilli())
			req.Step = step
		case why == retrying && want == 0:
			// A store that takes ranges but cannot say so would burn a segment an attempt.
			step = s.settings.Step
		}
		req.Size = min(max(step, want), left)
		r, err := counters.Allocate(ctx, req)
		if errors.Is(err, persist.ErrExhausted) && ctx.Err() == nil {
			continue // another node took some of what was left: look again
		}
		return r, err
	}
}

// note logs a change between well and not well once, and reports what came of a refill.
func (s *Strategy) note(r persist.Range, err error) {
	now := ""
	if err != nil {
		now = err.Error()
	}
	s.mu.Lock()
	before := s.failure
	s.failure = now
	s.mu.Unlock()
	switch {
	case err != nil && now != before:
		s.env.Log.Error("no range from the store", "bizType", s.name, "error", err)
	case err == nil && before != "":
		s.env.Log.Info("the store gives ranges again", "bizType", s.name)
	}
	if err != nil {
		s.report(seqd.Event{Kind: seqd.EventRefillFailed, Err: err})
		return
	}
	s.env.Log.Debug("segment", "bizType", s.name, "first", r.First, "last", r.Last)
	s.report(seqd.Event{Kind: seqd.EventRefilled, Numbers: r.Size()})
	if left := seqd.MaxNumber - r.Last; left < seqd.MaxNumber/100 {
		s.env.Log.Warn("nearly exhausted", "bizType", s.name, "left", left)
		s.report(seqd.Event{Kind: seqd.EventNearlyExhausted, Numbers: left})
	}
}

// report implements [fetcher].
func (s *Strategy) report(e seqd.Event) {
	e.BizType = s.name
	if e.Kind == seqd.EventOutOfOrder {
		s.env.Log.Error("the store gave a range below numbers already seen; it is refused", "bizType", s.name, "numbers", e.Numbers)
	}
	s.env.Observer.Event(e)
}
