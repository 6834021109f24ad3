package ops

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// newStopped returns a store that failed over, with a ledger that was changed since, and two that
// were not.
func newStopped(t *testing.T) (*failingOver, *config.Config) {
	t.Helper()
	store := newFailedOver(t)
	cfg := must.Get(config.LoadYAML([]byte(`
store: {driver: memory}
bizTypes:
  - {name: order}
  - {name: tenant, keyed: true}
  - {name: bill, strategy: audit}
  - {name: receipt, strategy: audit}
  - {name: account, strategy: audit, keyed: true}
`), config.Sources{}))(t)
	fillCounters(t, store.Store, map[string]int64{"tenant/": 2, "tenant/a": 5, "tenant/b": 6})
	store.old["tenant/a"] = true
	writeState(t, store, "bill", "7/1", ledger.Op{Kind: ledger.Issue, Count: 10})
	writeState(t, store, "account/a", "7/1", ledger.Op{Kind: ledger.Issue, Count: 5})
	writeState(t, store, "account/b", "7/2", ledger.Op{Kind: ledger.Issue, Count: 6})
	return store, cfg.ForRepair()
}

// A failover names the gapless counters that stand still, also after it was confirmed, until they
// are raised. What counts keys is no counter.
func TestFailoverOfLedgers(t *testing.T) {
	store, cfg := newStopped(t)
	say := func(confirm bool) string {
		t.Helper()
		var said strings.Builder
		must.Get((failover{cfg, store, store, &said}).run(t.Context(), confirm))(t)
		return said.String()
	}
	text := say(false)
	for _, part := range []string{
		"bill: at 10, gapless; stands still until it is raised\n", "account/a: at 5, gapless; stands still", "receipt: no counter; it is new, or lost\n",
		"tenant: 2 counters of keys; those of keys that are new may be lost\n", "account: 2 counters of keys", "tenant/a: at 5; continues above a gap\n",
		keyedAdvice, gaplessAdvice,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("it does not say %q:\n%s", part, text)
		}
	}
	for _, part := range []string{"account/b", "tenant/:", "bill: no counter", "account: no counter"} {
		if strings.Contains(text, part) {
			t.Errorf("it says %q:\n%s", part, text)
		}
	}
	for range 2 {
		if text := say(true); !strings.Contains(text, "bill: at 10") || !strings.Contains(text, gaplessAdvice) {
			t.Errorf("after it was confirmed:\n%s", text)
		}
	}
	f := &repair{cfg: cfg, store: store, known: map[string]seqd.BizType{}}
	raiseStopped(t, f, "bill", 0)
	raiseStopped(t, f, "account", 100)
	if text := say(false); strings.Contains(text, "gapless") {
		t.Errorf("after they were raised:\n%s", text)
	}
}

// raiseStopped raises the counters of a biz type that stand still.
func raiseStopped(t *testing.T, f *repair, bizType string, gap int64) (told []string) {
	t.Helper()
	jobs, err := f.jobsOf(t.Context(), By{BizType: bizType, Gap: gap, Stopped: true})
	if err == nil {
		err = f.raiseMany(t.Context(), jobs, func(counter string, r Raised) { told = append(told, counter+": "+r.String()) })
	}
	must.Do(t, err)
	return told
}

// Only what stands still is raised, and issues again under the present fence.
func TestRaiseStopped(t *testing.T) {
	store, cfg := newStopped(t)
	f := &repair{cfg: cfg, store: store, known: map[string]seqd.BizType{}}
	if told := raiseStopped(t, f, "account", 100); !slices.Equal(told, []string{"account/a: 5 → 105; 100 numbers became void; it issues again"}) {
		t.Errorf("%q", told)
	}
	if told := raiseStopped(t, f, "bill", 0); !slices.Equal(told, []string{"bill: it stays at 10; it issues again"}) {
		t.Errorf("%q", told)
	}
	got := make(map[string]string)
	for _, name := range []string{"bill", "account/a", "account/b"} {
		got[name] = readState(t, store, name).Fence
	}
	if want := map[string]string{"bill": "7/2", "account/a": "7/2", "account/b": "7/2"}; !maps.Equal(got, want) {
		t.Errorf("the fences are %v", got)
	}
	for _, bizType := range []string{"account", "bill"} {
		if told := raiseStopped(t, f, bizType, 5); len(told) > 0 { // a repeat
			t.Errorf("%q", told)
		}
	}
}

