package gapless_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// newChanging returns a store on which the strategy of a biz type is changed, before or after a
// failover.
func newChanging(t *testing.T) *scene {
	s := newScene(t, true, nil)
	s.behind = map[string]bool{}
	return s
}

// issue issues a number of a new node, which begins after another strategy.
func (s *scene) issue() (n int64, err error) {
	s.t.Helper()
	_, err = s.on(func(node *gapless.Strategy) (string, error) {
		var seq seqd.Sequence
		err := node.Init(s.t.Context(), true)
		if err == nil {
			err = node.Generate(s.t.Context(), 1, &seq)
		}
		n = seq.First()
		return "", err
	})
	return n, err
}

// raise does what an operator does with seqd raise while the biz type is gapless.
func (s *scene) raise(to int64) {
	s.t.Helper()
	policy := ledger.Policy{Start: 1, Floor: to}
	state, fence := ledger.Fresh(&policy, "operator", ""), s.fence.Load().Current
	doc, err := s.Documents().Read(s.t.Context(), persist.LedgerKind, "invoice")
	if err == nil {
		if state, err = ledger.Decode(&doc); err != nil {
			s.t.Fatal(err)
		}
		policy = state.Policy()
	}
	must.Do(s.t, must.Err(state.Apply(time.Now().UnixMilli(), &policy, &ledger.Op{Kind: ledger.Raise, To: to, Reason: "a test", Fence: fence}, nil)))
	if doc, err = state.Document("invoice", time.Now().UnixMilli()); err == nil {
		write := s.UpdateFenced
		if doc.Revision == 1 {
			write = s.CreateFenced
		}
		err = write(s.t.Context(), doc, fence)
	}
	must.Do(s.t, err)
}

// A ledger does not begin above a counter of which a failover may have lost the end.
func TestNoLedgerAfterALostCounter(t *testing.T) {
	for _, before := range []bool{false, true} { // whether the biz type was gapless before
		c := newChanging(t)
		if before {
			if n, err := c.issue(); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		c.named("invoice", 5000)
		c.failOver("f2")
		c.behind["invoice"] = true
		must.Code(t, must.Err(c.issue()), seqd.CodeStoreFailedOver, "gapless before: %v", before)
		c.raise(5100)
		must.Equal(t, must.Get(c.issue())(t), 5101, "gapless before: %v: after the raise: issued", before)
	}
}

// A node that waits for the operator notices that he raised the ledger after one more failover.
func TestRaisedAfterAnotherFailover(t *testing.T) {
	c := newChanging(t)
	must.Get(c.issue())(t)
	c.named("invoice", 5000)
	c.failOver("f2")
	c.behind["invoice"] = true
	s := c.node()
	defer func() { must.Report(t, s.Close(context.Background())) }()
	if err := s.Init(t.Context(), true); seqd.CodeOf(err) != seqd.CodeStoreFailedOver {
		t.Fatal(err)
	}
	c.failOver("f3")
	c.raise(5100)
	must.Report(t, s.Init(t.Context(), true))
}

// A counter does not continue above a ledger of which a failover may have lost the end, until an
// operator has raised the counter.
func TestNoCounterAfterALostLedger(t *testing.T) {
	for _, before := range []bool{false, true} { // whether there was a counter before
		c := newChanging(t)
		if before {
			c.named("invoice", 700)
		}
		must.Get(c.issue())(t)
		c.failOver("f2")
		c.behind["invoice"] = true
		must.Code(t, c.handOver(), seqd.CodeStoreFailedOver, "a counter before: %v", before)
		if !before {
			must.Is(t, must.Err(c.Counters().Read(t.Context(), "invoice")), persist.ErrNotFound, "a counter was made")
			c.named("invoice", 800)
		} else if _, err := c.Counters().Allocate(t.Context(), persist.Request{BizTag: "invoice", Floor: 800}); err != nil {
			t.Fatal(err)
		}
		delete(c.behind, "invoice")
		if err := c.handOver(); err != nil {
			t.Errorf("a counter before: %v: after the raise: %v", before, err)
		}
	}
}

// What a cursor still has of a time before the ledger is not issued after it.
func TestHandoverRetiresTheCursor(t *testing.T) {
	c := newChanging(t)
	c.named("invoice", 100)
	epoch := persist.NewEpoch()
	must.Get(c.Counters().Allocate(t.Context(), persist.Request{BizTag: "invoice", Size: 50, To: persist.NewCursor("", epoch)}))(t)
	for range 3 {
		must.Get(c.issue())(t)
	}
	for range 2 { // by each node
		must.Do(t, c.handOver())
		got, err := c.Counters().Read(t.Context(), "invoice")
		if err != nil || got.Epoch != "" || got.Max != 153 {
			t.Fatalf("the counter is %+v, %v", got, err)
		}
	}
	// A cursor that has begun since stays.
	must.Get(c.Counters().Allocate(t.Context(), persist.Request{BizTag: "invoice", Size: 50, To: persist.NewCursor("", epoch)}))(t)
	must.Do(t, c.handOver())
	if got, err := c.Counters().Read(t.Context(), "invoice"); err != nil || got.Epoch != epoch || got.Max != 203 {
		t.Errorf("the counter is %+v, %v", got, err)
	}
}

// A node that was held up while it wrote the ledger does not write it after it was handed over.
func TestHandedOverLedgerIsNotWritten(t *testing.T) {
	c := newChanging(t)
	must.Get(c.issue())(t)
	late := must.Get(c.Documents().Read(t.Context(), persist.LedgerKind, "invoice"))(t)
	must.Do(t, c.handOver())
	late.Revision++
	must.Is(t, c.Documents().Update(t.Context(), late), persist.ErrConflict)
}

// The first write of a ledger, or the first one above another strategy, may come after the biz type
// got another strategy, which has issued the same numbers: then no repeated request is told them.
func TestFirstWriteAfterTheHandover(t *testing.T) {
	for what, settings := range map[string]func(*gapless.Settings){"a key": keyed, "a period": everyDay, "raised": nil, "passed": nil} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t, false, settings)
				key, counter, first := "", "invoice", "create ledger/"
				switch what {
				case "a key":
					key, counter = "k1", "invoice/k1"
				case "a period":
					counter = "invoice@20000101"
				default:
					must.Do(t, s.node().Init(t.Context(), true))
					s.named(counter, 100)
					first = "update ledger/"
				}
				held := s.begun(true)
				if what == "passed" { // a range that came late
					must.Get(s.Counters().Allocate(t.Context(), persist.Request{BizTag: counter, Floor: 105}))(t)
				}
				s.before(first+counter, func() { time.Sleep(time.Hour) })
				o := seqd.Order{Count: 10, Once: "order-1", Caller: seqd.Caller{Owner: "app"}}
				go func() { _, _, _ = order(held, key, o) }()
				synctest.Wait()
				must.Do(t, s.handOver())
				if first == "create ledger/" {
					s.named(counter, 500)
				}
				time.Sleep(time.Hour + time.Second)
				var seq seqd.Sequence
				seq.For(key)
				_, replayed, err := s.factory().Recall(t.Context(), s.env(), "invoice", o, &seq)
				if err != nil || replayed || seq.Len() > 0 {
					t.Errorf("the key is told %v, %v", seq.Runs(), err)
				}
			})
		})
	}
}
