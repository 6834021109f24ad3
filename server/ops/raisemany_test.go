package ops

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless/ledger"
	"github.com/seqd/seqd/strategy/segment"
)

// The strategy audit keeps ledgers. It has the settings of segments.
func init() {
	strategy.Register(strategy.Factory{
		Name: "audit", Ledger: true,
		Settings: func() any { s := segment.DefaultSettings(); return &s },
		New:      func(strategy.Env, seqd.BizType) (seqd.Strategy, error) { return nil, errors.ErrUnsupported },
		Shape:    func(seqd.BizType) string { return "audit" },
	})
}

// boltConfig returns a configuration with a store file that fill has filled.
func boltConfig(t *testing.T, fill func(persist.Store)) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seqd.db")
	cfg := must.Get(config.LoadYAML([]byte(`
store: {driver: bolt, bolt: {path: `+path+`}}
bizTypes:
  - {name: order}
  - {name: tenant, keyed: true}
  - {name: invoice, keyed: true, reset: yearly, plugins: [{name: format, template: "{date:2006}-{key}-{seq}"}]}
  - {name: bill, strategy: audit, start: 10}
  - {name: account, strategy: audit, keyed: true, reset: yearly, plugins: [{name: format, template: "{date:2006}-{key}-{seq}"}]}
  - {name: user, strategy: snowflake}
`), config.Sources{}))(t)
	inStore(t, cfg, fill)
	return cfg
}

// inStore opens the store for a moment.
func inStore(t *testing.T, cfg *config.Config, f func(persist.Store)) {
	t.Helper()
	store := must.Get(bolt.Open(bolt.Options{Path: cfg.Store.Place(), LockTimeout: time.Second, Now: time.Now}))(t)
	f(store)
	must.Do(t, store.Close())
}

// fillCounters creates counters with these highest numbers.
func fillCounters(t *testing.T, store persist.Store, highest map[string]int64) {
	t.Helper()
	for name, n := range highest {
		must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: name, Max: n, Step: 10}))
	}
}

// wantCounters checks the highest number of all counters.
func wantCounters(t *testing.T, cfg *config.Config, want map[string]int64) {
	t.Helper()
	inStore(t, cfg, func(store persist.Store) {
		got := make(map[string]int64)
		for c, err := range persist.EveryCounter(t.Context(), store.Counters()) {
			must.Do(t, err)
			got[c.BizTag] = c.Max
		}
		if !maps.Equal(got, want) {
			t.Errorf("the counters are %v, want %v", got, want)
		}
	})
}

// A key is raised like a biz type. One that is new takes one of the places for keys.
func TestRaiseKey(t *testing.T) {
	cfg := boltConfig(t, func(store persist.Store) {
		fillCounters(t, store, map[string]int64{"tenant/": 3, "tenant/a": 5, "invoice/a@2026": 7})
	})
	for _, step := range []struct {
		counter, said string
		number        int64
	}{
		{"tenant/a", "5 → 100", 100}, {"tenant/a", "nothing changed, it is at 100 already", 50},
		{"tenant/b", "no counter → 20: the store had none, and has one now", 20}, {"tenant/b", "20 → 30", 30},
		{"invoice/a@2026", "7 → 9", 9}, {"invoice/a@2027", "no counter → 9: the store had none, and has one now", 9},
	} {
		if r, err := Raise(t.Context(), cfg, step.counter, step.number, How{}); err != nil || r.String() != step.said {
			t.Errorf("%s: %q, %v, want %q", step.counter, r, err, step.said)
		}
	}
	want := map[string]int64{
		"tenant/": 4, "tenant/a": 100, "tenant/b": 30, "invoice/a@2026": 9, "invoice/a@2027": 9, "invoice/@2027": 1,
	}
	wantCounters(t, cfg, want)
	for counter, part := range map[string]string{
		"tenant": "tenant counts for each key on its own: name one, such as tenant/tenant-42", "tenant/": "name one",
		"tenant/-a": `key "-a"`, "tenant/a/b": `key "a/b"`, "tenant/a@2026": "the numbers of tenant never reset",
		"tenant/a@": "no counter is named", "order/a": "order has one counter for all callers", "order/": "no counter is named",
		"invoice/a": "invoice reset yearly: name the period, such as invoice/a@20", "invoice@2026": "name one",
		"invoice/a@202": "name the period", "invoice/@2026": "name one", "none/a": `there is no biz type "none"`,
	} {
		if r, err := Raise(t.Context(), cfg, counter, 7, How{}); !errors.Is(err, ErrRaise) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q, %v, want %q", counter, r, err, part)
		}
	}
	wantCounters(t, cfg, want)
}

