package gapless_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/gapless"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// begun returns a node that has begun, and is closed at the end of the test.
func (s *scene) begun(fresh bool) *gapless.Strategy {
	s.t.Helper()
	node := s.node()
	must.Do(s.t, node.Init(s.t.Context(), fresh))
	s.t.Cleanup(func() {
		must.Report(s.t, node.Close(context.Background()))
		time.Sleep(time.Minute) // in a bubble: nothing looks at the store any more
	})
	return node
}

// A ledger that was there once is not created again. Those of keys and periods may not have been
// there.
func TestLostLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for code, settings := range map[seqd.Code]func(*gapless.Settings){seqd.CodeConflict: nil, "": keyed} {
			node := newScene(t, false, settings).node()
			must.Code(t, node.Init(t.Context(), false), code)
			must.Report(t, node.Close(t.Context()))
		}
	})
}

// After Close everything is refused.
func TestClosed(t *testing.T) {
	for name, settings := range map[string]func(*gapless.Settings){"plain": nil, "keyed": keyed, "daily": everyDay} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, false, settings)
				s.filled()
				node := s.node()
				must.Do(t, node.Close(t.Context()))
				ctx, key := t.Context(), map[bool]string{true: "k1"}[s.settings.Keyed]
				var seq seqd.Sequence
				seq.For(key)
				_, _, reserve := node.HandOut(ctx, seqd.Order{Count: 1, Reserve: true}, &seq)
				_, _, once := node.HandOut(ctx, seqd.Order{Count: 1, Once: "order-1"}, &seq)
				_, find := node.Find(ctx, s.id, &seqd.Sequence{})
				_, confirm := node.Confirm(ctx, seqd.Settlement{ID: s.id}, &seqd.Sequence{})
				for what, err := range map[string]error{
					"generate": node.Generate(ctx, 1, &seq), "reserve": reserve, "once": once, "find": find, "confirm": confirm,
					"release": node.Release(ctx, seqd.Settlement{ID: s.id}), "void": node.Void(ctx, seqd.Voiding{Key: key, Number: 1, Reason: "spoilt"}),
					"reclaim": node.Reclaim(ctx, key, 0),
				} {
					must.Code(t, err, seqd.CodeStopping, "%s", what)
				}
				if seq.Len() > 0 {
					t.Errorf("%d numbers were handed out", seq.Len())
				}
			})
		})
	}
}

// What is asked for must make sense.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, func(s *gapless.Settings) { s.MaxReserved = 3 })
		node := s.begun(true)
		for _, test := range []struct {
			order seqd.Order
			code  seqd.Code
		}{
			{seqd.Order{Count: 4, Reserve: true}, seqd.CodeInvalidCount},
			{seqd.Order{Count: 3, Reserve: true, TTL: 999 * time.Millisecond}, seqd.CodeInvalidTTL},
			{seqd.Order{Count: 3, Reserve: true, TTL: 24*time.Hour + 1}, seqd.CodeInvalidTTL},
			{seqd.Order{Count: 1, Reserve: true, TTL: time.Second}, ""},
			{seqd.Order{Count: 2, Reserve: true, TTL: 24 * time.Hour}, ""},
			{seqd.Order{Count: 1, Reserve: true}, seqd.CodeTooManyReserved},
			{seqd.Order{Count: 3, Reserve: true}, seqd.CodeTooManyReserved},
			{seqd.Order{Count: 0}, seqd.CodeInvalidCount},
			{seqd.Order{Count: 4}, ""},
		} {
			_, _, err := order(node, "", test.order)
			must.Code(t, err, test.code, "%+v", test.order)
		}
		s.away("*") // what makes no sense does not wait for the store
		for want, o := range map[seqd.Code]seqd.Order{seqd.CodeInvalidCount: {Count: 4, Reserve: true}, seqd.CodeInvalidTTL: {Count: 1, Reserve: true, TTL: 1}} {
			_, _, err := order(node, "", o)
			must.Code(t, err, want, "%+v", o)
		}
		s.away("")
		ctx := t.Context()
		must.Code(t, node.Void(ctx, seqd.Voiding{Number: 1, Period: 20000101, Reason: "spoilt"}), seqd.CodeInvalidRequest, "void in a period")
		must.Code(t, must.Err(node.Account(ctx, seqd.AccountQuery{Period: 20000101, Limit: 1})), seqd.CodeInvalidRequest, "an account of a period")
		for _, id := range []string{"", "x", strings.Repeat("0", 19), strings.Repeat("0", 22), strings.Repeat("0", 20) + ".k1", strings.Repeat("0", 20) + ".2000"} {
			must.Code(t, must.Err(node.Find(ctx, id, &seqd.Sequence{})), seqd.CodeUnknownReservation, "find %q", id)
		}
	})
}

