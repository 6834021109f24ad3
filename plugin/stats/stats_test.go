package stats_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/plugin/stats"
)

// clock is a clock that a test sets. It has no monotonic part.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Date(2026, 11, 21, 12, 0, 7, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time      { return time.Unix(0, c.ns.Load()) }
func (c *clock) add(d time.Duration) { c.ns.Add(int64(d)) }
func issue(s *stats.Stats, n int)    { _ = s.After(context.Background(), &seqd.Call{Count: n}) }
func refuse(s *stats.Stats, c seqd.Code) {
	s.Rejected(context.Background(), &seqd.Call{}, seqd.Errorf(c, "no"))
}

func report(t testing.TB, s *stats.Stats) stats.Report {
	t.Helper()
	shown := must.Get(s.Show(t.Context(), nil))(t)
	return shown.(stats.Report)
}

func wantRate(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > want/1000+1e-9 {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestTotals(t *testing.T) {
	c := newClock()
	s := stats.New("order", c.now)
	if r := report(t, s); r.LastAt != nil || r.Issued != 0 || len(r.Refused) != 0 || r.Rates != (stats.Rates{}) || !r.Since.Equal(c.now()) {
		t.Errorf("before anything: %+v", r)
	}
	issue(s, 1)
	c.add(time.Hour)
	issue(s, 100)
	refuse(s, seqd.CodeRateLimited)
	refuse(s, seqd.CodeRateLimited)
	refuse(s, seqd.CodeExhausted)
	r := report(t, s)
	if r.BizType != "order" || r.Issued != 101 || r.Requests != 2 || len(r.Refused) != 2 || r.Refused[seqd.CodeRateLimited] != 2 ||
		r.Refused[seqd.CodeExhausted] != 1 || !r.LastAt.Equal(c.now()) {
		t.Errorf("got %+v", r)
	}
}

// TestRates checks that every window shows a steady rate at once, and that rates fall to zero after
// it ends.
func TestRates(t *testing.T) {
	c := newClock()
	s := stats.New("order", c.now)
	for range 20 * 60 * 2 { // 20 minutes
		c.add(500 * time.Millisecond)
		issue(s, 10)
		refuse(s, seqd.CodeRateLimited)
	}
	rates := report(t, s).Rates
	for name, r := range map[string]stats.Rate{"1m": rates.OneMinute, "5m": rates.FiveMinutes, "15m": rates.FifteenMinutes} {
		if math.Abs(r.Issued-20) > 0.5 || math.Abs(r.Requests-2) > 0.05 || math.Abs(r.Refused-2) > 0.05 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	c.add(75 * time.Second)
	if rates = report(t, s).Rates; rates.OneMinute != (stats.Rate{}) || rates.FiveMinutes.Issued < 10 || rates.FiveMinutes.Issued > 16 {
		t.Errorf("75s after the end: %+v", rates)
	}
	c.add(16 * time.Minute)
	if rates = report(t, s).Rates; rates != (stats.Rates{}) {
		t.Errorf("16m after the end: %+v", rates)
	}
}

func TestRatesSoonAfterTheStart(t *testing.T) {
	c := newClock()
	s := stats.New("order", c.now)
	issue(s, 5)
	r := report(t, s).Rates
	wantRate(t, "the rate at once", r.OneMinute.Issued, 5)
	c.add(10 * time.Second)
	r = report(t, s).Rates
	wantRate(t, "the rate after 10s", r.FifteenMinutes.Issued, 0.5)
}

// TestWindows looks at one burst from later times. No window shows more than the burst, and a
// window that began after it shows nothing.
func TestWindows(t *testing.T) {
	for window, rate := range map[time.Duration]func(stats.Rates) stats.Rate{
		time.Minute:      func(r stats.Rates) stats.Rate { return r.OneMinute },
		5 * time.Minute:  func(r stats.Rates) stats.Rate { return r.FiveMinutes },
		15 * time.Minute: func(r stats.Rates) stats.Rate { return r.FifteenMinutes },
	} {
		c := newClock()
		s := stats.New("order", c.now)
		c.add(time.Hour + 4*time.Second)
		issue(s, 9000)
		for passed := time.Duration(0); passed < 20*time.Minute; passed += time.Second {
			got := rate(report(t, s).Rates).Issued
			switch {
			case passed <= window-15*time.Second && (got > 9000/window.Seconds() || got < 9000/(window+15*time.Second).Seconds()):
				t.Fatalf("window %s, %s after: %v", window, passed, got)
			case passed > window+15*time.Second && got != 0:
				t.Fatalf("window %s, %s after: %v", window, passed, got)
			}
			c.add(time.Second)
		}
	}
}

// TestClockJumps checks that, however the clock jumps, the totals are right and no rate is
// negative, not a number or larger than the total.
func TestClockJumps(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	jumps := []time.Duration{time.Nanosecond, time.Second, 15 * time.Second, time.Minute, 15 * time.Minute, time.Hour, 50 * 365 * 24 * time.Hour}
	for range 200 {
		c := newClock()
		s := stats.New("order", c.now)
		for total := int64(1); total <= 100; total++ {
			jump := jumps[random.IntN(len(jumps))]
			c.add(time.Duration(random.Int64N(int64(jump)) + 1 - int64(jump)/2))
			if random.IntN(3) == 0 {
				report(t, s)
			}
			issue(s, 1)
			refuse(s, seqd.CodeTimeout)
			c.add(time.Duration(random.Int64N(int64(jump)) + 1 - int64(jump)/2))
			r := report(t, s)
			for _, rate := range []stats.Rate{r.Rates.OneMinute, r.Rates.FiveMinutes, r.Rates.FifteenMinutes} {
				for _, of := range []float64{rate.Issued, rate.Requests, rate.Refused} {
					if !(of >= 0 && of <= float64(total)) {
						t.Fatalf("after %d numbers the rates are %+v", total, rate)
					}
				}
			}
			if r.Issued != total || r.LastAt == nil {
				t.Fatalf("%d numbers, want %d", r.Issued, total)
			}
		}
	}
}

// TestRatesAfterTheClockWasSetBack checks that rates restart and are right again.
func TestRatesAfterTheClockWasSetBack(t *testing.T) {
	c := newClock()
	s := stats.New("order", c.now)
	run := func() {
		for range 120 {
			c.add(time.Second)
			issue(s, 3)
		}
	}
	c.add(2 * time.Hour)
	run()
	c.add(-time.Hour)
	must.Equal(t, report(t, s).Rates, (stats.Rates{}), "right after")
	run()
	if r := report(t, s).Rates; math.Abs(r.OneMinute.Issued-3) > 0.1 || math.Abs(r.FifteenMinutes.Issued-3) > 0.1 {
		t.Errorf("two minutes after: %+v", r)
	}
}

func TestConcurrent(t *testing.T) {
	c := newClock()
	s := stats.New("order", c.now)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				c.add(50 * time.Millisecond)
				issue(s, 3)
				refuse(s, seqd.CodeTimeout)
				report(t, s)
			}
		})
	}
	wg.Wait()
	if r := report(t, s); r.Issued != 48_000 || r.Requests != 16_000 || r.Refused[seqd.CodeTimeout] != 16_000 {
		t.Errorf("got %+v", r)
	}
}

