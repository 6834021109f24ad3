package counters

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
)

func purger(store persist.Store, now func() time.Time, reset seqd.Reset) *Purger {
	return &Purger{
		Base: &Base{
			Env: &strategy.Env{Store: store, Now: now, Log: slog.New(slog.DiscardHandler)}, BizType: &seqd.BizType{Name: "order"}, Settings: &Settings{},
		},
		Calendar: &Calendar{Calendar: seqd.Calendar{Reset: reset, Zone: time.UTC}},
	}
}

// meanwhile runs something once, just after a document was read.
type meanwhile struct {
	persist.Store
	f func()
}

type readMeanwhile struct {
	persist.Documents
	m *meanwhile
}

func (m *meanwhile) Documents() persist.Documents { return readMeanwhile{m.Store.Documents(), m} }

func (d readMeanwhile) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	doc, err := d.Documents.Read(ctx, kind, key)
	if f := d.m.f; f != nil {
		d.m.f = nil
		f()
	}
	return doc, err
}

// Nodes that raise the tombstone at the same time do not fail, and the highest period stays.
func TestBuryTogether(t *testing.T) {
	for _, before := range []seqd.Period{0, 20000101} {
		for _, other := range []seqd.Period{20000103, 20000105, 20000107} {
			store := memory.New(time.Now)
			raised := purger(store, time.Now, seqd.ResetDaily)
			if before > 0 {
				must.Do(t, raised.bury(t.Context(), before))
			}
			race := &meanwhile{store, func() { must.Do(t, raised.bury(t.Context(), other)) }}
			must.Do(t, purger(race, time.Now, seqd.ResetDaily).bury(t.Context(), 20000105))
			must.Equal(t, must.Get(raised.read(t.Context()))(t).period, max(other, 20000105), "%s, meanwhile %s: the period of the tombstone", before, other)
		}
	}
}

// A tombstone of another length that does not cover a period is an error: nothing may be removed.
func TestBuryBelowAnotherLength(t *testing.T) {
	store := memory.New(time.Now)
	must.Do(t, purger(store, time.Now, seqd.ResetDaily).bury(t.Context(), 20000105))
	for period, covered := range map[seqd.Period]bool{19991201: true, 20000101: false} {
		if err := purger(store, time.Now, seqd.ResetMonthly).bury(t.Context(), period); (err == nil) != covered {
			t.Errorf("bury %s: %v", period, err)
		}
	}
}

// Nothing is removed until the store's clock has been right for long, or the strategy closes.
func TestSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead time.Duration
		now := func() time.Time { return time.Now().Add(ahead) }
		store := memory.New(now)
		running, end := context.WithCancel(t.Context())
		p := purger(store, now, seqd.ResetDaily)
		p.Env.Clock = storeclock.New(store, now, nil)
		settles := func(within time.Duration) {
			t.Helper()
			began := time.Now()
			if settled := p.isSettled(running); !settled || time.Since(began) > within || time.Since(began) < within-time.Hour {
				t.Errorf("settled %t after %v, want %v", settled, time.Since(began), within)
			}
		}
		settles(0)
		time.Sleep(2 * time.Minute)
		ahead = 1000 * time.Hour
		settles(24 * time.Hour)
		time.Sleep(2 * time.Minute)
		ahead *= 2
		go end()
		if p.isSettled(running) {
			t.Error("it is settled after the end")
		}
	})
}

// Only counters of this biz type, and of periods of this length, are removed.
func TestPeriodOf(t *testing.T) {
	p := purger(nil, time.Now, seqd.ResetDaily)
	for name, ok := range map[string]bool{
		"order@20261120": true, "order/a@20261120": true, "order/@20261120": true,
		"order/a": false, "order": false, "invoice/a@20261120": false, "order/a@x": false, "order/a@202611": false,
	} {
		if _, got := p.periodOf(name); got != ok {
			t.Errorf("%s is of a period: %t", name, got)
		}
	}
}

// Nodes, and biz types of a node, do not all do something at once.
func TestSpread(t *testing.T) {
	parts := make(map[time.Duration]bool)
	for _, addr := range []string{"10.0.0.1:80", "10.0.0.2:80"} {
		for _, bizType := range []string{"order", "user"} {
			parts[Spread(time.Hour, bizType, addr)] = true
		}
	}
	must.Equal(t, len(parts), 4, "parts of an hour: %v", parts)
}

// removals notes when a counter was removed.
type removals struct {
	persist.Store
	first *time.Time
}

type notedRemovals struct {
	persist.Counters
	first *time.Time
}

func (r removals) Counters() persist.Counters { return notedRemovals{r.Store.Counters(), r.first} }

func (r notedRemovals) Delete(ctx context.Context, name string) error {
	if r.first.IsZero() {
		*r.first = time.Now()
	}
	return r.Counters.Delete(ctx, name)
}

// A key is removed only when no node relies on what it read before the tombstone was raised.
func TestTombstoneStandsBeforeKeysAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, removed := memory.New(time.Now), time.Time{}
		must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order/a@20000101", Step: 1}))
		time.Sleep(96 * time.Hour)
		relies := purger(store, time.Now, seqd.ResetDaily)
		purges := purger(removals{store, &removed}, time.Now, seqd.ResetDaily)
		relies.Settings.Keyed, purges.Settings.Keyed, purges.Retention = true, true, 24*time.Hour
		must.Do(t, relies.Check(t.Context(), 20000101))
		var purge sync.WaitGroup
		purge.Go(func() {
			must.Report(t, must.Err(purges.Purge(t.Context(), func(context.Context, Name) {})))
		})
		var trusted time.Time
		for relies.Check(t.Context(), 20000101) == nil {
			trusted = time.Now()
			time.Sleep(time.Second)
		}
		purge.Wait()
		if !removed.After(trusted.Add(tombstoneTrust - time.Second)) {
			t.Errorf("removed at %v, and a node relied on the period until %v", removed, trusted)
		}
	})
}

// withDocuments is a store with other documents.
type withDocuments struct {
	persist.Store
	documents persist.Documents
}

func (s withDocuments) Documents() persist.Documents { return s.documents }

// After a counter was created the tombstone is read, whatever the node relies on. If that fails,
// the node relies on nothing any more.
func TestTombstoneIsReadAfterACreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		relies, purges := purger(store, time.Now, seqd.ResetDaily), purger(store, time.Now, seqd.ResetDaily)
		relies.Settings.Keyed = true
		must.Do(t, relies.Check(t.Context(), 20000101))
		must.Do(t, purges.bury(t.Context(), 20000101))
		must.Do(t, relies.Check(t.Context(), 20000101)) // as it was read before
		documents := &unread{Documents: store.Documents()}
		relies.Env.Store = withDocuments{store, documents}
		documents.away.Store(true)
		must.Is(t, relies.CheckAnew(t.Context(), 20000101), persist.ErrUnavailable)
		must.Is(t, relies.Check(t.Context(), 20000101), persist.ErrUnavailable)
		documents.away.Store(false)
		for _, check := range []func(context.Context, seqd.Period) error{relies.CheckAnew, relies.Check} {
			must.Is(t, check(t.Context(), 20000101), ErrPurged)
		}
	})
}