// gauges returns what a strategy measures.
func gauges(node *gapless.Strategy) map[seqd.Gauge]float64 {
	got := make(map[seqd.Gauge]float64)
	node.Measure(func(m seqd.Measurement) { got[m.Gauge] = m.Value })
	return got
}

// The figures are those of the counters that are open, and the highest share and age of any.
func TestMeasure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, func(s *gapless.Settings) { s.MaxReserved, s.Reset = 10, seqd.ResetDaily })
		s.reserve("", time.Hour)
		s.settings.Keyed = true
		node := s.begun(true)
		want := func(when string, want map[seqd.Gauge]float64) {
			t.Helper()
			synctest.Wait()
			want[seqd.GaugeLimit] = float64(seqd.MaxNumber)
			if got := gauges(node); !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		day := (24 * time.Hour).Seconds()
		want("at first", map[seqd.Gauge]float64{
			seqd.GaugeReserved: 0, seqd.GaugeReleased: 0, seqd.GaugeVoids: 0, seqd.GaugeReservedShare: 0, seqd.GaugeReleasedAge: 0, seqd.GaugePeriodLeft: day,
		})
		for _, key := range []string{"k1", "k2"} {
			_, one, err := order(node, key, seqd.Order{Count: 4, Reserve: true})
			if err == nil {
				_, _, err = order(node, key, seqd.Order{Count: len(key), Reserve: true})
			}
			if err == nil && key == "k1" {
				_, _, err = order(node, key, seqd.Order{Count: 3, Reserve: true})
			}
			time.Sleep(time.Second)
			if err == nil {
				err = node.Release(t.Context(), seqd.Settlement{ID: one.ID})
			}
			if err == nil && key == "k2" {
				err = node.Void(t.Context(), seqd.Voiding{Key: key, Number: 5, Reason: "spoilt"})
			}
			must.Do(t, err)
		}
		must.Do(t, node.Reclaim(t.Context(), "", 20000101)) // of a time without keys
		time.Sleep(2 * time.Second)
		want("with numbers", map[seqd.Gauge]float64{
			seqd.GaugeReserved: 7, seqd.GaugeReleased: 8, seqd.GaugeVoids: 1, seqd.GaugeReservedShare: 0.9, seqd.GaugeReleasedAge: 3, seqd.GaugePeriodLeft: day - 4,
		})
		must.Equal(t, fmt.Sprint(node.Details()), "map[maxKeys:1000000 maxReserved:10 openKeys:3 period:2000-01-01 released:8 reserved:7 voids:1]", "the details")
	})
}

// What another node has done shows soon.
func TestMeasureOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, nil)
		one, two := s.begun(true), s.begun(false)
		want := func(node *gapless.Strategy, last, reserved, released float64) {
			t.Helper()
			synctest.Wait()
			got := gauges(node)
			if got[seqd.GaugeHighest] != last || got[seqd.GaugeReserved] != reserved || got[seqd.GaugeReleased] != released {
				t.Errorf("%v, want %v, %v, %v", got, last, reserved, released)
			}
		}
		_, r, err := order(one, "", seqd.Order{Count: 2, Reserve: true})
		must.Do(t, err)
		want(one, 2, 2, 0)
		must.Do(t, two.Release(t.Context(), seqd.Settlement{ID: r.ID}))
		want(two, 2, 0, 2)
		time.Sleep(30 * time.Second)
		want(one, 2, 2, 0)
		want(one, 2, 2, 0)
		time.Sleep(time.Second)
		want(one, 2, 2, 0) // it reads for the next time
		want(one, 2, 0, 2)
		if _, _, err := order(two, "", seqd.Order{Count: 2}); err != nil {
			t.Fatal(err)
		}
		want(two, 2, 0, 0)
		time.Sleep(31 * time.Second)
		want(one, 2, 0, 2)
		want(one, 2, 0, 0)
	})
}

