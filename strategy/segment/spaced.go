package segment

import (
	"context"
	"fmt"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy"
)

// spaced is a strategy whose increment is above 1, over one that counts in places. It makes no
// consecutive numbers.
type spaced struct {
	counting
	places places
}

var (
	_ counting              = (*spaced)(nil)
	_ seqd.PartialGenerator = (*spaced)(nil)
	_ seqd.DetailReporter   = (*spaced)(nil)
	_ seqd.Learner          = (*spaced)(nil)
)

// spacing returns the strategy that callers use.
func (p places) spacing(of counting) counting {
	if p.all() {
		return of
	}
	return &spaced{of, p}
}

// unspaced is originOf for a strategy that callers use themselves. It refuses an increment above 1,
// because they would get places.
func unspaced(e strategy.Env, bizType seqd.BizType) (origin, error) {
	o, err := originOf(e, bizType, bizType.Name)
	if err == nil && !o.settings.places().all() {
		return origin{}, fmt.Errorf("biz type %s: its increment is %d: make it with the factory of package strategy", bizType.Name, o.settings.Increment)
	}
	return o, err
}

// convert calls take, which adds places to seq, and makes them numbers. Runs of numbers have another
// stride than runs of places, so seq never joins the two.
func (s *spaced) convert(seq *seqd.Sequence, take func() error) error {
	before := len(seq.Runs())
	err := take()
	runs := seq.Runs()[before:]
	for i := range runs {
		runs[i].First, runs[i].Stride = s.places.number(runs[i].First), s.places.increment
	}
	return err
}

// Generate adds n numbers to seq.
func (s *spaced) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.convert(seq, func() error { return s.counting.Generate(ctx, n, seq) })
}

// GenerateSome implements [seqd.PartialGenerator].
func (s *spaced) GenerateSome(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateSome(ctx, n, seq, s)
}

// some implements [takesSome].
func (s *spaced) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.convert(seq, func() error { return s.counting.some(ctx, n, seq) })
}

// GenerateRange implements [seqd.Ranger].
func (s *spaced) GenerateRange(ctx context.Context, n int64, seq *seqd.Sequence) error {
	return s.convert(seq, func() error { return s.counting.GenerateRange(ctx, n, seq) })
}

// Measure implements [seqd.Measurer].
func (s *spaced) Measure(tell func(seqd.Measurement)) {
	s.counting.Measure(func(v seqd.Measurement) {
		if v.Gauge == seqd.GaugeHighest || v.Gauge == seqd.GaugeLimit {
			v.Value = float64(s.places.number(int64(v.Value)))
		}
		tell(v)
	})
	tell(seqd.Measurement{Gauge: seqd.GaugeIncrement, Value: float64(s.places.increment)})
}

// Details implements [seqd.DetailReporter].
func (s *spaced) Details() map[string]any {
	if d, ok := s.counting.(seqd.DetailReporter); ok {
		return d.Details()
	}
	return nil
}

// knows implements [knowing]. What is known is in numbers, so that a strategy with another increment
// can inherit it.
func (s *spaced) knows() known { return s.counting.knows().convert(s.places.number) }

func (s *spaced) inherit(k known) { s.counting.inherit(k.convert(s.places.upTo)) }

// Learn implements [seqd.Learner].
func (s *spaced) Learn(from any) { learn(s, from) }

// Knowledge implements [seqd.Learner].
func (s *spaced) Knowledge() any { return s.knows().knowledge() }
