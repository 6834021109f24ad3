package ops

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
)

// failingOver is a store whose server can fail over. Counters that were written before the failover
// are named in old.
type failingOver struct {
	persist.Store
	fence persist.Fence
	old   map[string]bool
}

func (f *failingOver) Counters() persist.Counters { return failedCounters{f.Store.Counters(), f} }

func (f *failingOver) Lossy() bool { return true }

func (f *failingOver) Fence(context.Context) (persist.Fence, error) { return f.fence, nil }

func (f *failingOver) ConfirmFence(_ context.Context, current string) error {
	if current != f.fence.Current {
		return persist.ErrConflict
	}
	f.fence.Confirmed = current
	return nil
}

func (f *failingOver) CreateLost(ctx context.Context, c persist.Counter) error {
	return f.Store.Counters().Create(ctx, c)
}

func (f *failingOver) CreateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != f.fence.Current {
		return persist.ErrFailedOver
	}
	return f.Documents().Create(ctx, d)
}

func (f *failingOver) UpdateFenced(ctx context.Context, d persist.Document, fence string) error {
	if fence != f.fence.Current {
		return persist.ErrFailedOver
	}
	return f.Documents().Update(ctx, d)
}

type failedCounters struct {
	persist.Counters
	f *failingOver
}

func (c failedCounters) marked(known persist.Counter) persist.Counter {
	if c.f.old[known.BizTag] {
		known.FailedOver, known.Failovers, known.Epoch = true, 1, ""
	}
	return known
}

func (c failedCounters) Read(ctx context.Context, name string) (persist.Counter, error) {
	known, err := c.Counters.Read(ctx, name)
	return c.marked(known), err
}

func (c failedCounters) List(ctx context.Context, after string, limit int) ([]persist.Counter, error) {
	list, err := c.Counters.List(ctx, after, limit)
	for i := range list {
		list[i] = c.marked(list[i])
	}
	return list, err
}

func (c failedCounters) Create(ctx context.Context, counter persist.Counter) error {
	if c.f.fence.FailedOver() {
		return persist.ErrFailedOver
	}
	return c.Counters.Create(ctx, counter)
}

func (c failedCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if c.f.old[req.BizTag] {
		delete(c.f.old, req.BizTag)
		known, err := c.Counters.Read(ctx, req.BizTag)
		if err != nil {
			return persist.Range{}, err
		}
		req.Floor = max(req.Floor, known.Max) + req.FailoverGap
	}
	return c.Counters.Allocate(ctx, req)
}

// newFailedOver returns a store that has the counters order, written before the failover, and
// refund, written after it.
func newFailedOver(t *testing.T) *failingOver {
	t.Helper()
	f := &failingOver{Store: memory.New(time.Now), fence: persist.Fence{Current: "7/2", Confirmed: "7/1"}, old: map[string]bool{"order": true}}
	for name, most := range map[string]int64{"order": 5000, "refund": 70} {
		must.Do(t, f.Store.Counters().Create(t.Context(), persist.Counter{BizTag: name, Max: most, Step: 100}))
	}
	return f
}

func newFailoverConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg := must.Get(config.LoadYAML([]byte(`
store: {driver: memory}
segment: {restoreGap: 2000}
bizTypes:
  - {name: order}
  - {name: refund}
  - {name: invite}
  - {name: invoice, reset: yearly, plugins: [{name: format, template: "{date:2006}-{seq}"}]}
  - {name: user, strategy: snowflake}
`), config.Sources{}))(t)
	return cfg
}

