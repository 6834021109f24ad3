package gapless_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
	"github.com/seqd/seqd/strategy/gapless/gaplesstest"
)

func TestMemory(t *testing.T) {
	gaplesstest.Run(t, func(t *testing.T) (one, two persist.Store) {
		s := memory.New(time.Now)
		t.Cleanup(func() { _ = s.Close() })
		return s, s
	})
}

func TestBolt(t *testing.T) {
	gaplesstest.Run(t, func(t *testing.T) (one, two persist.Store) {
		s := must.Get(bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now}))(t)
		t.Cleanup(func() { _ = s.Close() })
		return s, s
	})
}

// An auditor who names a period that the biz type does not have is told so: an empty account would
// say that nothing was issued. The details of readiness say what waits.
func TestPeriodsAndDetails(t *testing.T) {
	store := memory.New(time.Now)
	t.Cleanup(func() { _ = store.Close() })
	settings := patient()
	settings.Reset = seqd.ResetYearly
	now := func() time.Time { return time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC) }
	s := newNode(t, strategy.Env{Store: store, Now: now, Clock: storeclock.New(store, now, nil)}, settings)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	must.Do(t, s.Init(t.Context(), true))
	for period, want := range map[seqd.Period]seqd.Code{
		20260000: "", 20250000: "", 0: "", 20261100: seqd.CodeInvalidRequest, 20261123: seqd.CodeInvalidRequest,
	} {
		a, err := s.Account(t.Context(), seqd.AccountQuery{Period: period, Limit: 10})
		must.Code(t, err, want, "the account of %q", period)
		if want == "" && (period != 0 && a.Period != period || a.First != 1 || a.Last != 0) {
			t.Errorf("the account of %q, which has no numbers: %+v", period, a)
		}
	}
	var seq seqd.Sequence
	r, _, err := s.HandOut(t.Context(), seqd.Order{Count: 3, Reserve: true}, &seq)
	must.Do(t, err)
	a := must.Get(s.Account(t.Context(), seqd.AccountQuery{Limit: 10}))(t)
	if len(a.Gaps) != 1 || a.Gaps[0].Reservation != r.ID || !a.Gaps[0].ExpiresAt.Equal(r.ExpiresAt) {
		t.Errorf("%+v, want the reservation %+v", a, r)
	}
	year := seqd.ResetYearly.Of(time.Now()) // the clock of the memory store
	want := fmt.Sprintf("map[last:3 maxReserved:1000 period:%s released:0 reserved:3 voids:0]", year)
	awaitDetails(t, s, want)

	// After a restart that is known although nobody has asked for a number.
	again := newNode(t, strategy.Env{Store: store, Now: now, Clock: storeclock.New(store, now, nil)}, settings)
	t.Cleanup(func() { _ = again.Close(context.Background()) })
	must.Do(t, again.Init(t.Context(), false))
	awaitDetails(t, again, want)
}

// awaitDetails waits until a strategy shows these details, which it notes after it has answered.
func awaitDetails(t *testing.T, s *gapless.Strategy, want string) {
	t.Helper()
	await.Eventually(t, "the details follow", func() error {
		if shown := fmt.Sprint(s.Details()); shown != want {
			return fmt.Errorf("details %s, want %s", shown, want)
		}
		return nil
	})
}
