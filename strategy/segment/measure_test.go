package segment

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// gauges asks a measurer.
func gauges(t testing.TB, m seqd.Measurer) map[seqd.Gauge]float64 {
	t.Helper()
	got := make(map[seqd.Gauge]float64)
	m.Measure(func(v seqd.Measurement) {
		if _, twice := got[v.Gauge]; twice || v.Of != "" || math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			t.Errorf("%+v, told before: %t", v, twice)
		}
		got[v.Gauge] = v.Value
	})
	return got
}

// wantGauges compares those that are named; a missing one is NaN.
func wantGauges(t testing.TB, m seqd.Measurer, want map[seqd.Gauge]float64) {
	t.Helper()
	got := gauges(t, m)
	for gauge, value := range want {
		if v, told := got[gauge]; told == math.IsNaN(value) || told && math.Abs(v-value) > 1e-6*math.Abs(value) {
			t.Errorf("%s is %v (told: %t), want %v", gauge, v, told, value)
		}
	}
}

var missing = math.NaN()

func TestMeasureOwnBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newStrategy(t, memory.New(time.Now), func(s *Settings) { s.Start, s.Step, s.MaxStep = 101, 1000, 1000 })
		nothing := map[seqd.Gauge]float64{
			seqd.GaugeInHand: 0, seqd.GaugeFill: missing, seqd.GaugeStep: 0, seqd.GaugeHighest: missing, seqd.GaugeRate: 0, seqd.GaugeLimit: float64(seqd.MaxNumber),
			seqd.GaugePeriodLeft: missing,
		}
		wantGauges(t, s, nothing) // before Init
		start(t, s, true)
		wantGauges(t, s, nothing)
		generate(t, s, 100)
		synctest.Wait()
		wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugeInHand: 900, seqd.GaugeFill: 0.45, seqd.GaugeStep: 1000, seqd.GaugeHighest: 1100, seqd.GaugeRate: 0})
		generate(t, s, 100)
		synctest.Wait() // buffer 2 is full
		wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugeInHand: 1800, seqd.GaugeFill: 0.9, seqd.GaugeHighest: 2100, seqd.GaugeRate: 0})
		must.Do(t, s.Close(t.Context()))
		wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugeInHand: 0, seqd.GaugeFill: 0})
		s, _ = newStrategy(t, memory.New(time.Now), func(s *Settings) { s.Start = seqd.MaxNumber })
		start(t, s, true)
		generate(t, s, 1)
		wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugeInHand: 0, seqd.GaugeHighest: float64(seqd.MaxNumber)})
		_ = s.Close(t.Context())
	})
}

// use takes one number after another, each after a pause.
func use(t testing.TB, s seqd.Strategy, n int, pause time.Duration) {
	t.Helper()
	for range n {
		numbers(t, s, 1)
		time.Sleep(pause)
	}
	synctest.Wait()
}

// rate is what a strategy tells.
func rate(t testing.TB, m seqd.Measurer) float64 { return gauges(t, m)[seqd.GaugeRate] }

// between fails where a value is outside.
func between(t testing.TB, what string, got, low, high float64) {
	t.Helper()
	if !(got >= low && got <= high) {
		t.Errorf("%s: %v is outside %v to %v", what, got, low, high)
	}
}

// The rate is that of use, never that of filling buffers, and goes to 0 when nobody asks any more.
func TestRate(t *testing.T) {
	store := func() *memory.Store { return memory.New(time.Now) }
	for name, node := range map[string]func(t *testing.T) seqd.Strategy{
		"own buffer": func(t *testing.T) seqd.Strategy {
			s, _ := newStrategy(t, store(), func(s *Settings) { s.MaxStep = 1000 })
			start(t, s, true)
			return s
		},
		"cursor": func(t *testing.T) seqd.Strategy {
			s, _ := newShared(t, store(), &redisModel{}, func(s *Settings) { s.MaxStep = 1000 })
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := node(t)
				m := s.(seqd.Measurer)
				defer func() {
					must.Report(t, s.Close(t.Context()))
				}()
				for range 1200 { // 10 a second
					use(t, s, 1, 100*time.Millisecond)
					if got := rate(t, m); got > 12 {
						t.Fatalf("soon after the start the rate is %v", got)
					}
				}
				use(t, s, 3000, 100*time.Millisecond)
				between(t, "10 a second", rate(t, m), 8, 12)
				use(t, s, 1, time.Hour)
				between(t, "an hour later", rate(t, m), 0, 0.5)
				use(t, s, 1, 240*time.Hour)
				between(t, "ten days later", rate(t, m), 0, 0.005)
				for range 20 { // a burst an hour
					numbers(t, s, 9000)
					synctest.Wait()
					time.Sleep(time.Second)
					between(t, "after a burst", rate(t, m), 0, 30)
					time.Sleep(time.Hour)
				}
				between(t, "bursts, 2.5 a second", rate(t, m), 1, 6)
			})
		})
	}
}