// A node is well, and can be asked again and again. While the store is away it is not, and notices
// by itself when the store is there again.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := newScene(t, true, nil), new(hears)
		s.observer, s.id = h, strings.Repeat("0", 20)
		node := s.begun(true)
		for range 2 {
			must.Do(t, node.Health())
			if _, _, err := order(node, "", seqd.Order{Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
		for _, ask := range []func() error{
			func() error { _, _, err := order(node, "", seqd.Order{Count: 1}); return err },
			func() error { _, err := node.Find(t.Context(), s.id, &seqd.Sequence{}); return err }, // leaves nothing to be done
		} {
			s.away("*")
			began := time.Now()
			must.Code(t, ask(), seqd.CodeStoreUnavailable, "without the store")
			must.Equal(t, time.Since(began), s.settings.AcquireTimeout, "it waited")
			time.Sleep(time.Minute)
			must.Code(t, node.Health(), seqd.CodeStoreUnavailable, "without the store")
			s.away("")
			time.Sleep(5 * time.Second)
			if err := node.Health(); err != nil {
				t.Errorf("with the store: %v", err)
			}
		}
		rival := s.begun(false) // what it writes is a conflict for the other one, and says nothing of the store
		for _, n := range []*gapless.Strategy{node, rival, node} {
			_, _, err := order(n, "", seqd.Order{Count: 1})
			must.Do(t, err)
		}
		must.Do(t, rival.Close(t.Context()))
		want := []seqd.EventKind{seqd.EventStoreAway, seqd.EventStoreBack, seqd.EventStoreAway, seqd.EventStoreBack}
		if got := h.heard(); !slices.Equal(got, want) {
			t.Errorf("events %q, want %q", got, want)
		}
		s.failOver("f2")
		if _, _, err := order(node, "", seqd.Order{Count: 1}); seqd.CodeOf(err) != seqd.CodeStoreFailedOver {
			t.Errorf("after a failover: %v", err)
		}
		must.Code(t, node.Health(), seqd.CodeStoreFailedOver, "after a failover it is well")
		if node.Degraded() != nil || !node.Idle() {
			t.Errorf("degraded: %v, idle: %v", node.Degraded(), node.Idle())
		}

		other := s.node()
		s.away("now")
		must.Code(t, other.Init(t.Context(), true), seqd.CodeStoreUnavailable, "it begins without the store's time")
		s.away("*")
		if _, err := other.Find(t.Context(), s.id, &seqd.Sequence{}); err == nil || other.Close(t.Context()) != nil {
			t.Errorf("without the store: %v", err)
		}
		time.Sleep(time.Minute)
		s.begin(0, false)
		time.Sleep(time.Minute)
		if calls := s.seen(); len(calls) > 0 {
			t.Errorf("a strategy that is closed asks %q", calls)
		}
	})
}

// Close waits for what is under way until its context ends, and says that it has not ended.
func TestCloseWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, nil)
		node := s.begun(true)
		s.away("*")
		if _, _, err := order(node, "", seqd.Order{Count: 1}); err == nil {
			t.Error("a number without the store")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must.Is(t, node.Close(ctx), context.DeadlineExceeded, "it is closed")
		s.away("")
	})
}

// A driver that panics is a store that does not answer.
func TestDriverPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, nil)
		node := s.begun(true)
		s.before("update ledger/invoice", func() { panic("a bug") })
		for _, want := range []string{"[[1 1]] of , again false", "[[2 2]] of , again false"} {
			if text, _, err := order(node, "", seqd.Order{Count: 1}); err != nil || text != want {
				t.Errorf("%s, %v, want %s", text, err, want)
			}
		}
	})
}

