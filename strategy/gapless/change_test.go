package gapless_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// changing is a store on which the strategy of a biz type is changed, before or after a failover.
type changing struct {
	failingOver
	t *testing.T
	// behind are the counters that nobody has raised since the failover.
	behind map[string]bool
}

type changingCounters struct {
	persist.Counters
	store *changing
}

func newChanging(t *testing.T) *changing {
	c := &changing{t: t, behind: map[string]bool{}}
	c.Store = memory.New(time.Now)
	t.Cleanup(func() { _ = c.Store.Close() })
	c.failOver("f1")
	return c
}

func (c *changing) Counters() persist.Counters { return changingCounters{c.Store.Counters(), c} }

func (c changingCounters) Read(ctx context.Context, name string) (persist.Counter, error) {
	counter, err := c.Counters.Read(ctx, name)
	counter.FailedOver = err == nil && c.store.behind[name]
	return counter, err
}

func (c *changing) env() strategy.Env {
	return strategy.Env{
		Store: c, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, AnswerTTL: time.Hour,
		Clock: storeclock.New(c, time.Now, nil),
	}
}

// counter makes a counter of another strategy.
func (c *changing) counter(name string, last int64) {
	c.t.Helper()
	if err := c.Counters().Create(c.t.Context(), persist.Counter{BizTag: name, Max: last, Step: 1}); err != nil {
		c.t.Fatal(err)
	}
}

// node returns a new node, which begins after another strategy.
func (c *changing) node() *gapless.Strategy {
	c.t.Helper()
	settings := gapless.DefaultSettings()
	s, err := gapless.New(c.env(), seqd.BizType{Name: "invoice", Strategy: gapless.Name, Settings: &settings})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// issue issues a number of a new node.
func (c *changing) issue() (int64, error) {
	c.t.Helper()
	s := c.node()
	defer func() { _ = s.Close(context.Background()) }()
	if err := s.Init(c.t.Context(), true); err != nil {
		return 0, err
	}
	var seq seqd.Sequence
	if err := s.Generate(c.t.Context(), 1, &seq); err != nil {
		return 0, err
	}
	return seq.First(), nil
}

// raise does what an operator does with seqd raise while the biz type is gapless.
func (c *changing) raise(to int64) {
	c.t.Helper()
	policy := ledger.Policy{Start: 1, Floor: to}
	state, fence := ledger.Fresh(&policy, "operator", ""), c.fence.Load().Current
	doc, err := c.Documents().Read(c.t.Context(), persist.LedgerKind, "invoice")
	if err == nil {
		if state, err = ledger.Decode(&doc); err != nil {
			c.t.Fatal(err)
		}
		policy = state.Policy()
	}
	if _, err := state.Apply(time.Now().UnixMilli(), &policy, &ledger.Op{Kind: ledger.Raise, To: to, Reason: "a test", Fence: fence}, nil); err != nil {
		c.t.Fatal(err)
	}
	if doc, err = state.Document("invoice", time.Now().UnixMilli()); err == nil {
		write := c.UpdateFenced
		if doc.Revision == 1 {
			write = c.CreateFenced
		}
		err = write(c.t.Context(), doc, fence)
	}
	if err != nil {
		c.t.Fatal(err)
	}
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
		c.counter("invoice", 5000)
		c.failOver("f2")
		c.behind["invoice"] = true
		if n, err := c.issue(); seqd.CodeOf(err) != seqd.CodeStoreFailedOver {
			t.Errorf("gapless before: %v: issued %d, %v", before, n, err)
		}
		c.raise(5100)
		if n, err := c.issue(); n != 5101 || err != nil {
			t.Errorf("gapless before: %v: after the raise: issued %d, %v", before, n, err)
		}
	}
}

// A node that waits for the operator notices that he raised the ledger after one more failover.
func TestRaisedAfterAnotherFailover(t *testing.T) {
	c := newChanging(t)
	must.Get(c.issue())(t)
	c.counter("invoice", 5000)
	c.failOver("f2")
	c.behind["invoice"] = true
	s := c.node()
	defer func() { _ = s.Close(context.Background()) }()
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
	factory := must.Get(strategy.Lookup(gapless.Name))(t)
	for _, before := range []bool{false, true} { // whether there was a counter before
		c := newChanging(t)
		if before {
			c.counter("invoice", 700)
		}
		must.Get(c.issue())(t)
		handOver := func() error { return factory.Handover(t.Context(), c.env(), "invoice") }
		c.failOver("f2")
		c.behind["invoice"] = true
		must.Code(t, handOver(), seqd.CodeStoreFailedOver, "a counter before: %v", before)
		if !before {
			must.Is(t, must.Err(c.Counters().Read(t.Context(), "invoice")), persist.ErrNotFound, "a counter was made")
			c.counter("invoice", 800)
		} else if _, err := c.Counters().Allocate(t.Context(), persist.Request{BizTag: "invoice", Floor: 800}); err != nil {
			t.Fatal(err)
		}
		delete(c.behind, "invoice")
		if err := handOver(); err != nil {
			t.Errorf("a counter before: %v: after the raise: %v", before, err)
		}
	}
}

// What a cursor still has of a time before the ledger is not issued after it.
func TestHandoverRetiresTheCursor(t *testing.T) {
	factory := must.Get(strategy.Lookup(gapless.Name))(t)
	c := newChanging(t)
	c.counter("invoice", 100)
	epoch := persist.NewEpoch()
	must.Get(c.Counters().Allocate(t.Context(), persist.Request{BizTag: "invoice", Size: 50, To: persist.NewCursor("", epoch)}))(t)
	for range 3 {
		must.Get(c.issue())(t)
	}
	for range 2 { // by each node
		must.Do(t, factory.Handover(t.Context(), c.env(), "invoice"))
		got, err := c.Counters().Read(t.Context(), "invoice")
		if err != nil || got.Epoch != "" || got.Max != 153 {
			t.Fatalf("the counter is %+v, %v", got, err)
		}
	}
	// A cursor that has begun since stays.
	must.Get(c.Counters().Allocate(t.Context(), persist.Request{BizTag: "invoice", Size: 50, To: persist.NewCursor("", epoch)}))(t)
	must.Do(t, factory.Handover(t.Context(), c.env(), "invoice"))
	if got, err := c.Counters().Read(t.Context(), "invoice"); err != nil || got.Epoch != epoch || got.Max != 203 {
		t.Errorf("the counter is %+v, %v", got, err)
	}
}
