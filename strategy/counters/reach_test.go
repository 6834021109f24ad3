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
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy"
)

// What becomes of the store is told when it changes. An answer that concerns one counter says
// nothing. While the store is away, one watcher asks it every second.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away, other, exhausted := errors.New("away"), errors.New("still away"), errors.New("exhausted")
		var looks atomic.Int32
		var answers atomic.Bool
		o := &events{}
		k := &reached{
			isAway: func(err error) bool { return err == away || err == other },
			look: func(context.Context) error {
				if looks.Add(1); answers.Load() {
					return exhausted
				}
				return away
			},
		}
		env := &strategy.Env{Log: slog.New(slog.DiscardHandler), Observer: o}
		r := NewFamily(Base{Env: env, BizType: &seqd.BizType{}, Settings: &Settings{}}, k, 1, 1, time.Second)
		for i, step := range []struct {
			err, why error
			told     int32
		}{
			{nil, nil, 0}, {exhausted, nil, 0}, {away, away, 1}, {other, other, 1}, {exhausted, other, 1}, {nil, nil, 2}, {away, away, 3},
		} {
			if r.Note(step.err); r.Away() != step.why || o.n.Load() != step.told {
				t.Errorf("after %d answers: %v, %d events", i+1, r.Away(), o.n.Load())
			}
		}
		if time.Sleep(3*lookPause + 1); looks.Load() != 3 || r.Away() == nil {
			t.Errorf("%d looks, %v", looks.Load(), r.Away())
		}
		answers.Store(true)
		if time.Sleep(lookPause); r.Away() != nil || o.n.Load() != 4 {
			t.Errorf("%v, %d events", r.Away(), o.n.Load())
		}
		if time.Sleep(time.Minute); looks.Load() != 4 {
			t.Errorf("%d looks at a store that answers", looks.Load())
		}
		k.look = func(ctx context.Context) error { looks.Add(1); <-ctx.Done(); return ctx.Err() }
		r.Note(away)
		time.Sleep(lookPause + 1)
		must.Report(t, r.Close(t.Context())) // a look that is cut off says nothing
		if time.Sleep(time.Minute); looks.Load() != 5 || r.Away() != away || o.n.Load() != 5 {
			t.Errorf("after the end %d looks, %v, %d events", looks.Load(), r.Away(), o.n.Load())
		}
	})
}

// reached is a kind of counters in a store that can be away.
type reached struct {
	Kind[*counter, fact]
	isAway func(error) bool
	look   func(context.Context) error
}

func (k *reached) IsAway(err error) bool                 { return k.isAway(err) }
func (k *reached) LookAtStore(ctx context.Context) error { return k.look(ctx) }

// events counts events.
type events struct {
	seqd.NopObserver
	n atomic.Int32
}

func (e *events) Event(seqd.Event) { e.n.Add(1) }