// What other nodes take counts too, and a counter that is moved up does not.
func TestRateOverNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		var nodes []*Counter
		for i := range 3 {
			s, _ := newStrategy(t, store, func(s *Settings) { s.MaxStep = 1000 })
			start(t, s, i == 0)
			use(t, s, 333*i, 0) // they do not all fetch at the same time
			nodes = append(nodes, s)
		}
		all := func(n int) {
			for range n {
				for _, s := range nodes {
					numbers(t, s, 1)
				}
				time.Sleep(100 * time.Millisecond)
			}
			synctest.Wait()
		}
		all(5000)
		for _, s := range nodes {
			between(t, "30 a second", rate(t, s), 20, 40)
		}
		c := counter(t, store)
		c.Max += 1_000_000_000
		replace(t, store, c)
		all(5000)
		for _, s := range nodes {
			between(t, "after it was moved up", rate(t, s), 20, 40)
			must.Report(t, s.Close(t.Context()))
		}
	})
}

// TestPace: a store that was restored makes no rate of the numbers that are skipped.
func TestPace(t *testing.T) {
	var p pace
	p.allocated(time.Second, 0, 0)
	must.Equal(t, p.rate(2*time.Second, 5000, 1000), 0, "one allocation makes a rate of")
	p.allocated(101*time.Second, 1000, 0)
	between(t, "1000 in 100 s", p.rate(101*time.Second, 2000, 1000), 10, 10)
	p.allocated(105*time.Second, 2000, 0)
	between(t, "a burst", p.rate(105*time.Second, 3000, 1000), 19, 20)
	p.allocated(201*time.Second, 1_000_003_000, 1_000_000_000)
	between(t, "2000 in 100 s, and a gap", p.rate(201*time.Second, 1_000_004_000, 1000), 20, 20)
	p.allocated(30_201*time.Second, 1_000_003_100, 0)
	between(t, "a quiet night", p.rate(30_201*time.Second, 1_000_004_100, 1000), 0, 0.11)
	p.allocated(30_301*time.Second, 1_000_013_100, 0)
	between(t, "a busy morning", p.rate(30_301*time.Second, 1_000_014_100, 1000), 100, 100)
}

func TestMeasureCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		hundred := func(s *Settings) { s.Step, s.MaxStep, s.ReserveSegments = 100, 100, 0 }
		a, _ := newShared(t, store, redis, hundred)
		wantGauges(t, a, map[seqd.Gauge]float64{seqd.GaugeInHand: 0, seqd.GaugeStep: 0, seqd.GaugeFill: missing, seqd.GaugeHighest: missing, seqd.GaugeRate: 0})
		numbers(t, a, 20)
		synctest.Wait() // buffer 2 and a standby range of 100 are there
		standby := float64(over(a).machine.Measure().Standby)
		if standby < 1 {
			t.Fatal("there is no standby range")
		}
		wantGauges(t, a, map[seqd.Gauge]float64{seqd.GaugeStep: 100, seqd.GaugeLimit: float64(seqd.MaxNumber)})
		before := gauges(t, a)
		// Ranges that went elsewhere lie between the two buffers, where they came in between.
		between(t, "in hand", before[seqd.GaugeInHand]-standby, 180, 180+standby)
		between(t, "fill", before[seqd.GaugeFill], 0.9, 1)
		numbers(t, a, 30)
		wantGauges(t, a, map[seqd.Gauge]float64{seqd.GaugeInHand: before[seqd.GaugeInHand] - 30, seqd.GaugeFill: min(1, (before[seqd.GaugeInHand]-30-standby)/200)})

		b, _ := newShared(t, store, redis, hundred)
		wantGauges(t, b, map[seqd.Gauge]float64{seqd.GaugeInHand: 0}) // it has not looked yet
		b.prepare()
		synctest.Wait()
		wantGauges(t, b, map[seqd.Gauge]float64{seqd.GaugeInHand: before[seqd.GaugeInHand] - 30 - standby, seqd.GaugeHighest: float64(over(a).machine.Known(0).Ceil), seqd.GaugeStep: 0, seqd.GaugeFill: missing})
		redis.lose()
		gone := must.Get(redis.Take(t.Context(), rediscursor.Take{}))(t)
		over(b).machine.Took(time.Now(), time.Now(), 0, gone, nil)
		wantGauges(t, b, map[seqd.Gauge]float64{seqd.GaugeInHand: 0})
		closeAll(t, a, b)
	})
}

