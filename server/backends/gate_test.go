package backends

import (
	"errors"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// While the gate is shut nothing of the store answers; after that everything does.
func TestGate(t *testing.T) {
	g := &gate{Store: memory.New(time.Now)}
	ctx := t.Context()
	shape := persist.Shape{BizTag: "user", Shape: "snowflake"}
	counter := persist.Counter{BizTag: "order", Step: 1}
	set := persist.SlotSet{Incarnation: "0123456789abcdef0123456789abcdef", Layout: "l"}
	steps := []func() error{
		func() error { return g.Shapes().Create(ctx, shape) },
		func() error { _, err := g.Shapes().Read(ctx, "user"); return err },
		func() error { return g.Shapes().Update(ctx, shape) },
		func() error { _, err := g.Shapes().List(ctx, "", 1); return err },
		func() error { return g.Shapes().Delete(ctx, "user") },
		func() error { _, err := persist.ClusterID(ctx, g, time.Now); return err },
		func() error { return g.Counters().Create(ctx, counter) },
		func() error { _, err := g.Counters().Read(ctx, "order"); return err },
		func() error {
			_, err := g.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 1})
			return err
		},
		func() error {
			_, err := g.Counters().GiveBack(ctx, "order", persist.Range{First: 1, Last: 1})
			return err
		},
		func() error { _, err := g.Slots().Look(ctx, "r"); return err },
		func() error { _, err := g.Slots().Swap(ctx, "r", persist.SlotSwap{NewSet: &set}); return err },
		func() error { return g.Slots().Drop(ctx, "r") },
	}
	for i, step := range steps {
		if err := step(); !errors.Is(err, persist.ErrUnavailable) {
			t.Errorf("step %d, shut: %v", i, err)
		}
	}
	g.open.Store(true)
	for i, step := range steps {
		if err := step(); err != nil {
			t.Errorf("step %d, open: %v", i, err)
		}
	}
}
