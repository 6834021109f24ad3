package segment

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// clock is one that tests turn.
type clock struct{ ms atomic.Int64 }

func clockAt(text string) *clock {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	c := &clock{}
	c.ms.Store(t.UnixMilli())
	return c
}

func (c *clock) Now() time.Time       { return time.UnixMilli(c.ms.Load()) }
func (c *clock) turn(d time.Duration) { c.ms.Add(d.Milliseconds()) }
func (c *clock) set(text string)      { c.ms.Store(clockAt(text).ms.Load()) }

func daily(s *Settings) { s.Reset, s.Step, s.MaxStep = seqd.ResetDaily, 10, 10 }

var redisMu sync.Mutex // guards the map of cursors that nodes share

// periodic is a node whose numbers are reset. redis, where it is not nil, gives the cursor of
// each counter.
func periodic(t testing.TB, store persist.Store, now func() time.Time, redis map[string]*redisModel, change func(*Settings)) *family {
	t.Helper()
	settings := usual()
	change(&settings)
	validate(t, &settings)
	env := strategy.Env{Store: store, Now: now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, Addr: fmt.Sprint(rand.Int())}
	return newFamily(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, &settings, func(env strategy.Env, b seqd.BizType, _ string, part *part) (*Counter, error) {
		if redis == nil {
			c, err := New(env, b)
			c.part = part
			return c, err
		}
		redisMu.Lock()
		defer redisMu.Unlock()
		if redis[b.Name] == nil {
			redis[b.Name] = &redisModel{}
		}
		o, err := originOf(env, b, b.Name)
		o.part = part
		return newSequenced(o, redis[b.Name]), err
	})
}

// watched lets a counter be one of a period. gone returns why that is no longer there.
func watched(c *Counter, gone func() error) {
	if c.part == nil {
		c.part = &part{family: &family{settings: &Settings{}}}
	}
	c.part.period = 20260101
	c.part.family.purger.Calendar = &counters.Calendar{}
	c.part.family.purger.Base = &counters.Base{
		Env: &strategy.Env{Store: goneStore{gone: gone}}, BizType: &seqd.BizType{Name: "order"}, Settings: &counters.Settings{},
	}
}

// goneStore has no documents, or says why they cannot be read.
type goneStore struct {
	persist.Store
	gone func() error
}

func (s goneStore) Documents() persist.Documents { return goneDocuments{gone: s.gone} }

type goneDocuments struct {
	persist.Documents
	gone func() error
}

func (s goneDocuments) Read(context.Context, string, string) (persist.Document, error) {
	return persist.Document{}, cmp.Or(s.gone(), persist.ErrNotFound)
}

// purged is the error of a period that was removed.
func purged() error { return &seqd.Error{Code: seqd.CodeClockRollback, Err: counters.ErrPurged} }

// dated asks for n numbers, which must come, and returns them with their period before each.
func dated(t testing.TB, s *family, n int) string {
	t.Helper()
	var seq seqd.Sequence
	must.Do(t, s.Generate(t.Context(), n, &seq))
	return fmt.Sprint(seq.Period().String(), slices.Collect(seq.Numbers()))
}

func wantDated(t testing.TB, s *family, n int, want string) {
	t.Helper()
	must.Equal(t, dated(t, s, n), want)
}

func wantRefused(t testing.TB, s *family, want seqd.Code) {
	t.Helper()
	var seq seqd.Sequence
	must.Code(t, s.Generate(t.Context(), 1, &seq), want, "got %v and", slices.Collect(seq.Numbers()))
}

func closed(t testing.TB, s *family) {
	t.Helper()
	must.Report(t, s.Close(context.WithoutCancel(t.Context())))
}

func TestNumbersBeginAgain(t *testing.T) {
	store, c := memory.New(time.Now), clockAt("2026-11-20T15:59:59Z")
	shanghai := func(s *Settings) { daily(s); s.Start, s.TimeZone = 100, "Asia/Shanghai" }
	s := periodic(t, store, c.Now, nil, shanghai)
	must.Do(t, s.Init(t.Context(), true))
	wantDated(t, s, 3, "2026-11-20[100 101 102]")
	c.turn(time.Second)
	wantDated(t, s, 2, "2026-11-21[100 101]")
	c.turn(-time.Second)
	wantDated(t, s, 1, "2026-11-20[103]")
	for range 2 {
		closed(t, s)
	}
	wantRefused(t, s, seqd.CodeStopping)
	if s.Go(func() { t.Error("it runs after Close") }) || counters.Pause(s.Running, time.Hour) {
		t.Error("it goes on after Close")
	}

	// The next start continues where this one stopped, in either period.
	s = periodic(t, store, c.Now, nil, shanghai)
	wantDated(t, s, 1, "2026-11-20[104]")
	c.turn(time.Second)
	wantDated(t, s, 1, "2026-11-21[102]")
	must.Equal(t, s.Details()["period"], "2026-11-21", "the details say")
	closed(t, s)
}