// While a node issues on its own it tells of its own buffer.
func TestMeasureOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		s, _ := newShared(t, memory.New(time.Now), redis, func(s *Settings) { s.Step, s.MaxStep = 100, 100 })
		numbers(t, s, 1)
		time.Sleep(2 * time.Second)
		redis.change(func(r *redisModel) { r.down = errDown })
		numbers(t, s, 1)
		synctest.Wait()
		local := over(s).local.Load()
		if local == nil {
			t.Fatal("the node does not issue on its own")
		}
		want := local.measure()
		wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugeInHand: float64(want.inHand), seqd.GaugeFill: want.fill, seqd.GaugeStep: 100})
		if want.inHand < 99 {
			t.Errorf("%d numbers in hand", want.inHand)
		}
		closeAll(t, s)
		wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugeInHand: 0})
	})
}

func TestMeasurePeriods(t *testing.T) {
	// midnight in Berlin, of a day that has 23 hours
	now := time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC)
	for reset, left := range map[seqd.Reset]time.Duration{
		seqd.ResetDaily: 23 * time.Hour, seqd.ResetMonthly: 71 * time.Hour, seqd.ResetYearly: 278 * 24 * time.Hour,
	} {
		t.Run(string(reset), func(t *testing.T) {
			s := periodic(t, memory.New(time.Now), func() time.Time { return now }, nil, func(s *Settings) { s.Reset, s.TimeZone = reset, "Europe/Berlin" })
			unopened := map[seqd.Gauge]float64{seqd.GaugePeriodLeft: left.Seconds(), seqd.GaugeInHand: missing}
			wantGauges(t, s, unopened)
			must.Do(t, s.Init(t.Context(), true))
			numbers(t, s, 1)
			if k := memos(s); len(k) != 1 || k[0].Name != (counters.Name{Period: s.Calendar.Now(now)}) || k[0].Known.issued != 1 {
				t.Errorf("known are %+v", k)
			}
			wantGauges(t, s, map[seqd.Gauge]float64{
				seqd.GaugePeriodLeft: left.Seconds(), seqd.GaugeInHand: 999, seqd.GaugeStep: 1000, seqd.GaugeHighest: 1000, seqd.GaugeLimit: float64(seqd.MaxNumber),
			})
			must.Report(t, s.Close(t.Context()))
			wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugePeriodLeft: left.Seconds(), seqd.GaugeInHand: 0})
		})
	}
}

// Measuring disturbs nobody, and nobody disturbs it.
func TestMeasureWhileInUse(t *testing.T) {
	store := memory.New(time.Now)
	own, _ := newStrategy(t, store, small)
	start(t, own, true)
	shared, _ := newShared(t, memory.New(time.Now), &redisModel{}, small)
	periods := periodic(t, memory.New(time.Now), time.Now, nil, daily)
	for _, s := range []seqd.Strategy{own, shared, periods} {
		var users, measuring sync.WaitGroup
		over := make(chan struct{})
		measuring.Go(func() {
			for last := 0.0; ; {
				got := gauges(t, s.(seqd.Measurer))
				if got[seqd.GaugeHighest] < last {
					t.Errorf("the highest number went down from %v to %v", last, got[seqd.GaugeHighest])
				}
				last = got[seqd.GaugeHighest]
				select {
				case <-over:
					return
				default:
				}
			}
		})
		for range 4 {
			users.Go(func() {
				for range 200 {
					numbers(t, s, 3)
				}
			})
		}
		users.Wait()
		must.Report(t, s.Close(context.Background()))
		close(over)
		measuring.Wait()
	}
}

// Numbers that nobody used, because the counter was raised or restored, do not count.
func TestRateAfterAJump(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s ranges
		s.keepPace(0, 0, persist.Range{First: 1, Last: 100})
		time.Sleep(20 * time.Second)
		s.keepPace(150, 1150, persist.Range{First: 1151, Last: 1250}) // a gap of 1,000 above what was read
		must.Equal(t, s.pace.rate(paceNow(), 1250, 100), 7.5, "the rate of 150 numbers in 20 s")
		time.Sleep(20 * time.Second)
		s.keepPace(1500, 1350, persist.Range{First: 1351, Last: 1450}) // others have returned some meanwhile
		must.Equal(t, s.pace.rate(paceNow(), 1450, 100), 10, "the rate of 200 numbers in 20 s")
	})
}
