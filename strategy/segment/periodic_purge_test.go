package segment

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// tombstoneHook runs something once, just after the tombstone was read.
type tombstoneHook struct {
	persist.Store
	once *sync.Once
	f    func()
}

type tombstoneHookDocuments struct {
	persist.Documents
	h tombstoneHook
}

func (h tombstoneHook) Documents() persist.Documents {
	return tombstoneHookDocuments{h.Store.Documents(), h}
}

func (d tombstoneHookDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	doc, err := d.Documents.Read(ctx, kind, key)
	if kind == persist.PurgedKind {
		d.h.once.Do(d.h.f)
	}
	return doc, err
}

// U1: a node that opens a period while another purges it re-creates its counter before it sees the
// tombstone, and leaves it there. A third node, which has the period open and has taken nothing of
// it yet, then gets numbers that were issued.
func TestPurgedPeriodStaysGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		short := func(s *Settings) { daily(s); s.PeriodRetention = 48 * time.Hour }
		day1 := periodic(t, store, time.Now, nil, short)
		wantDated(t, day1, 3, "2000-01-01[1 2 3]")
		closed(t, day1)

		time.Sleep(3 * 24 * time.Hour)
		late := func() time.Time { return time.Now().AddDate(0, 0, -3) }
		idle := periodic(t, store, late, nil, short) // C: opens 2000-01-01, takes nothing yet
		must.Do(t, idle.Init(t.Context(), false))
		right := periodic(t, store, time.Now, nil, short) // B: purges
		opening := periodic(t, tombstoneHook{store, new(sync.Once), func() {
			// A has looked at the tombstone and not yet at the claim.
			must.Report(t, must.Err(right.purger.Purge(context.Background(), right.forget)))
		}}, late, nil, short)
		wantRefused(t, opening, seqd.CodeClockRollback)
		claimed := must.Err(store.Documents().Read(t.Context(), persist.PeriodKind, counters.Name{Period: 20000101}.Counter("order")))
		must.Is(t, claimed, persist.ErrNotFound, "the period is claimed again")

		var seq seqd.Sequence
		err := idle.Generate(t.Context(), 3, &seq)
		if err == nil {
			t.Errorf("%s %v was issued again", seq.Period(), slices.Collect(seq.Numbers()))
		}
		closed(t, idle)
		closed(t, right)
		closed(t, opening)
	})
}

// Nothing is removed unless periodRetention says so.
func TestPeriodsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, kept := memory.New(time.Now), func(s *Settings) { daily(s); s.PeriodRetention = 0 }
		periods, ofKeys := periodic(t, store, time.Now, nil, kept), keyed(t, store, time.Now, nil, kept)
		for range 4 {
			dated(t, periods, 1)
			wantOf(t, ofKeys, "a", 1, "[1]")
			time.Sleep(24 * time.Hour)
		}
		closed(t, periods)
		closed(t, ofKeys)
		if counters, _ := listed(t, store); len(counters) != 12 { // of periods, of keys and of their places
			t.Errorf("%v are left", counters)
		}
	})
}

// Whichever operation of the store fails, a purge says so, and the next one removes what is left.
func TestPurgeThatFails(t *testing.T) {
	short := func(s *Settings) { daily(s); s.PeriodRetention = 48 * time.Hour }
	var forgotten atomic.Int64
	counted := func(f *family) {
		open := f.open
		f.open = func(env strategy.Env, b seqd.BizType, owner string, part *part) (*Counter, error) {
			c, err := open(env, b, owner, part)
			c.cursor = dropped(func(context.Context) error { forgotten.Add(1); return nil })
			return c, err
		}
	}
	purge := func(t *testing.T, store persist.Store, keys bool) (removed int, err error) {
		if keys {
			s := keyed(t, store, time.Now, nil, short)
			defer closed(t, s)
			counted(s)
			return s.purger.Purge(t.Context(), s.forget)
		}
		s := periodic(t, store, time.Now, nil, short)
		defer closed(t, s)
		counted(s)
		return s.purger.Purge(t.Context(), s.forget)
	}
	for _, keys := range []bool{false, true} {
		for fails, failed := 1, true; failed; fails++ {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New(time.Now)
				forgotten.Store(0)
				periods := periodic(t, store, time.Now, nil, daily)
				ofKeys := keyed(t, store, time.Now, nil, daily)
				for range 2 {
					dated(t, periods, 1)
					wantOf(t, ofKeys, "a", 1, "[1]")
					time.Sleep(24 * time.Hour)
				}
				closed(t, periods)
				closed(t, ofKeys)
				time.Sleep(48 * time.Hour)
				failing := &chaos{Store: store, fails: fails}
				removed, err := purge(t, failing, keys)
				failed = failing.calls >= fails
				if errors.Is(err, persist.ErrUnavailable) != failed {
					t.Errorf("keys %t, operation %d fails: %d are removed, %v", keys, fails, removed, err)
				}
				if n := forgotten.Load(); !failed && n != 2 {
					t.Errorf("keys %t: what is outside the store is forgotten of %d counters", keys, n)
				}
				more, err := purge(t, store, keys)
				counters, claims := listed(t, store)
				left, name := 0, map[bool]string{false: "order@", true: "invoice/"}[keys]
				for _, of := range append(counters, claims...) {
					if strings.HasPrefix(of, name) {
						left++
					}
				}
				if err != nil || left > 0 || removed+more == 0 {
					t.Errorf("keys %t, operation %d failed: %d are left, %d and %d removed, %v", keys, fails, left, removed, more, err)
				}
			})
		}
	}
}