func TestMonthsAndYears(t *testing.T) {
	for reset, want := range map[seqd.Reset][]string{
		seqd.ResetMonthly: {"2026-11[1]", "2026-11[2]", "2026-12[1]", "2027-01[1]", "2027-12[1]", "2028-01[1]"},
		seqd.ResetYearly:  {"2026[1]", "2026[2]", "2026[3]", "2027[1]", "2027[2]", "2028[1]"},
	} {
		c := clockAt("2026-11-01T00:00:00Z")
		s := periodic(t, memory.New(time.Now), c.Now, nil, func(s *Settings) { s.Reset = reset })
		var got []string
		for _, at := range []string{"2026-11-01T00:00:00Z", "2026-11-30T23:59:59Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-12-31T23:59:59Z", "2028-01-01T00:00:00Z"} {
			c.set(at)
			got = append(got, dated(t, s, 1))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", reset, got, want)
		}
		closed(t, s)
	}
}

// The period that numbers get is the one that the calendar says, at every time of the days on which
// clocks are changed, years end, or a day is missing.
func TestDaysOfTimeZones(t *testing.T) {
	for zone, from := range map[string]string{
		"America/New_York":  "2026-10-30T00:00:00Z", // an hour twice, on November 1st
		"America/Sao_Paulo": "2018-11-02T00:00:00Z", // no midnight on November 4th
		"America/Havana":    "2026-10-30T00:00:00Z", // midnight twice
		"Pacific/Apia":      "2011-12-28T00:00:00Z", // no December 30th
		"Asia/Shanghai":     "2026-12-30T00:00:00Z",
		"Africa/Cairo":      "2026-04-22T00:00:00Z",
		"UTC":               "2027-12-30T00:00:00Z",
	} {
		c := clockAt(from)
		s := periodic(t, memory.New(time.Now), c.Now, nil, func(s *Settings) { daily(s); s.TimeZone, s.PeriodRetention = zone, 0 })
		location := must.Get(time.LoadLocation(zone))(t)
		for end := c.Now().Add(5 * 24 * time.Hour); c.Now().Before(end); c.turn(longtest.Or(11*time.Minute+time.Second, 61*time.Second)) {
			got, want := dated(t, s, 1), c.Now().In(location).Format("2006-01-02[")
			if !strings.HasPrefix(got, want) {
				t.Fatalf("%s at %s: %s", zone, c.Now().In(location), got)
			}
		}
		closed(t, s)
	}
}

// listed are the counters and claims that the store holds.
func listed(t testing.TB, store persist.Store) (counters, claims []string) {
	t.Helper()
	all := must.Get(store.Counters().List(t.Context(), "", 1000))(t)
	for _, c := range all {
		counters = append(counters, c.BizTag)
	}
	periods := must.Get(store.Documents().List(t.Context(), persist.PeriodKind, "", 1000))(t)
	for _, c := range periods {
		claims = append(claims, c.Key)
	}
	return counters, claims
}

func TestPastPeriodsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		// none of them a period's
		for _, name := range []string{"order", "order@2025", "order@20250101x", "orders@20250101", "other@20250101"} {
			must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: name, Step: 1}))
		}
		before, _ := listed(t, store)
		s := periodic(t, store, time.Now, nil, func(s *Settings) { daily(s); s.PeriodRetention = 48 * time.Hour })
		for range 250 { // 2000-01-01 is the first day in a bubble
			numbers(t, s, 1)
			time.Sleep(24 * time.Hour)
		}
		numbers(t, s, 1)
		time.Sleep(counters.PurgeDelay + time.Second)
		synctest.Wait()
		want := append(before[:1:1], "order@20000905", "order@20000906", "order@20000907")
		want = append(want, before[1:]...)
		slices.Sort(want)
		counters, claims := listed(t, store)
		if !slices.Equal(counters, want) || !slices.Equal(claims, []string{"order@20000905", "order@20000906", "order@20000907"}) {
			t.Errorf("the store holds the counters %v and the claims %v", counters, claims)
		}
		mark := must.Get(store.Documents().Read(t.Context(), persist.PurgedKind, "order"))(t)
		must.Equal(t, must.Get(persist.PurgedPeriod(mark))(t), 20000904, "removed up to")
		closed(t, s)

		// A clock that was set back to a day that was removed, or to the last one: that does not
		// begin again.
		for _, days := range []int{3, 100, 300} {
			s = periodic(t, store, func() time.Time { return time.Now().AddDate(0, 0, -days) }, nil, daily)
			wantRefused(t, s, seqd.CodeClockRollback)
			must.Code(t, s.Health(), seqd.CodeClockRollback, "%d days: healthy, or not for that reason", days)
			closed(t, s)
		}
		// One that was set back less continues there.
		s = periodic(t, store, func() time.Time { return time.Now().AddDate(0, 0, -2) }, nil, daily)
		wantDated(t, s, 1, "2000-09-05[2]")
		closed(t, s)
	})
}

// Numbers that are reset by month or year, and were by day before, begin in a month whose first
// days were removed. That month is removed only under a tombstone that keeps it from beginning
// again.
func TestTombstoneOfAnotherReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		short := func(reset seqd.Reset) func(*Settings) {
			return func(s *Settings) { daily(s); s.Reset, s.PeriodRetention = reset, 48*time.Hour }
		}
		s := periodic(t, store, time.Now, nil, short(seqd.ResetDaily))
		for range 10 {
			numbers(t, s, 1)
			time.Sleep(24 * time.Hour)
		}
		closed(t, s)
		for _, reset := range []seqd.Reset{seqd.ResetYearly, seqd.ResetMonthly} {
			s = periodic(t, store, time.Now, nil, short(reset))
			numbers(t, s, 1)
			if reset == seqd.ResetYearly {
				closed(t, s)
			}
		}
		for range 100 {
			numbers(t, s, 1)
			time.Sleep(24 * time.Hour)
		}
		closed(t, s)
		january := func() time.Time { return time.Date(2000, 1, 20, 0, 0, 0, 0, time.UTC) }
		s = periodic(t, store, january, nil, short(seqd.ResetMonthly))
		if counters, _ := listed(t, store); slices.Contains(counters, "order@200001") {
			t.Errorf("the month was not removed: %v", counters)
		}
		wantRefused(t, s, seqd.CodeClockRollback)
		closed(t, s)
	})
}

// A node whose clock is years ahead takes the present for long past: it removes nothing.
func TestClockAheadRemovesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		s := periodic(t, store, time.Now, nil, daily)
		wantDated(t, s, 1, "2000-01-01[1]")
		ahead := periodic(t, store, func() time.Time { return time.Now().AddDate(5, 0, 0) }, nil, daily)
		wantDated(t, ahead, 1, "2005-01-01[1]")
		time.Sleep(counters.PurgeDelay + time.Second)
		synctest.Wait()
		if counters, _ := listed(t, store); !slices.Equal(counters, []string{"order@20000101", "order@20050101"}) {
			t.Errorf("the store holds %v", counters)
		}
		closed(t, s)
		closed(t, ahead)
	})
}

// A node with an old clock looks at the tombstone, is paused while the period is removed, and then
// creates the counter: it must not issue.
func TestRemovedWhileItBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		used := periodic(t, store, time.Now, nil, daily)
		wantDated(t, used, 5, "2000-01-01[1 2 3 4 5]")
		closed(t, used)
		// as if the crash came right after the first range
		must.Do(t, store.Documents().Delete(t.Context(), persist.PeriodKind, "order@20000101", 1))
		must.Do(t, store.Counters().Delete(t.Context(), "order@20000101"))
		between := newHooked()
		between.Store = store
		between.before = func(op string) error {
			if op == "create" {
				must.Report(t, store.Documents().Create(t.Context(), persist.PurgedDocument("order", 20000101, 1, 0)))
			}
			return nil
		}
		late := periodic(t, between, time.Now, nil, daily)
		wantRefused(t, late, seqd.CodeClockRollback)
		closed(t, late)
	})
}

