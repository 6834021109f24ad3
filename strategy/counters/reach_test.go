package counters

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy"
)

// What becomes of the store is told when it changes. An answer that concerns one counter says
// nothing. While the store is away, one watcher asks it every second.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		away, other, exhausted := errors.New("away"), errors.New("still away"), errors.New("exhausted")
		var looks atomic.Int32
		var answers atomic.Bool
		o := &events{}
		r := Reach{
			Env: &strategy.Env{Log: slog.New(slog.DiscardHandler), Observer: o}, Running: ctx,
			IsAway: func(err error) bool { return err == away || err == other },
			Look: func(context.Context) error {
				if looks.Add(1); answers.Load() {
					return exhausted
				}
				return away
			},
		}
		for i, step := range []struct {
			err, why error
			told     int32
		}{
			{nil, nil, 0}, {exhausted, nil, 0}, {away, away, 1}, {other, other, 1}, {exhausted, other, 1}, {nil, nil, 2}, {away, away, 3},
		} {
			if r.Note(step.err); r.Why() != step.why || o.n.Load() != step.told {
				t.Errorf("after %d answers: %v, %d events", i+1, r.Why(), o.n.Load())
			}
		}
		if time.Sleep(3*lookPause + 1); looks.Load() != 3 || r.Why() == nil {
			t.Errorf("%d looks, %v", looks.Load(), r.Why())
		}
		answers.Store(true)
		if time.Sleep(lookPause); r.Why() != nil || o.n.Load() != 4 {
			t.Errorf("%v, %d events", r.Why(), o.n.Load())
		}
		if time.Sleep(time.Minute); looks.Load() != 4 {
			t.Errorf("%d looks at a store that answers", looks.Load())
		}
		r.Look = func(ctx context.Context) error { looks.Add(1); <-ctx.Done(); return ctx.Err() }
		r.Note(away)
		time.Sleep(lookPause + 1)
		end() // a look that is cut off says nothing
		if time.Sleep(time.Minute); looks.Load() != 5 || r.Why() != away || o.n.Load() != 5 {
			t.Errorf("after the end %d looks, %v, %d events", looks.Load(), r.Why(), o.n.Load())
		}
	})
}

// events counts events.
type events struct {
	seqd.NopObserver
	n atomic.Int32
}

func (e *events) Event(seqd.Event) { e.n.Add(1) }
