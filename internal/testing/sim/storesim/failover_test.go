package storesim_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/persist"
)

func (w *world) takesRange(first, last int64) {
	w.Helper()
	r, err := w.take(w.store, 10)
	w.must(err)
	if want := (persist.Range{First: first, Last: last}); r != want {
		w.Errorf("range %v, want %v", r, want)
	}
}

func (w *world) fails(err, want error) {
	w.Helper()
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		w.Errorf("error %v, want %v", err, want)
	}
}

func (w *world) fenced() persist.Fenced {
	f, ok := w.store.(persist.Fenced)
	if !ok {
		w.Fatal("it is not fenced")
	}
	return f
}

func (w *world) fence() persist.Fence {
	f, err := w.fenced().Fence(w.Context())
	w.must(err)
	return f
}

// A failover loses the writes that the standby lacks. Counters continue above a gap, and none is
// created until the failover is confirmed.
func TestFailover(t *testing.T) {
	simulate(t, storesim.Options{Mode: storesim.Lossy}, func(w *world) {
		ctx := w.Context()
		w.takesRange(1, 10)
		w.must(w.store.Counters().Create(ctx, persist.Counter{BizTag: "gone", Max: 5, Step: 1}))
		w.c.SetLag(4)
		w.must(w.store.Counters().Delete(ctx, "gone"))
		w.takesRange(11, 20)
		w.takesRange(21, 30)
		w.must(w.store.Counters().Create(ctx, persist.Counter{BizTag: "other", Max: 7, Step: 1}))
		want := []storesim.Lost{{Counter: "gone", Standby: 5, Deleted: true}, {Counter: "order", Max: 30, Standby: 10}, {Counter: "other", Max: 7, Missing: true}}
		if got := w.c.Behind(); !slices.Equal(got, want) {
			w.Errorf("behind by %+v", got)
		}
		before := w.fence()
		if got := w.c.Failover(false); !slices.Equal(got, want) {
			w.Errorf("it lost %+v", got)
		}
		if f := w.fence(); !f.FailedOver() || f.Confirmed != before.Current || before.FailedOver() {
			w.Errorf("the fence was %v, and is %v", before, f)
		}
		if m, err := w.store.Counters().Read(ctx, "order"); err != nil || !m.FailedOver || m.Max != 10 {
			w.Errorf("the counter is %+v, %v", m, err)
		}
		if given, err := w.store.Counters().GiveBack(ctx, "order", persist.Range{First: 1, Last: 10}); given || err != nil {
			w.Errorf("given back: %t, %v", given, err)
		}
		other := persist.Counter{BizTag: "other", Step: 1}
		w.fails(w.store.Counters().Create(ctx, other), persist.ErrFailedOver)
		w.fails(w.store.Counters().Create(ctx, persist.Counter{BizTag: "order", Step: 1}), persist.ErrExists)
		w.takesRange(1011, 1020)
		w.takesRange(1021, 1030)
		w.fails(w.fenced().ConfirmFence(ctx, before.Current), persist.ErrConflict)
		w.must(w.fenced().CreateLost(ctx, persist.Counter{BizTag: "lost", Step: 1}))
		w.c.Confirm()
		w.must(w.store.Counters().Create(ctx, other))
		if f := w.fence(); f.FailedOver() {
			w.Errorf("the fence is %v", f)
		}
	})
}

// A write that is old is in the standby: registries of machine IDs depend on it.
func TestStandbyIsNotOld(t *testing.T) {
	simulate(t, storesim.Options{Mode: storesim.Lossy, Lag: 100}, func(w *world) {
		w.takesRange(1, 10)
		time.Sleep(time.Minute)
		w.takesRange(11, 20)
		if got := w.c.Failover(false); len(got) != 1 || got[0].Standby != 10 {
			w.Errorf("it lost %+v", got)
		}
	})
}

// Nothing is lost, and the fence stays.
func TestLossless(t *testing.T) {
	simulate(t, storesim.Options{Mode: storesim.Lossless, Lag: 5}, func(w *world) {
		w.takesRange(1, 10)
		before := w.fence()
		if got := w.c.Failover(false); len(got) != 0 {
			w.Errorf("it lost %+v", got)
		}
		w.takesRange(11, 20)
		if f := w.fence(); f.FailedOver() || f != before {
			w.Errorf("the fence is %v", f)
		}
		w.must(w.fenced().CreateFenced(w.Context(), persist.Document{Kind: "ledger", Key: "a", Revision: 1}, before.Current))
	})
}

// What is under way when a server takes over does not arrive; an answer does.
func TestFailoverUnderWay(t *testing.T) {
	simulate(t, storesim.Options{Mode: storesim.Lossy, Lag: 5}, func(w *world) {
		w.c.SetLag(0)
		w.c.SetLag(5)
		w.fate = storesim.Fate{Send: time.Second / 4, Reply: time.Second / 4, Left: true}
		time.AfterFunc(time.Second/8, func() { w.c.Failover(false) })
		w.takes(persist.ErrUnavailable, time.Second/4, 0)
		time.AfterFunc(3*time.Second/8, func() { w.c.Failover(false) })
		w.takes(nil, time.Second/2, 0)
		w.fate = storesim.Fate{}
		w.takesRange(2001, 2010)
	})
}