// A biz type that becomes gapless again raises the ledgers that are behind, and changes no other
// one.
func TestTakeOverChangesNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ max, next, revisions int64 }{{9, 11, 1}, {10, 11, 1}, {11, 12, 2}} {
			s := newScene(t, false, nil)
			s.filled() // up to 10
			revision := func() int64 {
				doc := must.Get(s.Store.Documents().Read(t.Context(), persist.LedgerKind, "invoice"))(t)
				return doc.Revision
			}
			s.counter(test.max)
			before := revision()
			node := s.begun(true)
			text, _, err := order(node, "", seqd.Order{Count: 2})
			if want := fmt.Sprintf("[[%d %d]] of , again false", test.next, test.next+1); text != want || err != nil {
				t.Errorf("after a counter at %d: %s, %v, want %s", test.max, text, err, want)
			}
			must.Equal(t, revision(), before+test.revisions, "after a counter at %d: revision %d and then", test.max, before)
		}
	})
}

// Keys that begin with a digit, or with another key, are listed too.
func TestKeysAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for reset, want := range map[seqd.Reset][]string{seqd.ResetNever: {"0", "a", "a-b"}, seqd.ResetDaily: {"0", "a-b", "a"}} {
			node := newScene(t, false, func(s *gapless.Settings) { s.Keyed, s.Reset = true, reset }).begun(true)
			for _, key := range want {
				_, _, err := order(node, key, seqd.Order{Count: 1})
				must.Do(t, err)
			}
			first := must.Get(node.Keys(t.Context(), "", 2))(t)
			if got := append(first, must.Get(node.Keys(t.Context(), first[1], 2))(t)...); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", reset, got, want)
			}
		}
	})
}

// A biz type has no more keys than it may, in each period, and keys that exist stay usable.
func TestMaxKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, func(s *gapless.Settings) { s.Keyed, s.Reset, s.MaxKeys = true, seqd.ResetDaily, 2 })
		node := s.begun(true)
		for range 2 {
			if _, _, err := order(node, "k9", seqd.Order{Count: 1001, Reserve: true}); seqd.CodeOf(err) != seqd.CodeInvalidCount {
				t.Errorf("k9 takes no place: %v", err)
			}
			for key, code := range map[string]seqd.Code{"k1": "", "k2": ""} {
				if _, _, err := order(node, key, seqd.Order{Count: 1}); seqd.CodeOf(err) != code {
					t.Errorf("%s: %v", key, err)
				}
			}
			for range 2 {
				if _, _, err := order(node, "k3", seqd.Order{Count: 1}); seqd.CodeOf(err) != seqd.CodeTooManyKeys {
					t.Errorf("k3: %v", err)
				}
			}
			for range 3 {
				if _, _, err := order(node, "k1", seqd.Order{Count: 1}); err != nil {
					t.Errorf("k1: %v", err)
				}
			}
			time.Sleep(24 * time.Hour)
		}
	})
}

// A caller that leaves is told so, and its number comes back.
func TestCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &readers{Store: memory.New(time.Now)}
		node := newStrategy(t, store, nil)
		var first seqd.Sequence
		must.Do(t, node.Generate(t.Context(), 1, &first))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var seq seqd.Sequence
		if err := node.Generate(ctx, 1, &seq); err == nil && seq.Len() == 0 {
			t.Error("neither a number nor an error")
		}
		synctest.Wait()
		a, err := node.Account(t.Context(), seqd.AccountQuery{Limit: 9})
		if want := int64(1 + seq.Len()); err != nil || a.Issued != want {
			t.Errorf("%+v, %v: want %d to be issued", a, err, want)
		}
		must.Report(t, node.Close(t.Context()))
		node.Return(&first, ctx.Err()) // also if it left so late
		synctest.Wait()
		if after, err := node.Account(t.Context(), seqd.AccountQuery{Limit: 9}); err != nil || after.Issued != a.Issued-1 {
			t.Errorf("%+v, %v: a number was returned", after, err)
		}
		time.Sleep(time.Minute)
	})
}

