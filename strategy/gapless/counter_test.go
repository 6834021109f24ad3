package gapless

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// A caller whose operation ended as its time did gets what it asked for. A counter that is closed
// takes no operation. Periods that are known to be bare are forgotten before they are too many.
func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := DefaultSettings()
		env := strategy.Env{Store: memory.New(time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
		s := must.Get(New(env, seqd.BizType{Name: "invoice", Settings: &settings}))(t)
		must.Do(t, s.Init(t.Context(), true))
		c := s.counter(counters.Name{})
		w := &waiter{done: make(chan struct{})}
		w.Op, w.Tag = ledger.Op{Kind: ledger.Issue, Count: 1}, w
		must.Do(t, c.submit(w))
		<-w.done
		if res, err := c.abandon(w, nil); err != nil || ledger.Count(res.Runs) != 1 {
			t.Errorf("%+v, %v", res, err)
		}
		must.Do(t, c.close(t.Context()))
		must.Code(t, must.Err(c.do(t.Context(), w.Op)), seqd.CodeStopping)
		for p := range seqd.Period(mostBare + 1) {
			must.Do(t, s.lookIfBare(t.Context(), counters.Name{Period: p}, nil))
		}
		must.Equal(t, len(s.bare), 1, "how many are bare")
		must.Do(t, s.Close(t.Context()))
		time.Sleep(time.Minute)
	})
}