// Documents keep their revisions, and are changed under a fence.
func TestFailoverOfDocuments(t *testing.T) {
	simulate(t, storesim.Options{Mode: storesim.Lossy}, func(w *world) {
		ctx := w.Context()
		doc := persist.Document{Kind: "ledger", Key: "a", Revision: 1}
		before := w.fence().Current
		w.must(w.fenced().CreateFenced(ctx, doc, before))
		w.c.SetLag(10)
		doc.Revision = 2
		w.must(w.fenced().UpdateFenced(ctx, doc, before))
		w.must(w.store.Documents().Create(ctx, persist.Document{Kind: "ledger", Key: "b", Revision: 1}))
		w.c.Failover(false)
		if got, err := w.store.Documents().Read(ctx, "ledger", "a"); err != nil || got.Revision != 1 {
			w.Errorf("the document is %+v, %v", got, err)
		}
		_, err := w.store.Documents().Read(ctx, "ledger", "b")
		w.fails(err, persist.ErrNotFound)
		w.fails(w.fenced().UpdateFenced(ctx, doc, before), persist.ErrFailedOver)
		w.fails(w.fenced().CreateFenced(ctx, persist.Document{Kind: "ledger", Key: "b", Revision: 1}, before), persist.ErrFailedOver)
		w.must(w.fenced().UpdateFenced(ctx, doc, w.fence().Current))
	})
}

// A registry says that it may have lost writes, unless it and the database are new.
func TestFailoverOfSlots(t *testing.T) {
	simulate(t, storesim.Options{Mode: storesim.Lossy}, func(w *world) {
		slots := w.store.Slots()
		look := func(lag int64) persist.SlotTable {
			t.Helper()
			table, err := slots.Look(w.Context(), "order")
			w.must(err)
			if table.Source != w.fence().Current || table.Lag != lag {
				w.Errorf("source %q, lag %d", table.Source, table.Lag)
			}
			return table
		}
		table := look(0)
		set := &persist.SlotSet{Incarnation: strings.Repeat("a1", 16), Layout: "x"}
		w.c.Failover(true)
		if made, err := slots.Swap(w.Context(), "order", persist.SlotSwap{NewSet: set, Source: table.Source}); made || err != nil {
			w.Errorf("swapped under another fence: %t, %v", made, err)
		}
		table = look(60_000)
		w.c.SetLag(5)
		if made, err := slots.Swap(w.Context(), "order", persist.SlotSwap{NewSet: set, Source: table.Source}); !made || err != nil {
			w.Errorf("swapped: %t, %v", made, err)
		}
		set.Layout = "changed by the caller"
		w.c.Failover(true)
		if got := look(60_000); got.Set == nil || got.Set.Layout != "x" {
			w.Errorf("the set is %+v", got.Set)
		}
	})
}

// A copy that is restored is older, and of the same cluster.
func TestRestore(t *testing.T) {
	for name, recovered := range map[string]bool{"files are copied back": false, "to a point in time": true} {
		t.Run(name, func(t *testing.T) {
			simulate(t, storesim.Options{Mode: storesim.Lossy, Lag: 2}, func(w *world) {
				ctx := w.Context()
				id, err := persist.ClusterID(ctx, w.store, time.Now)
				w.must(err)
				w.takesRange(1, 10)
				before := w.fence()
				backup := w.c.Backup()
				for range 2 { // it can be restored again
					w.takesRange(11, 20)
					w.c.Restore(backup, recovered)
					if f := w.fence(); f.FailedOver() != recovered || f.Confirmed != before.Confirmed {
						w.Errorf("the fence was %v, and is %v", before, f)
					}
					if again, err := persist.ClusterID(ctx, w.store, time.Now); err != nil || again != id {
						w.Errorf("the cluster %s became %s, %v", id, again, err)
					}
					if got := w.highest(); got != 10 {
						w.Errorf("the counter is at %d", got)
					}
					if got := w.c.Behind(); len(got) != 0 {
						w.Errorf("behind by %+v", got)
					}
					if !recovered {
						continue
					}
					w.c.Restore(backup, false)
				}
			})
		})
	}
}

// Everything that a store keeps is in its standby.
func TestStandbyHasAll(t *testing.T) {
	simulate(t, storesim.Options{Mode: storesim.Lossy}, func(w *world) {
		ctx, s := w.Context(), w.store
		w.c.SetLag(100)
		records := []persist.HistoryRecord{{ID: persist.HistoryID(5, 1, 1), BizType: "order", Time: 5, First: 1, Last: 1, Count: 1}}
		w.must(s.History().Append(ctx, records))
		for _, key := range []string{"a", "b", "c"} {
			w.must(s.Documents().Create(ctx, persist.Document{Kind: "token", Key: key, Revision: 1, Expires: 5}))
		}
		n, err := s.Documents().Purge(ctx, "token", 10, 1)
		w.must(err)
		kept := []persist.Document{{Kind: "void", Key: "x", Revision: 1}}
		w.must(s.Documents().Keep(ctx, kept))
		records[0], kept[0] = persist.HistoryRecord{}, persist.Document{} // by the caller, who may
		w.must(s.Counters().Create(ctx, persist.Counter{BizTag: "gone", Step: 1}))
		w.must(s.Counters().Delete(ctx, "gone"))
		w.c.Failover(true)
		found, err := s.History().List(ctx, persist.HistoryQuery{BizType: "order", Limit: 10})
		w.must(err)
		docs, err := s.Documents().List(ctx, "token", "", 10)
		w.must(err)
		if n != 1 || len(found) != 1 || len(docs) != 2 || docs[0].Key != "b" {
			w.Errorf("purged %d; %d records, %d documents", n, len(found), len(docs))
		}
		must.Report(w, must.Err(s.Documents().Read(ctx, "void", "x")))
		_, err = s.Counters().Read(ctx, "gone")
		w.fails(err, persist.ErrNotFound)
	})
}