func TestReadMarks(t *testing.T) {
	text := "\ufeff# highest numbers\n\norder 5\ninvoice/a@2026,7\r\norder,3\ninvoice/a@2026 6\ntenant/b\t 9007199254740991\n  tenant/c , 8"
	want := []Mark{{"order", 5}, {"invoice/a@2026", 7}, {"tenant/b", persist.MaxNumber}, {"tenant/c", 8}}
	if got, err := ReadMarks(strings.NewReader(text)); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for text, part := range map[string]string{
		"order 5\norder":             `line 2 is not a counter and a number: "order"`,
		"order 5 6":                  "line 1 is not",
		"counter,number":             `line 1: "number" is not a whole number`,
		"order 1e6":                  `"1e6" is not`,
		"order 0":                    "0 is outside 1 to 9007199254740991 (line 1)",
		"order -1":                   "-1 is outside",
		"order 9007199254740992":     "outside",
		"order 99999999999999999999": "is not a whole number",
		",5":                         "line 1",
	} {
		if got, err := ReadMarks(strings.NewReader(text)); !errors.Is(err, ErrRaise) || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, %v, want %q", text, got, err, part)
		}
	}
	if _, err := ReadMarks(strings.NewReader(strings.Repeat("x", 100_000))); err == nil {
		t.Error("a line of 100,000 characters was read")
	}
}

// Many counters are raised as their lines say. A name that is wrong changes nothing.
func TestRaiseAll(t *testing.T) {
	const many = 300
	cfg := boltConfig(t, func(store persist.Store) { fillCounters(t, store, map[string]int64{"order": 50}) })
	marks, want := []Mark{{"order", 40}}, map[string]int64{"order": 50, "tenant/": many}
	for i := range many {
		marks = append(marks, Mark{fmt.Sprint("tenant/k", i), int64(100 + i)})
		want[marks[i+1].Counter] = marks[i+1].Number
	}
	tell := func(string, Raised) { t.Error("something was raised") }
	wrong := append(slices.Clone(marks), Mark{"tenant", 5})
	must.Is(t, RaiseAll(t.Context(), cfg, wrong, How{}, tell), ErrRaise)
	must.Is(t, RaiseAll(t.Context(), cfg, nil, How{}, tell), ErrRaise)
	wantCounters(t, cfg, map[string]int64{"order": 50})
	for range 2 { // a repeat changes nothing
		told := make(map[string]bool)
		must.Do(t, RaiseAll(t.Context(), cfg, marks, How{}, func(counter string, r Raised) { told[counter] = true }))
		if len(told) != many+1 {
			t.Errorf("%d were told", len(told))
		}
		wantCounters(t, cfg, want)
	}
}

// All counters of a biz type are raised by the same gap, and no others: not those that count keys.
func TestRaiseBy(t *testing.T) {
	before := map[string]int64{
		"order": 50, "tenant/": 2, "tenant/a": 5, "tenant/b": 6, "tenant-2": 9, "invoice/@2026": 1, "invoice/a@2026": 7, "invoice/a@2025": 3,
		"tenant/c": persist.MaxNumber - 3,
	}
	cfg := boltConfig(t, func(store persist.Store) { fillCounters(t, store, before) })
	for _, step := range []struct {
		by   By
		want map[string]int64
	}{
		{By{BizType: "tenant", Gap: 10}, map[string]int64{"tenant/a": 15, "tenant/b": 16, "tenant/c": persist.MaxNumber}},
		{By{BizType: "invoice@2026", Gap: 10}, map[string]int64{"invoice/a@2026": 17}},
		{By{BizType: "invoice", Gap: 1}, map[string]int64{"invoice/a@2026": 18, "invoice/a@2025": 4}},
		{By{BizType: "order", Gap: 0}, map[string]int64{"order": 50}},
	} {
		told := make(map[string]int64)
		if err := RaiseBy(t.Context(), cfg, step.by, How{}, func(counter string, r Raised) { told[counter] = r.After }); err != nil || !maps.Equal(told, step.want) {
			t.Errorf("%+v: %v, %v, want %v", step.by, told, err, step.want)
		}
		maps.Copy(before, step.want)
		wantCounters(t, cfg, before)
	}
	for _, test := range []struct {
		by   By
		part string
	}{
		{By{BizType: "tenant", Gap: -1}, "-1 is outside 0"}, {By{BizType: "user", Gap: 1}, "seqd restored"}, {By{BizType: "none", Gap: 1}, "no biz type"},
		{By{BizType: "tenant@2026", Gap: 1}, "no such counter"}, {By{BizType: "invoice@20", Gap: 1}, "no period is named"},
		{By{BizType: "invoice@2030", Gap: 1}, "the store has no such counter of invoice@2030"}, {By{BizType: "tenant", Stopped: true}, "not gapless"},
		{By{BizType: "bill", Gap: 1}, "no such counter"}, {By{BizType: "tenant/a@2026", Gap: 1}, "name tenant without a key, or raise tenant/a@2026 to a NUMBER"},
	} {
		if err := RaiseBy(t.Context(), cfg, test.by, How{}, func(string, Raised) { t.Error("something was raised") }); !errors.Is(err, ErrRaise) || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%+v: %v, want %q", test.by, err, test.part)
		}
	}
	wantCounters(t, cfg, before)
}