// What cannot be read is an error: an account without its void numbers would be wrong, and a ledger
// that another seqd wrote must not be used.
func TestUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, body := range map[string]string{"damaged": "{}", "newer": `{"v":99,"b":"x","l":1}`} {
			s := newScene(t, false, nil)
			s.filled()
			docs, ctx := s.Store.Documents(), t.Context()
			doc := must.Get(docs.Read(ctx, persist.LedgerKind, "invoice"))(t)
			void := persist.Document{Kind: persist.VoidKind, Key: ledger.VoidKey("invoice", 9), Revision: 1, Body: body}
			must.Do(t, docs.Create(ctx, void))
			node := s.node()
			must.Code(t, must.Err(node.Account(ctx, seqd.AccountQuery{Limit: 9})), seqd.CodeInternal, "an account with a %s record", name)
			doc.Body, doc.Revision = body, doc.Revision+1
			must.Do(t, docs.Update(ctx, doc))
			must.Code(t, must.Err(node.Account(ctx, seqd.AccountQuery{Limit: 9})), seqd.CodeInternal, "an account of a %s ledger", name)
			_, _, recall := s.factory().Recall(ctx, s.env(), "invoice", seqd.Order{Count: 1, Once: "order-9"}, &seqd.Sequence{})
			must.Code(t, recall, seqd.CodeInternal, "a repeated request after a %s ledger", name)
			want := map[string]seqd.Code{"damaged": seqd.CodeInternal, "newer": seqd.CodeConflict}[name]
			if _, _, err := order(node, "", seqd.Order{Count: 1}); seqd.CodeOf(err) != want {
				t.Errorf("a number of a %s ledger: %v", name, err)
			}
			s.counter(50)
			must.Code(t, s.handOver(), seqd.CodeInternal, "a %s ledger is handed over", name)
			must.Code(t, node.Init(ctx, true), seqd.CodeInternal, "a %s ledger is taken over", name)
			must.Report(t, node.Close(ctx))
		}
		time.Sleep(time.Minute)
	})
}

// All ledgers of a biz type are handed over, however many, and no one else's.
func TestHandOverAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, false, keyed)
		s.filled()
		docs, ctx := s.Store.Documents(), t.Context()
		doc := must.Get(docs.Read(ctx, persist.LedgerKind, "invoice/k1"))(t)
		doc.Revision = 1
		mine := []string{"invoice/k1", "invoice@20000101"}
		for i := range 250 {
			mine = append(mine, fmt.Sprint("invoice/many", i))
		}
		others := []string{"invoicf", "invoicf/k1", "invoice2", "zebra", "zebra/k1", "zebra@2000"}
		for _, name := range append(slices.Clone(mine[1:]), others...) {
			doc.Key = name
			must.Do(t, docs.Create(ctx, doc))
		}
		must.Do(t, s.handOver())
		for _, name := range mine {
			must.Equal(t, must.Get(s.Store.Counters().Read(ctx, name))(t).Max, 10, "the counter %s is at", name)
		}
		for _, name := range others {
			if c, err := s.Store.Counters().Read(ctx, name); err == nil {
				t.Errorf("the counter %s of another biz type is at %d", name, c.Max)
			}
		}
	})
}

// A ledger is handed over also if a failover could lose something only since it was written, or no
// more.
func TestHandOverOfAnotherTime(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newScene(t, lossy, nil)
			s.filled()
			if s.lossy = !lossy; s.handOver() != nil {
				t.Errorf("lossy then %t: %v", lossy, s.handOver())
			}
		})
	}
}

// A key or a period that is new begins above what another strategy issued under its name.
func TestBeginsAboveAnotherStrategy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			settings     func(*gapless.Settings)
			key, counter string
		}{"plain": {nil, "", "invoice"}, "keyed": {keyed, "k2", "invoice/k2"}, "daily": {everyDay, "", "invoice@20000101"}} {
			s := newScene(t, false, test.settings)
			s.named(test.counter, 50)
			must.Do(t, s.Store.Documents().Create(t.Context(), persist.Document{Kind: persist.LedgerKind, Key: "invoice@x", Revision: 1, Body: "{}"})) // not one of its counters
			node := s.begun(true)
			text, _, err := order(node, test.key, seqd.Order{Count: 2})
			if !strings.HasPrefix(text, "[[51 52]]") || err != nil {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		}
	})
}