// newBill returns the strategy of a gapless biz type on a store.
func newBill(t *testing.T, store persist.Store, bizType seqd.BizType, fresh bool) seqd.Strategy {
	t.Helper()
	factory := must.Get(strategy.Lookup("gapless"))(t)
	s, err := factory.New(strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, Addr: "a:1"}, bizType)
	if err == nil {
		err = s.Init(t.Context(), fresh)
	}
	must.Do(t, err)
	return s
}

// nextOf returns the next number of a strategy.
func nextOf(t *testing.T, s seqd.Strategy) (int64, error) {
	t.Helper()
	seq := new(seqd.Sequence)
	if err := s.Generate(t.Context(), 1, seq); err != nil {
		return 0, err
	}
	return seq.First(), nil
}

// A node whose gapless counter stands still after a failover issues again as soon as an operator
// has raised it: above what callers got. So does a node that starts then.
func TestRaiseWhileANodeRuns(t *testing.T) {
	store := newFailedOver(t)
	store.fence = persist.Fence{Current: "7/1", Confirmed: "7/1"}
	cfg := must.Get(config.LoadYAML([]byte("store: {driver: memory}\nbizTypes: [{name: bill, strategy: gapless, acquireTimeout: 1m}]\nserver: {writeTimeout: 1h}\n"), config.Sources{}))(t)
	node := newBill(t, store, cfg.BizTypes[0], true)
	for want := int64(1); want <= 5; want++ {
		if n, err := nextOf(t, node); err != nil || n != want {
			t.Fatalf("%d, %v, want %d", n, err, want)
		}
	}
	store.fence.Current = "7/2"
	for range 2 {
		if n, err := nextOf(t, node); seqd.CodeOf(err) != seqd.CodeStoreFailedOver {
			t.Fatalf("%d, %v: the server may have lost numbers", n, err)
		}
	}
	f := &repair{cfg: cfg.ForRepair(), store: store, known: map[string]seqd.BizType{}}
	target := must.Get(f.find(t.Context(), "bill"))(t)
	if r, err := f.raise(t.Context(), target, Mark{Number: 8}.atLeast); err != nil || r.String() != "5 → 8; 3 numbers became void; it issues again" {
		t.Fatalf("%q, %v", r, err)
	}
	store.fence.Confirmed = store.fence.Current
	await.Eventually(t, "it issues above 8", func() error {
		n, err := nextOf(t, node)
		if err == nil && n != 9 {
			t.Fatalf("after it was raised above 8: %d", n)
		}
		return err
	})
	must.Equal(t, must.Get(nextOf(t, newBill(t, store, cfg.BizTypes[0], false)))(t), 10, "a node that starts")
}

// A ledger that was lost is made under the present fence, although no node may make one.
func TestRaiseLostLedger(t *testing.T) {
	store, cfg := newStopped(t)
	f := &repair{cfg: cfg, store: store, known: map[string]seqd.BizType{}}
	target := must.Get(f.find(t.Context(), "account/lost"))(t)
	r, err := f.raise(t.Context(), target, Mark{Number: 30}.atLeast)
	if err != nil || !r.Created || r.After != 30 {
		t.Errorf("%+v, %v", r, err)
	}
	if s := readState(t, store, "account/lost"); s.Fence != "7/2" || s.Last != 30 || s.Voids != 30 {
		t.Errorf("%+v", s)
	}
	if c, err := store.Store.Counters().Read(t.Context(), "account/"); err != nil || c.Max != 1 {
		t.Errorf("the key takes no place: %+v, %v", c, err)
	}
}