// After Close, even one that ran out of time, nothing is issued. Other strategies keep to that.
func TestPeriodsCloseOutOfTime(t *testing.T) {
	store, c := memory.New(time.Now), clockAt("2026-11-20T12:00:00Z")
	s := periodic(t, store, c.Now, nil, daily)
	wantDated(t, s, 1, "2026-11-20[1]")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Whether it is out of time is decided by a race in select; a goroutine under way decides it.
	release := make(chan struct{})
	s.Go(func() { <-release })
	err := s.Close(ctx)
	close(release)
	var seq seqd.Sequence
	if again := s.Generate(t.Context(), 1, &seq); again == nil {
		t.Errorf("Close returned %v, and then %s %v was issued", err, seq.Period(), slices.Collect(seq.Numbers()))
	}
}

// On a store whose clock is that of the node (bolt, memory), a clock that was ahead for a moment
// removes the present period's counter, and buries it: with reset: yearly the biz type is refused
// for the rest of the year.
func TestClockAheadForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clockAt("2026-02-01T12:00:00Z")
		store := memory.New(c.Now)
		yearly := func(s *Settings) { daily(s); s.Reset = seqd.ResetYearly }
		s := periodic(t, store, c.Now, nil, yearly)
		wantDated(t, s, 1, "2026[1]")
		c.set("2028-02-01T12:00:00Z")
		wantDated(t, s, 1, "2028[1]")
		synctest.Wait()
		closed(t, s)
		c.set("2026-02-01T12:00:05Z") // ntpd is back
		s = periodic(t, store, c.Now, nil, yearly)
		for range 10 {
			c.turn(30 * 24 * time.Hour)
			var seq seqd.Sequence
			if err := s.Generate(t.Context(), 1, &seq); err != nil {
				t.Errorf("%s: %v", c.Now().UTC().Format(time.DateOnly), err)
			}
			time.Sleep(time.Second)
		}
		closed(t, s)
	})
}

// claimsFail lets deleting a claim fail once.
type claimsFail struct {
	persist.Store
	once *sync.Once
}
type claimsFailing struct {
	persist.Documents
	once *sync.Once
}

func (s claimsFail) Documents() persist.Documents {
	return claimsFailing{s.Store.Documents(), s.once}
}
func (s claimsFailing) Delete(ctx context.Context, kind, key string, revision int64) error {
	err := errors.New("away")
	s.once.Do(func() { key = "" })
	if key == "" {
		return err
	}
	return s.Documents.Delete(ctx, kind, key, revision)
}

// A purge that was cut off between counter and claim leaves the claim for ever.
func TestPurgeThatWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		short := func(s *Settings) { daily(s); s.PeriodRetention = 48 * time.Hour }
		s := periodic(t, claimsFail{store, new(sync.Once)}, time.Now, nil, short)
		for range 20 {
			dated(t, s, 1)
			time.Sleep(24 * time.Hour)
		}
		dated(t, s, 1)
		time.Sleep(counters.PurgeDelay + time.Second)
		counters, claims := listed(t, store)
		if slices.Contains(claims, "order@20000101") {
			t.Errorf("counters %v, claims %v", counters, claims)
		}
		closed(t, s)
	})
}

// One lost period is a conflict, which the issuer takes for final: the biz type is refused also
// when the next period has begun.
func TestLostPeriodStopsNoOther(t *testing.T) {
	store, c := memory.New(time.Now), clockAt("2026-11-20T12:00:00Z")
	s := periodic(t, store, c.Now, nil, daily)
	wantDated(t, s, 1, "2026-11-20[1]")
	closed(t, s)
	must.Do(t, store.Counters().Delete(t.Context(), "order@20261120"))
	s = periodic(t, store, c.Now, nil, daily)
	is, err := issuer.New([]issuer.Definition{{BizType: seqd.BizType{Name: "order", Strategy: Name}, Strategy: s}},
		issuer.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	must.Do(t, err)
	_, err = is.Next(t.Context(), "order", 1)
	if seqd.CodeOf(err) != seqd.CodeConflict {
		t.Fatal(err)
	}
	c.turn(24 * time.Hour)
	if _, err := is.Next(t.Context(), "order", 1); err != nil {
		t.Errorf("the next day: %v", err)
	}
	_ = is.Close(context.Background())
}

// stuckClock is a store that does not say what time it is: who asks waits until its time is over.
type stuckClock struct{ persist.Store }

func (stuckClock) Now(ctx context.Context) (time.Time, error) {
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

// A purge that runs out of time is a warning like one that fails; one that a stop ends is none.
func TestPurgeThatTimesOutIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		s := periodic(t, stuckClock{memory.New(time.Now)}, time.Now, nil, func(s *Settings) { daily(s); s.PeriodRetention = 48 * time.Hour })
		s.Env.Log = slog.New(slog.NewTextHandler(&log, nil))
		dated(t, s, 1)
		time.Sleep(counters.PurgeDelay + 2*fetchDeadline)
		synctest.Wait()
		if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "could not be removed") {
			t.Errorf("logged %q", got)
		}
		// in the middle of the purge of the next day
		time.Sleep(24*time.Hour - 2*fetchDeadline + fetchDeadline/2)
		closed(t, s)
		if got := log.String(); strings.Count(got, "could not be removed") != 1 {
			t.Errorf("logged %q", got)
		}
	})
}