// A failover is shown with what may be lost until it is confirmed, once.
func TestFailover(t *testing.T) {
	store := newFailedOver(t)
	var said strings.Builder
	f := failover{newFailoverConfig(t).ForRepair(), store, store, &said}
	period := time.Now().UTC().Format("2006")
	for i, step := range []struct {
		confirm, failedOver bool
		want                []string
	}{
		{false, true, []string{
			"FAILED OVER", "now        7/2", "confirmed  7/1", "order: at 5000; continues above a gap", "invite: no counter",
			"invoice@" + period + ": no counter", "seqd raise", "seqd failover --confirm",
		}},
		{true, false, []string{"confirmed: 7/2"}},
		{true, false, []string{"has not failed over"}},
		{false, false, []string{"has not failed over", "7/2"}},
	} {
		said.Reset()
		must.Equal(t, must.Get(f.run(t.Context(), step.confirm))(t), step.failedOver, "step %d", i)
		for _, want := range step.want {
			if !strings.Contains(said.String(), want) {
				t.Errorf("step %d: %q is not in:\n%s", i, want, &said)
			}
		}
		for _, never := range []string{"refund:", "user:"} {
			if strings.Contains(said.String(), never) {
				t.Errorf("step %d: %q is in:\n%s", i, never, &said)
			}
		}
	}
}

// A failover that comes while an operator confirms the previous one is not confirmed.
func TestFailoverDuringConfirm(t *testing.T) {
	store := newFailedOver(t)
	racing := racingFence{store}
	f := failover{newFailoverConfig(t), store, racing, new(strings.Builder)}
	if failedOver, err := f.run(t.Context(), true); !failedOver || !errors.Is(err, persist.ErrConflict) || store.fence.Confirmed != "7/1" {
		t.Errorf("%t, %v, %+v", failedOver, err, store.fence)
	}
}

type racingFence struct{ *failingOver }

func (r racingFence) Fence(ctx context.Context) (persist.Fence, error) {
	before, err := r.failingOver.Fence(ctx)
	r.fence.Current = "7/3"
	return before, err
}

// Stores of one node, and those that lose nothing, have no failover.
func TestNoFailover(t *testing.T) {
	must.Is(t, must.Err(Failover(t.Context(), newFailoverConfig(t), false, new(strings.Builder))), ErrFailover)
}

// After a failover nodes may hold ranges that the store has lost, so numbers continue a gap above
// the one that an operator names. A counter that is missing is created although no node may.
func TestRaiseAfterAFailover(t *testing.T) {
	const gap = 10_000 // ten steps of 1000, which is more than restoreGap
	settings := newFailoverConfig(t).BizTypes[0].Settings
	for name, test := range map[string]struct {
		number, max int64
		text        string
	}{
		"order":  {9000, 9000 + gap, "5000 → 19000"},
		"refund": {500, 500, "70 → 500"}, // it was written since
		"invite": {500, 500 + gap, "no counter → 500: the store had none, and has one now"},
	} {
		store := newFailedOver(t)
		list := countersOf(store, settings)
		raised, err := raise(t.Context(), list, name, test.number, time.Now())
		if err != nil || raised.String() != test.text {
			t.Errorf("%s: %q, %v", name, raised, err)
		}
		if known, err := list.Read(t.Context(), name); err != nil || known.Max != test.max || known.FailedOver {
			t.Errorf("%s is %+v, %v", name, known, err)
		}
	}
	// A number that is too low says nothing, and the gap is left for the next range.
	store := newFailedOver(t)
	raised, err := raise(t.Context(), countersOf(store, settings), "order", 5000, time.Now())
	known, _ := store.Counters().Read(t.Context(), "order")
	if err != nil || raised.Before != raised.After || !known.FailedOver || known.Max != 5000 {
		t.Errorf("%q, %v: %+v", raised, err, known)
	}
}

// Near the end of all numbers the gap is at most half of what is left.
func TestRaiseNearTheEndAfterAFailover(t *testing.T) {
	list := countersOf(newFailedOver(t), newFailoverConfig(t).BizTypes[0].Settings)
	must.Get(raise(t.Context(), list, "invite", persist.MaxNumber-10, time.Now()))(t)
	if known, err := list.Read(t.Context(), "invite"); err != nil || known.Max != persist.MaxNumber-5 {
		t.Errorf("%+v, %v", known, err)
	}
}
