package segment

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// A node on its own whose clock goes days ahead and comes back remembers what it issued of a day,
// however soon it is back.
func TestRetiredPeriodKeepsItsGuard(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Millisecond, time.Second, time.Minute} {
		for _, days := range []int{mostSpans, 3, 10} {
			synctest.Test(t, func(t *testing.T) { testRetired(t, pause, days) })
		}
	}
}

func testRetired(t *testing.T, pause time.Duration, days int) {
	c, redis := clockAt("2026-11-20T12:00:00Z"), map[string]*redisModel{}
	s := periodic(t, slowToTakeBack{memory.New(time.Now)}, c.Now, redis, func(s *Settings) { daily(s); s.Step, s.MaxStep = 100, 100 })
	defer closed(t, s)
	day := seqd.ResetDaily.Of(c.Now())
	wantDated(t, s, 3, "2026-11-20[1 2 3]")
	time.Sleep(time.Minute) // for a standby range
	away := func(err error) { redis[day.Counter("order")].change(func(r *redisModel) { r.down = err }) }
	away(errDown)
	last := number(t, s, day)
	if last <= 100 {
		t.Fatalf("got %d: the node is not on its own", last)
	}
	for range days {
		c.turn(24 * time.Hour)
		dated(t, s, 1)
	}
	time.Sleep(pause)
	away(nil)
	c.turn(-time.Duration(days) * 24 * time.Hour)
	for range 3 {
		n := number(t, s, day)
		if n <= last {
			t.Errorf("%d days ahead and back after %v: got %d after %d", days, pause, n, last)
		}
		last = n
		time.Sleep(time.Second)
	}
}

// slowToTakeBack is a store that takes a second for numbers that are given back, so that a period
// is closed for as long.
type slowToTakeBack struct{ persist.Store }

type slowCounters struct{ persist.Counters }

func (s slowToTakeBack) Counters() persist.Counters { return slowCounters{s.Store.Counters()} }

func (s slowCounters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	time.Sleep(time.Second)
	return s.Counters.GiveBack(ctx, bizTag, r)
}

// number asks for one number, which must be of a period.
func number(t *testing.T, s *family, p seqd.Period) int64 {
	t.Helper()
	var seq seqd.Sequence
	if err := s.Generate(t.Context(), 1, &seq); err != nil || seq.Period() != p {
		t.Fatalf("a number of %v: %v, want one of %v", seq.Period(), err, p)
	}
	return seq.First()
}

// What is known of past periods is bounded.
func TestKnownPeriodsAreBounded(t *testing.T) {
	c := clockAt("2026-11-22T09:00:00Z")
	s := periodic(t, memory.New(time.Now), c.Now, nil, daily)
	for range 3 * knownPeriods {
		dated(t, s, 1)
		c.turn(24 * time.Hour)
	}
	closed(t, s)
	if n := len(s.Memory.All()); n < knownPeriods || n >= 2*knownPeriods {
		t.Errorf("a biz type remembers %d periods", n)
	}
}

// A clock that is a century off makes no period: its date of two digits would be that of another
// one. The node says what is wrong, and continues when the clock is right.
func TestOtherCenturies(t *testing.T) {
	for _, reset := range []seqd.Reset{seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly} {
		store, c := memory.New(time.Now), clockAt("2126-11-22T09:00:00Z")
		s := periodic(t, store, c.Now, nil, func(s *Settings) { s.Reset = reset })
		if err := s.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeClockRollback || !strings.Contains(err.Error(), "that it is 2126") {
			t.Errorf("%s begins with %v", reset, err)
		}
		wantRefused(t, s, seqd.CodeClockRollback)
		must.Code(t, s.Health(), seqd.CodeClockRollback, "%s: health", reset)
		c.set("2026-11-22T09:00:00Z")
		dated(t, s, 1)
		if err := s.Health(); err != nil {
			t.Errorf("%s: health %v", reset, err)
		}
		c.set("1999-12-31T23:59:59Z")
		wantRefused(t, s, seqd.CodeClockRollback)
		closed(t, s)
		if counters, _ := listed(t, store); len(counters) != 1 {
			t.Errorf("%s made the counters %v", reset, counters)
		}
	}
}