// The next period is prepared in time, to the millisecond.
func TestPreparedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := memory.New(time.Now), clockAt("2026-11-20T23:54:00Z")
		s := periodic(t, store, c.Now, nil, daily)
		wantDated(t, s, 1, "2026-11-20[1]")
		at := s.view.Load().prepare.Load()
		for _, step := range []struct{ ms, counters int64 }{{at - 1, 1}, {at, 2}} {
			c.ms.Store(step.ms)
			dated(t, s, 1)
			synctest.Wait()
			if counters, _ := listed(t, store); int64(len(counters)) != step.counters {
				t.Errorf("%d ms before its time there are %v", at-step.ms, counters)
			}
		}
		closed(t, s)
	})
}

// The store goes away a minute before midnight: the next day has begun in advance, on a node that
// was asked for numbers.
func TestStoreAwayAtMidnight(t *testing.T) {
	for name, redis := range map[string]map[string]*redisModel{"per node": nil, "strict": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newHooked()
				s := periodic(t, store, time.Now, redis, daily)
				time.Sleep(24*time.Hour - ahead/5)
				wantDated(t, s, 1, "2000-01-01[1]")
				time.Sleep(time.Second)
				wantDated(t, s, 1, "2000-01-01[2]")
				time.Sleep(time.Second)
				synctest.Wait()
				store.change(func(h *hookedStore) { h.before = func(string) error { return errDown } })
				time.Sleep(ahead)
				wantDated(t, s, 3, "2000-01-02[1 2 3]")
				closeBestEffort(s)
			})
		})
	}
}

func closeBestEffort(s *family) { _ = s.Close(context.Background()) }

// A period that cannot begin now begins as soon as the store is back, and the node says meanwhile
// that it cannot issue.
func TestPeriodBeginsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s := periodic(t, store, time.Now, nil, daily)
		if err := s.Init(t.Context(), true); err != nil || s.Health() != nil {
			t.Fatal(err, s.Health())
		}
		time.Sleep(24 * time.Hour)
		store.fails("read", persist.ErrUnavailable)
		must.Equal(t, s.Health(), nil, "health before anybody has asked")
		for range 3 {
			wantRefused(t, s, seqd.CodeStoreUnavailable)
		}
		must.Code(t, s.Health(), seqd.CodeStoreUnavailable, "health is")
		store.fails("read", nil)
		time.Sleep(openPause)
		synctest.Wait() // it is opened again, although nobody asks
		s.Forget(counters.Name{Period: 20000102})
		synctest.Wait()
		if _, open := s.Peek(counters.Name{Period: 20000102}); open {
			t.Error("who opened the period again still uses it")
		}
		wantDated(t, s, 1, "2000-01-02[1]")
		if s.Health() != nil || s.Degraded() != nil {
			t.Error(s.Health(), s.Degraded())
		}
		closed(t, s)
	})
}

// A store that hangs costs a caller acquireTimeout or its own patience, and Close does not wait for
// it.
func TestPeriodThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		store.hangs("read")
		s := periodic(t, store, time.Now, nil, daily)
		began := time.Now()
		wantRefused(t, s, seqd.CodeTimeout)
		must.Equal(t, time.Since(began), s.settings.AcquireTimeout, "it waited")
		if _, err := s.openPresent(t.Context()); err == nil || !strings.Contains(err.Error(), "the period 2000-01-01 did not begin") {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		must.Is(t, s.Generate(ctx, 1, &seqd.Sequence{}), context.DeadlineExceeded)
		began = time.Now()
		closed(t, s)
		must.Equal(t, time.Since(began), 0, "Close waited")
		var work sync.WaitGroup
		work.Add(1)
		must.Is(t, ended(expired(t, time.Second), &work), context.DeadlineExceeded)
		work.Done()
	})
}

// A period that was closed is opened again if the clock comes back to it. Numbers of every kind are
// of the period.
func TestPeriodIsOpenedAgain(t *testing.T) {
	c := clockAt("2026-11-20T12:00:00Z")
	s := periodic(t, memory.New(time.Now), c.Now, nil, daily)
	wantDated(t, s, 2, "2026-11-20[1 2]")
	if !s.Idle() {
		t.Error("it is not idle")
	}
	s.Forget(counters.Name{Period: s.view.Load().Period})
	await.True(t, "the period is closed", func() bool { return s.Len() == 0 })
	wantDated(t, s, 2, "2026-11-20[3 4]")
	var seq seqd.Sequence
	if err := s.GenerateSome(t.Context(), 2, &seq); err != nil || seq.Len() != 2 || seq.Period() != 20261120 {
		t.Errorf("%v of %s, %v", seq.Runs(), seq.Period(), err)
	}
	closed(t, s)
}
