package ratelimit_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/plugin/ratelimit"
)

// clock is a clock that a test sets.
type clock struct{ ns atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time      { return time.Unix(0, c.ns.Load()) }
func (c *clock) add(d time.Duration) { c.ns.Add(int64(d)) }

func settings(rate float64, burst int64) ratelimit.Settings {
	s := ratelimit.DefaultSettings()
	s.Rate, s.Burst = rate, burst
	return s
}

// ask makes one request for count numbers and returns the limit.
func ask(p seqd.Plugin, caller string, count int) (seqd.Limit, *seqd.Error) {
	call := &seqd.Call{BizType: "order", Count: count, Caller: seqd.Caller{Name: caller}}
	err := p.Before(context.Background(), call)
	if err == nil {
		return call.Limit, nil
	}
	return call.Limit, seqd.AsError(err)
}

// passes makes requests until one is refused, and returns how many passed.
func passes(p seqd.Plugin, caller string, count int) (n int) {
	for ; ; n++ {
		if _, err := ask(p, caller, count); err != nil {
			return n
		}
	}
}

func TestBurstThenRate(t *testing.T) {
	c := newClock()
	p := ratelimit.New(settings(2, 5), c.now)
	for left := int64(4); left >= 0; left-- {
		limit, err := ask(p, "", 100) // per request: the count does not matter
		want := seqd.Limit{Quota: 5, Remaining: left, Reset: time.Duration(5-left) * 500 * time.Millisecond}
		if err != nil || limit != want {
			t.Fatalf("%+v, %v; want %+v", limit, err, want)
		}
	}
	limit, err := ask(p, "", 1)
	if err == nil || err.Code != seqd.CodeRateLimited || err.RetryAfter != 500*time.Millisecond ||
		!strings.Contains(err.Detail, "2 requests per second, and at most 5 at once") || limit != (seqd.Limit{Quota: 5, Reset: 2500 * time.Millisecond}) {
		t.Errorf("%+v, %v after %s", limit, err, err.RetryAfter)
	}
	c.add(time.Second)
	must.Equal(t, passes(p, "", 1), 2, "passed in a second")
	c.add(time.Hour)
	must.Equal(t, passes(p, "", 1), 5, "passed after an hour")
}

// TestRetryAfterIsExact checks that a request passes after RetryAfter and not a little sooner.
func TestRetryAfterIsExact(t *testing.T) {
	for _, rate := range []float64{1.0 / 86400, 0.1, 1. / 3, 0.7, 1, 3, 7, 99.9, 1000, 12345, 1e6} {
		c := newClock()
		p := ratelimit.New(settings(rate, 3), c.now)
		passes(p, "", 1)
		for range 50 {
			_, err := ask(p, "", 1)
			if err == nil {
				t.Fatalf("rate %v: it passed", rate)
			}
			wait := err.RetryAfter
			c.add(wait - 2*time.Microsecond)
			if _, err := ask(p, "", 1); err == nil && wait > 2*time.Microsecond {
				t.Fatalf("rate %v: it passed before %s", rate, wait)
			}
			c.add(2 * time.Microsecond)
			if _, err := ask(p, "", 1); err != nil {
				t.Fatalf("rate %v: it did not pass after %s but %s later", rate, wait, err.RetryAfter)
			}
			c.add(time.Duration(c.ns.Load() % 7)) // with any fraction of a µs
			passes(p, "", 1)
		}
	}
}

func TestPerNumber(t *testing.T) {
	s := settings(10, 100)
	s.Per = ratelimit.PerNumber
	p := ratelimit.New(s, newClock().now)
	if limit, err := ask(p, "", 60); err != nil || limit.Remaining != 40 {
		t.Fatalf("%+v, %v", limit, err)
	}
	limit, err := ask(p, "", 60)
	if err == nil || err.Code != seqd.CodeRateLimited || err.RetryAfter != 2*time.Second || limit.Remaining != 40 {
		t.Errorf("%+v, %v", limit, err)
	}
	// A request that can never pass is invalid and costs nothing.
	limit, err = ask(p, "", 101)
	if err == nil || err.Code != seqd.CodeInvalidCount || err.RetryAfter != 0 || limit.Remaining != 40 || limit.Quota != 100 {
		t.Errorf("%+v, %v", limit, err)
	}
	if _, err := ask(p, "", 40); err != nil {
		t.Error(err)
	}
}

func TestCallersHaveBucketsOfTheirOwn(t *testing.T) {
	p := ratelimit.New(settings(1, 3), newClock().now)
	for _, caller := range []string{"", "shop", "Shop", "app"} {
		must.Equal(t, passes(p, caller, 1), 3, "%q: passed", caller)
	}
	must.Equal(t, passes(p, "", 1), 0, "passed without a name")
}

// TestBucketsAreBounded checks that there are never more than 10,000 buckets, however many names
// there are. Idle buckets make room, and callers without a bucket share one.
func TestBucketsAreBounded(t *testing.T) {
	c := newClock()
	p := ratelimit.New(settings(1, 1), c.now)
	passed := 0
	for i := range 20_000 {
		passed += passes(p, fmt.Sprint("caller ", i), 1)
	}
	must.Equal(t, passed, 10_001, "passed, one for each of 10000 and one for the crowd,")
	c.add(2 * time.Second)
	for i := range 5000 {
		if n := passes(p, fmt.Sprint("late ", i), 1); n != 1 {
			t.Fatalf("%d passed of a caller who came when others had gone", n)
		}
	}
}

// TestClockJumps checks that limits hold however a clock without a monotonic part jumps, and that
// requests pass when it advances again.
func TestClockJumps(t *testing.T) {
	c := newClock()
	p := ratelimit.New(settings(1, 3), c.now)
	for _, jump := range []time.Duration{-time.Hour, 50 * 365 * 24 * time.Hour, -40 * 365 * 24 * time.Hour, -time.Nanosecond} {
		passes(p, "", 1)
		c.add(jump)
		limit, _ := ask(p, "", 1)
		if limit.Remaining < 0 || limit.Remaining > 3 || limit.Reset < 0 || limit.Reset > 3*time.Second {
			t.Errorf("after %s: %+v", jump, limit)
		}
	}
	c.ns.Store(newClock().ns.Load())
	c.add(100 * 365 * 24 * time.Hour)
	passes(p, "", 1)
	c.add(time.Second)
	must.Equal(t, passes(p, "", 1), 1, "passed a second later")
}

// TestConcurrent checks that concurrent requests get no more tokens than there are.
func TestConcurrent(t *testing.T) {
	c := newClock()
	p := ratelimit.New(settings(1000, 500), c.now)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 1000 {
				if _, err := ask(p, fmt.Sprint("caller ", i%2), 1); err == nil {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	must.Equal(t, passed.Load(), 1000, "passed, 500 of each of two callers,")
}

func TestSettings(t *testing.T) {
	ok := []ratelimit.Settings{settings(0.5, 0), settings(1e9, 1e9), settings(1.0/86400, 1), settings(100, 0)}
	for _, s := range ok {
		if p := s.Validate(); len(p) != 0 {
			t.Errorf("%+v: %v", s, p)
		}
	}
	with := func(change func(*ratelimit.Settings)) ratelimit.Settings {
		s := settings(1, 1)
		change(&s)
		return s
	}
	for key, list := range map[string][]ratelimit.Settings{
		"rate":  {settings(0, 0), settings(-1, 0), settings(math.NaN(), 0), settings(math.Inf(1), 0), settings(1e9+1, 0), settings(1e-300, 0), settings(1, 1e9)},
		"burst": {settings(1, -1), settings(1, 1e9+1)},
		"scope": {with(func(s *ratelimit.Settings) { s.Scope = "node" }), with(func(s *ratelimit.Settings) { s.Scope = "" })},
		"per":   {with(func(s *ratelimit.Settings) { s.Per = "caller" })},
	} {
		for _, s := range list {
			if p := s.Validate(); len(p) != 1 || p[0].Key != key {
				t.Errorf("%+v: %v, want a problem with %s", s, p, key)
			}
		}
	}
	cluster := with(func(s *ratelimit.Settings) { s.Scope = ratelimit.Cluster })
	if local := settings(1, 1); cluster.Traits().Redis != "scope" || local.Traits().Redis != "" {
		t.Error("what needs Redis is wrong")
	}
}

// TestDefaultBurst checks that the default burst is the rate rounded up.
func TestDefaultBurst(t *testing.T) {
	for rate, want := range map[float64]int64{0.001: 1, 1: 1, 1.5: 2, 100: 100} {
		if limit, _ := ask(ratelimit.New(settings(rate, 0), newClock().now), "", 1); limit.Quota != want {
			t.Errorf("rate %v: burst %d", rate, limit.Quota)
		}
	}
}

// build makes the plugin of one binding, as the server does.
func build(t testing.TB, env plugin.Env, b seqd.BizType, i int) seqd.Plugin {
	t.Helper()
	factory := must.Get(plugin.Lookup("rate-limit"))(t)
	return must.Get(factory.New(env, b, b.Plugins[i]))(t)
}

// bound returns a biz type with these rate limits.
func bound(list ...ratelimit.Settings) seqd.BizType {
	b := seqd.BizType{Name: "order"}
	for i := range list {
		b.Plugins = append(b.Plugins, seqd.PluginBinding{Name: "rate-limit", Order: 10, Settings: &list[i]})
	}
	return b
}

func TestBindingsDoNotShareBuckets(t *testing.T) {
	b := bound(settings(1, 3), settings(1, 5))
	env := plugin.Env{Now: newClock().now}
	first, second := build(t, env, b, 0), build(t, env, b, 1)
	if n, m := passes(first, "shop", 1), passes(second, "shop", 1); n != 3 || m != 5 {
		t.Errorf("%d and %d passed", n, m)
	}
	// The answer shows the tighter limit.
	call := &seqd.Call{BizType: "order", Count: 1, Caller: seqd.Caller{Name: "app"}}
	for _, p := range []seqd.Plugin{second, first} {
		must.Do(t, p.Before(t.Context(), call))
	}
	if call.Limit.Quota != 3 || call.Limit.Remaining != 2 {
		t.Errorf("%+v", call.Limit)
	}
}

func TestClusterNeedsRedis(t *testing.T) {
	s := settings(1, 1)
	s.Scope = ratelimit.Cluster
	b := bound(s)
	factory := must.Get(plugin.Lookup("rate-limit"))(t)
	if _, err := factory.New(plugin.Env{Now: time.Now}, b, b.Plugins[0]); err == nil {
		t.Error("it was made without Redis")
	}
}

// FuzzBefore checks that limits and waits are in range for all valid settings and times.
func FuzzBefore(f *testing.F) {
	f.Add(1.5, int64(0), 3, int64(1000), true)
	f.Add(1e-8, int64(1), 1, int64(-1), false)
	f.Add(1e9, int64(1e9), seqd.MaxCount, int64(1), true)
	f.Fuzz(func(t *testing.T, rate float64, burst int64, count int, step int64, number bool) {
		s := settings(rate, burst)
		if number {
			s.Per = ratelimit.PerNumber
		}
		if count < 1 || count > seqd.MaxCount || len(s.Validate()) > 0 {
			t.Skip()
		}
		c := newClock()
		p := ratelimit.New(s, c.now)
		const year = 367 * 24 * time.Hour
		for range 10 {
			limit, err := ask(p, "", count)
			if limit.Quota < 1 || limit.Remaining < 0 || limit.Remaining > limit.Quota || limit.Reset < 0 || limit.Reset > year {
				t.Fatalf("%+v: %+v", s, limit)
			}
			if err != nil && (err.RetryAfter < 0 || err.RetryAfter > year || (err.RetryAfter == 0) != (err.Code == seqd.CodeInvalidCount)) {
				t.Fatalf("%+v: %v, retry after %s", s, err, err.RetryAfter)
			}
			c.add(time.Duration(step % int64(year)))
		}
	})
}

func TestNoAllocation(t *testing.T) {
	p := ratelimit.New(settings(1e9, 1e9), time.Now)
	for _, caller := range []string{"", "shop"} {
		call := &seqd.Call{BizType: "order", Count: 1, Caller: seqd.Caller{Name: caller}}
		_ = p.Before(t.Context(), call)
		must.Equal(t, must.Allocs(1000, func() { _ = p.Before(context.Background(), call) }), 0, "%q: allocations", caller)
	}
}