// readState returns the ledger of a counter.
func readState(t *testing.T, store persist.Store, counter string) *ledger.State {
	t.Helper()
	doc := must.Get(store.Documents().Read(t.Context(), persist.LedgerKind, counter))(t)
	return must.Get(ledger.Decode(&doc))(t)
}

// writeState creates or changes the ledger of a counter by operations.
func writeState(t *testing.T, store persist.Store, counter, fence string, ops ...ledger.Op) {
	t.Helper()
	policy := ledger.Policy{Start: 1, TTL: 60_000, MaxReserved: 100}
	state := ledger.Fresh(&policy, "born", fence)
	if doc, err := store.Documents().Read(t.Context(), persist.LedgerKind, counter); err == nil {
		if state, err = ledger.Decode(&doc); err != nil {
			t.Fatal(err)
		}
	}
	for _, op := range ops {
		must.Get(state.Apply(time.Now().UnixMilli(), &policy, &op, &ledger.Looked{}))(t)
	}
	doc, err := state.Document(counter, time.Now().UnixMilli())
	if err == nil && doc.Revision == 1 {
		err = store.Documents().Create(t.Context(), doc)
	} else if err == nil {
		err = store.Documents().Update(t.Context(), doc)
	}
	must.Do(t, err)
}

const reservation = "0123456789abcdef0123"

// Of a gapless counter what lies between becomes void, and so does what was released. What is
// reserved can be confirmed. A counter that the store has lost begins above.
func TestRaiseLedger(t *testing.T) {
	cfg := boltConfig(t, func(store persist.Store) {
		writeState(t, store, "bill", "", ledger.Op{Kind: ledger.Issue, Count: 10},
			ledger.Op{Kind: ledger.Reserve, Count: 2, ID: reservation, Caller: "shop"},
			ledger.Op{Kind: ledger.Reserve, Count: 3, ID: strings.ReplaceAll(reservation, "0", "a"), Caller: "shop"},
			ledger.Op{Kind: ledger.Release, ID: strings.ReplaceAll(reservation, "0", "a"), Caller: "shop"})
		fillCounters(t, store, map[string]int64{"account/b@2026": 40}) // of another strategy, before
	})
	for _, step := range []struct {
		counter string
		number  int64
		said    string
	}{
		{"bill", 20, "15 → 20; 8 numbers became void; 2 are reserved and can be confirmed, unless they were released"},
		{"bill", 20, "nothing changed, it is at 20 already; 2 are reserved and can be confirmed, unless they were released"},
		{"bill", 7, "nothing changed, it is at 20 already; 2 are reserved and can be confirmed, unless they were released"},
		{"account/a@2026", 3, "no counter → 3: the store had none, and has one now; 3 numbers became void"},
		{"account/b@2026", 50, "no counter → 50: the store had none, and has one now; 10 numbers became void"},
	} {
		if r, err := Raise(t.Context(), cfg, step.counter, step.number, How{}); err != nil || r.String() != step.said {
			t.Errorf("%s: %q, %v, want %q", step.counter, r, err, step.said)
		}
	}
	inStore(t, cfg, func(store persist.Store) {
		state := readState(t, store, "bill")
		gaps, _ := state.Account(&ledger.Policy{}, 0, 10, nil, false)
		if state.Last != 20 || state.NumIssued() != 10 || state.NumReleased() != 0 || state.Voids != 8 {
			t.Errorf("%+v", state)
		}
		for _, gap := range gaps {
			if gap.State == seqd.GapVoid && (gap.Reason != raiseReason || gap.By != raiser) {
				t.Errorf("%+v", gap)
			}
		}
		if r := state.Reservation(reservation); r == nil || !r.Suspect {
			t.Errorf("the reservation is %+v", r)
		}
		if c, err := store.Counters().Read(t.Context(), "account/@2026"); err != nil || c.Max != 2 {
			t.Errorf("%+v, %v: two keys took a place each", c, err)
		}
	})
	told := make(map[string]int64)
	err := RaiseBy(t.Context(), cfg, By{BizType: "account@2026", Gap: 5}, How{}, func(counter string, r Raised) { told[counter] = r.After })
	if want := (map[string]int64{"account/a@2026": 8, "account/b@2026": 55}); err != nil || !maps.Equal(told, want) {
		t.Errorf("%v, %v, want %v", told, err, want)
	}
}

// A period that was closed because the store's clock was ahead is opened, and its numbers stay.
func TestRaiseOpensLedger(t *testing.T) {
	cfg := boltConfig(t, func(store persist.Store) {
		writeState(t, store, "account/a@2026", "", ledger.Op{Kind: ledger.Issue, Count: 3},
			ledger.Op{Kind: ledger.Issue, Count: 1, Once: "order", Recall: true, Close: true})
	})
	for _, want := range []string{
		"it stays at 3; it takes requests with an Idempotency-Key again", "nothing changed, it is at 3 already",
	} {
		must.Do(t, RaiseBy(t.Context(), cfg, By{BizType: "account@2026"}, How{}, func(_ string, r Raised) {
			must.Equal(t, r.String(), want)
		}))
	}
}