// reopens runs test with a node whose periods are days, until a time relative to the first
// midnight, and a store that is away while down is set. After that the store is back, and the node
// must be healthy soon although nobody asks it: a node that is not ready gets no requests.
func reopens(t *testing.T, test func(t *testing.T, s *family, until func(time.Duration), down *atomic.Bool)) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		midnight := time.Now().Add(24 * time.Hour)
		store := newHooked()
		store.before = func(op string) error {
			if op == "read" && down.Load() {
				return persist.ErrUnavailable
			}
			return nil
		}
		s := periodic(t, store, time.Now, nil, daily)
		until := func(d time.Duration) { time.Sleep(time.Until(midnight.Add(d))) }
		test(t, s, until, &down)
		down.Store(false)
		time.Sleep(2 * cursor.LastPause)
		until(0)
		if err := s.Health(); err != nil {
			t.Errorf("the store is back, and health is %v", err)
		}
		closed(t, s)
	})
}

// The store is away while the next period is prepared. It is back before that begins.
func TestPreparedPeriodReopens(t *testing.T) {
	reopens(t, func(t *testing.T, s *family, until func(time.Duration), down *atomic.Bool) {
		until(-time.Hour)
		wantDated(t, s, 1, "2000-01-01[1]")
		until(-time.Minute)
		down.Store(true)
		wantDated(t, s, 1, "2000-01-01[2]") // which has the next period prepared
		until(-30 * time.Second)
	})
}

// Only the present period and the next one, while it is prepared, are opened again, and only if the
// reason may pass. What failed of others is forgotten.
func TestDue(t *testing.T) {
	away, lost := seqd.Errorf(seqd.CodeStoreUnavailable, "away"), seqd.Errorf(seqd.CodeConflict, "lost")
	for _, test := range []struct {
		at        string
		why       *seqd.Error
		due, kept []seqd.Period
	}{
		{"2026-11-22T12:00:00Z", away, []seqd.Period{20261122}, []seqd.Period{20261122}},
		{"2026-11-22T23:58:00Z", away, []seqd.Period{20261122, 20261123}, []seqd.Period{20261122, 20261123}},
		{"2026-11-22T23:58:00Z", lost, nil, []seqd.Period{20261122, 20261123}},
		{"2026-11-25T12:00:00Z", away, nil, nil},
	} {
		c := clockAt(test.at)
		s := periodic(t, memory.New(time.Now), c.Now, nil, daily)
		s.again, s.failed = true, make(map[seqd.Period]failedOpening)
		for _, p := range []seqd.Period{20261121, 20261122, 20261123} {
			s.failed[p] = failedOpening{test.why, time.Now()}
		}
		due := s.due()
		slices.Sort(due)
		kept := slices.Sorted(maps.Keys(s.failed))
		if !slices.Equal(due, test.due) || !slices.Equal(kept, test.kept) || s.again != (len(due) > 0) {
			t.Errorf("%s, %v: due are %v, known %v, again %t", test.at, test.why, due, kept, s.again)
		}
		closed(t, s)
	}
}

// The store is away from before midnight until after it: neither period can be opened.
func TestNextPeriodReopens(t *testing.T) {
	reopens(t, func(t *testing.T, s *family, until func(time.Duration), down *atomic.Bool) {
		until(-time.Minute)
		down.Store(true)
		wantRefused(t, s, seqd.CodeStoreUnavailable)
		until(time.Millisecond) // the next look at the first one is still to come
		wantRefused(t, s, seqd.CodeStoreUnavailable)
		until(time.Minute)
	})
}
