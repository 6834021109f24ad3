package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// audit is the settings of a strategy that keeps ledgers.
type audit struct {
	Keyed       bool  `config:"keyed"`
	MaxKeys     int64 `config:"maxKeys"`
	MaxReserved int   `config:"maxReserved"`
}

func init() {
	strategy.Register(strategy.Factory{
		Name: "audit", Ledger: true,
		Settings: func() any { return &audit{MaxKeys: 100, MaxReserved: 1000} },
		New:      func(strategy.Env, seqd.BizType) (seqd.Strategy, error) { return nil, errors.ErrUnsupported },
		Shape:    func(seqd.BizType) string { return "audit" },
	})
}

// boltFilled creates a store that fill has filled.
func boltFilled(t *testing.T, fill func(persist.Store)) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "seqd.db")
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	must.Get(persist.ClusterID(t.Context(), store, time.Now))(t)
	fill(store)
	must.Do(t, store.Close())
	return path
}

// keepLedger creates a gapless counter by operations.
func keepLedger(t *testing.T, store persist.Store, counter, fence string, at time.Time, ops ...ledger.Op) {
	t.Helper()
	policy := ledger.Policy{Start: 1, TTL: 60_000, MaxReserved: 1000}
	state := ledger.Fresh(&policy, "born", fence)
	for _, op := range ops {
		must.Get(state.Apply(at.UnixMilli(), &policy, &op, nil))(t)
	}
	doc, err := state.Document(counter, at.UnixMilli())
	if err == nil {
		err = store.Documents().Create(t.Context(), doc)
	}
	must.Do(t, err)
}

// The counters of keys are counted for each biz type and period. They are named only if few numbers
// are left, and what counts keys is no counter.
func TestKeys(t *testing.T) {
	path := boltFilled(t, func(store persist.Store) {
		list := map[string]int64{"tenant/": 999, "tenant/full-0": 999_999, "invoice/@2025": 5, "order@": 20260101}
		for i := range 19 {
			list[fmt.Sprint("tenant/k", i)] = 5
		}
		for i := range 12 {
			list[fmt.Sprint("invoice/k", i, "@2025")] = 999_999
		}
		list["invoice/k@2026"] = 3
		for name, most := range list {
			must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: name, Max: most, Step: 10}))
		}
	})
	d := examined(t, boltText(path, `{name: order}, {name: tenant, keyed: true, maxKeys: 20, plugins: [{name: obfuscate, digits: 6, key: "12345678"}]}, `+
		`{name: invoice, keyed: true, reset: yearly, maxKeys: 100, plugins: [{name: obfuscate, digits: 6, key: "12345678"}, {name: format, template: "{date:2006}-{key}-{seq}"}]}`))
	list := run(t, storeCheck{d}.run)
	want(t, list, Warn, "tenant.maxKeys", "tenant has 20 of at most 20 keys")
	want(t, list, OK, "invoice.maxKeys", "invoice@2025 has 12 keys")
	want(t, list, OK, "invoice.maxKeys", "invoice@2026 has 1 keys")
	want(t, list, Warn, "counters", "of 3 more counters of keys")
	want(t, list, OK, "counters", "33 can be read")
	named := 0
	for _, f := range list {
		if strings.HasPrefix(f.Subject, "tenant/") || strings.HasPrefix(f.Subject, "invoice/") {
			named++
		}
		if strings.HasPrefix(f.Subject, "tenant/k") || strings.HasPrefix(f.Subject, "order") {
			t.Errorf("%+v", f)
		}
	}
	must.Equal(t, named, mostKeysNamed, "the counters named")
}

func TestLedgers(t *testing.T) {
	path := boltFilled(t, func(store persist.Store) {
		keepLedger(t, store, "bill/a", "", noon, ledger.Op{Kind: ledger.Reserve, Count: 9, ID: strings.Repeat("a", 20)})
		keepLedger(t, store, "bill/b", "", noon, ledger.Op{Kind: ledger.Reserve, Count: 8, ID: strings.Repeat("a", 20)})
		old := time.Now().Add(-2 * longReleased)
		keepLedger(t, store, "bill/c", "", old, ledger.Op{Kind: ledger.Reserve, Count: 8, ID: strings.Repeat("a", 20)},
			ledger.Op{Kind: ledger.Release, ID: strings.Repeat("a", 20)})
		for key, body := range map[string]string{"bill/torn": "{", "other": "x"} {
			must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: persist.LedgerKind, Key: key, Revision: 1, Body: body}))
		}
		ahead := noon.Add(time.Hour).UnixMilli()
		must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: persist.BeatKind, Key: "nodes", Revision: 1, Timestamp: ahead}))
	})
	d := examined(t, boltText(path, `{name: bill, strategy: audit, keyed: true, maxReserved: 10}`))
	list := run(t, storeCheck{d}.run)
	want(t, list, Warn, "gapless counters", "of 1 more than 80 percent of maxReserved are reserved: bill/a")
	want(t, list, Fail, "gapless counters", "2 are damaged, or of a newer version: bill/torn, other")
	want(t, list, OK, "gapless counters", "5 were looked at")
	want(t, list, OK, "bill.maxKeys", "bill has 3 keys")
	want(t, list, Warn, "clock", "it is 1h0m0s behind the last sign of a node")
}

// afterFailover is a store whose server has the fence 7/2.
type afterFailover struct {
	persist.Store
	persist.Fenced
}

func (afterFailover) Fence(context.Context) (persist.Fence, error) {
	return persist.Fence{Current: "7/2", Confirmed: "7/2"}, nil
}

// Gapless counters that an operator has not raised since a failover stand still, also after it was
// confirmed. They are counted, and the first ones are named.
func TestLedgersThatStandStill(t *testing.T) {
	store := memory.New(time.Now)
	for i := range 12 {
		keepLedger(t, store, fmt.Sprintf("bill/%02d", i), "7/1", time.Now(), ledger.Op{Kind: ledger.Issue, Count: 5})
	}
	keepLedger(t, store, "order", "7/2", time.Now(), ledger.Op{Kind: ledger.Issue, Count: 5})
	f := &findings{}
	storeCheck{examined(t, "bizTypes: [{name: order}]")}.ledgers(t.Context(), f, afterFailover{Store: store}, nil)
	want(t, f.all(), Fail, "gapless counters", "12 stand still since the store failed over: bill/00, bill/01")
	for _, finding := range f.all() {
		if strings.Contains(finding.Found, "bill/10") {
			t.Errorf("%+v", finding)
		}
	}
}

// slow is a store whose list ends with the time of the check.
type slow struct{ persist.Store }

type slowDocuments struct{ persist.Documents }

func (s slow) Documents() persist.Documents { return slowDocuments{s.Store.Documents()} }

func (slowDocuments) List(ctx context.Context, _, _ string, _ int) ([]persist.Document, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// What could not be looked at in time is no damage.
func TestTooManyLedgers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &findings{}
	l := ledgersCheck{storeCheck: storeCheck{examined(t, "bizTypes: [{name: order}]")}, keys: newKeys(nil)}
	must.Is(t, l.look(ctx, slow{memory.New(time.Now)}), context.Canceled)
	l.ledgers(ctx, f, slow{memory.New(time.Now)}, nil)
	want(t, f.all(), Info, "gapless counters", "there was no time for more")
}
