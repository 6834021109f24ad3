package standings_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/standings"
	_ "github.com/seqd/seqd/standard"
)

// Show finds the present period by the clock of the store, and says what a biz type does not have.
func TestShow(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	store := memory.New(func() time.Time { return now })
	cfg := must.Get(config.LoadYAML([]byte(`
store: {driver: memory}
bizTypes:
  - {name: order}
  - {name: invoice, strategy: gapless, keyed: true, reset: yearly, plugins: [{name: format, template: "{date:2006}-{key}-{seq}"}]}
  - {name: user, strategy: snowflake}
`), config.Sources{}))(t)
	must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 7, Step: 1, Epoch: persist.StoreEpoch}))
	r := &standings.Reader{Config: cfg, Store: store}
	must.Equal(t, must.Get(r.Show(t.Context(), "order", "", 0))(t),
		admin.Standing{Counter: "order", BizType: "order", Highest: 7, Strategy: "segment", Sequencer: "store"})
	must.Equal(t, must.Get(r.Show(t.Context(), "invoice", "a", 0))(t),
		admin.Standing{Counter: "invoice/a@2026", BizType: "invoice", Key: "a", Period: "2026", Strategy: "gapless", Sequencer: "ledger"})
	yesterday := seqd.ResetDaily.Of(now.AddDate(0, 0, -1))
	for _, test := range []struct {
		bizType, key string
		period       seqd.Period
		want         seqd.Code
	}{
		{"nobody", "", 0, seqd.CodeUnknownBizType},
		{"order", "a", 0, seqd.CodeInvalidKey},
		{"order", "", yesterday, seqd.CodeInvalidRequest},
		{"invoice", "", 0, seqd.CodeInvalidKey},
		{"invoice", "a", yesterday, seqd.CodeInvalidRequest},
		{"user", "", 0, seqd.CodeInvalidRequest},
	} {
		_, err := r.Show(t.Context(), test.bizType, test.key, test.period)
		if e, ok := errors.AsType[*seqd.Error](err); !ok || e.Code != test.want {
			t.Errorf("%+v: %v", test, err)
		}
	}
	must.Do(t, store.Close())
	_, err := r.Show(t.Context(), "order", "", 0)
	if e, ok := errors.AsType[*seqd.Error](err); !ok || e.Code != seqd.CodeStoreUnavailable {
		t.Error(err)
	}
}

// failedOver is a store that has failed over: its counters may have lost what was taken last.
type failedOver struct{ persist.Store }

type failedOverCounters struct{ persist.Counters }

func (s failedOver) Counters() persist.Counters { return failedOverCounters{s.Store.Counters()} }

func (c failedOverCounters) Read(ctx context.Context, name string) (persist.Counter, error) {
	known, err := c.Counters.Read(ctx, name)
	known.FailedOver, known.Epoch = true, ""
	return known, err
}

// After a failover numbers above the highest one may have been issued, and a counter says so.
func TestShowAfterFailover(t *testing.T) {
	store := memory.New(time.Now)
	must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 7, Step: 1}))
	cfg := must.Get(config.LoadYAML([]byte("store: {driver: memory}\nbizTypes: [{name: order}]"), config.Sources{}))(t)
	r := &standings.Reader{Config: cfg, Store: failedOver{store}}
	must.Equal(t, must.Get(r.Show(t.Context(), "order", "", 0))(t),
		admin.Standing{Counter: "order", BizType: "order", Highest: 7, Strategy: "segment", Sequencer: "node", FailedOver: true})
}