func TestCodesAreBounded(t *testing.T) {
	s := stats.New("order", time.Now)
	for i := range 1000 {
		refuse(s, seqd.Code(fmt.Sprint("made up ", i)))
	}
	sum, rejected := int64(0), report(t, s).Refused
	for _, n := range rejected {
		sum += n
	}
	if len(rejected) > 65 || sum != 1000 {
		t.Errorf("%d codes with %d refusals", len(rejected), sum)
	}
}

func TestShow(t *testing.T) {
	c := newClock()
	s := stats.New("order", c.now)
	issue(s, 2)
	text, err := json.Marshal(report(t, s))
	const want = `{"bizType":"order","since":"2026-11-21T12:00:07Z","issued":2,"requests":1,"refused":{},` +
		`"rates":{"1m":{"issued":2,"requests":1,"refused":0},"5m":{"issued":2,"requests":1,"refused":0},"15m":{"issued":2,"requests":1,"refused":0}},`
	if err != nil || len(text) < len(want) || string(text[:len(want)]) != want {
		t.Errorf("shown as %s, %v", text, err)
	}
	_, err = s.Show(t.Context(), url.Values{"from": {"x"}})
	must.Code(t, err, seqd.CodeInvalidRequest, "a query parameter")
}

func TestBoundTwice(t *testing.T) {
	factory := must.Get(plugin.Lookup("stats"))(t)
	b := seqd.BizType{Name: "order", Plugins: []seqd.PluginBinding{{Name: "stats"}, {Name: "other"}}}
	if p := factory.Check(b, b.Plugins[0]); len(p) != 0 {
		t.Errorf("once: %v", p)
	}
	b.Plugins = append(b.Plugins, seqd.PluginBinding{Name: "stats", Order: 3})
	if p := factory.Check(b, b.Plugins[2]); len(p) != 1 || p[0].Key != "name" {
		t.Errorf("twice: %v", p)
	}
}

// TestInAChain checks what is counted of calls through an issuer: what was issued, and what any
// plugin or the strategy refused.
func TestInAChain(t *testing.T) {
	s := stats.New("order", time.Now)
	is := must.Get(issuer.New([]issuer.Definition{{
		BizType: seqd.BizType{Name: "order"}, Strategy: &counting{},
		Plugins: []seqd.BoundPlugin{{Order: 950, Quick: true, Plugin: s}, {Order: 10, Quick: true, Plugin: odd{}}},
	}}, issuer.Options{Rejected: seqd.RejectedHandlerFunc(func(context.Context, *seqd.Call, *seqd.Error) {})}))(t)
	for n := 1; n <= 11; n++ {
		_, _ = is.Next(t.Context(), "order", n)
	}
	shown := must.Get(is.Resource(t.Context(), "order", "stats", nil))(t)
	r := shown.(stats.Report)
	if r.Issued != 2+4+6+8 || r.Requests != 4 || r.Refused[seqd.CodeForbidden] != 6 || r.Refused[seqd.CodeExhausted] != 1 {
		t.Errorf("got %+v", r)
	}
}

// odd refuses odd counts.
type odd struct{ seqd.NopPlugin }

func (odd) Before(_ context.Context, call *seqd.Call) error {
	if call.Count%2 == 1 {
		return seqd.Errorf(seqd.CodeForbidden, "odd")
	}
	return nil
}

// counting is a strategy that refuses counts of ten or more.
type counting struct{ last int64 }

func (*counting) Init(context.Context, bool) error { return nil }
func (*counting) Close(context.Context) error      { return nil }
func (c *counting) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	if n >= 10 {
		return seqd.Errorf(seqd.CodeExhausted, "no more")
	}
	seq.Add(c.last+1, n, 1)
	c.last += int64(n)
	return nil
}

func TestNoAllocation(t *testing.T) {
	s := stats.New("order", time.Now)
	call := &seqd.Call{Count: 3}
	must.Equal(t, must.Allocs(1000, func() { _ = s.After(context.Background(), call) }), 0, "allocations")
}
