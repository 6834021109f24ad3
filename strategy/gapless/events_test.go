package gapless_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless"
)

// The event of a reservation that expired names it as callers know it, whatever it counts for.
func TestExpiryIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		reset  seqd.Reset
		key    string
		period string
	}{"plain": {reset: seqd.ResetNever}, "keyed": {seqd.ResetNever, "t1", ""}, "monthly": {seqd.ResetMonthly, "", `"period":"2000-01",`}, "both": {seqd.ResetDaily, "t1", `"period":"2000-01-01",`}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New(time.Now)
				settings := patient()
				settings.Reset, settings.Keyed = test.reset, test.key != ""
				env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
				s := must.Get(gapless.New(env, seqd.BizType{Name: "invoice", Strategy: gapless.Name, Settings: &settings, Events: true}))(t)
				must.Do(t, s.Init(t.Context(), true))
				var seq seqd.Sequence
				seq.For(test.key)
				r, _, err := s.HandOut(t.Context(), seqd.Order{Count: 2, Reserve: true, TTL: time.Second}, &seq)
				must.Do(t, err)
				time.Sleep(2 * time.Second)
				must.Do(t, s.Reclaim(t.Context(), test.key, seq.Period()))
				must.Do(t, s.Close(t.Context()))
				docs := must.Get(store.Documents().List(t.Context(), persist.EventKind, "", 9))(t)
				must.Equal(t, len(docs), 1)
				if body := docs[0].Body; !strings.Contains(body, `"reservation":"`+r.ID+`"`) || !strings.Contains(body, test.period) || !strings.Contains(body, persist.EventExpired) {
					t.Errorf("%s does not tell of %s", body, r.ID)
				}
			})
		})
	}
}
