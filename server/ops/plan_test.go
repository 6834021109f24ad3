package ops

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// What looks like a slip is refused and changes nothing, and a dry run says what would become of
// it.
func TestRaiseSlips(t *testing.T) {
	before := map[string]int64{"order": 5100, "tenant/a": 3_000_000, "tenant/b": 5}
	cfg := boltConfig(t, func(store persist.Store) {
		fillCounters(t, store, before)
		writeState(t, store, "bill", "", ledger.Op{Kind: ledger.Issue, Count: 500}, ledger.Op{Kind: ledger.Issue, Count: 500})
	})
	for _, test := range []struct {
		counter  string
		number   int64
		would    string
		refused  string // "" if it is not
		isCommon bool   // it is refused for one counter only, not in a file
	}{
		{"order", 200_000, "at 5100, would be at 200000", "", false},
		{"order", 1_005_100, "at 5100, would be at 1005100", "", false},
		{"order", 1_005_101, "at 5100, would be at 1005101", "order stands at 5100, and 1000001 numbers would be skipped for good", false},
		{"order", 900_000_000_000, "at 5100, would be at 900000000000", "this looks like a slip", false},
		{"order", 1, "at 5100, would stay there", "", false},
		{"tenant/a", 6_000_000, "at 3000000, would be at 6000000", "", false},
		{"tenant/a", 6_000_001, "at 3000000, would be at 6000001", "tenant/a stands at 3000000", false},
		{"tenant/new", 1_000_000, "the store has no counter; it would have one at 1000000", "", false},
		{"tenant/new", 2, "the store has no counter; it would have one at 2", "", false},
		{"tenant/new", 1, "the store has no counter; it would have one at 1", "nothing was issued of tenant/new", true},
		{"bill", 2000, "at 1000, would be at 2000; 1000 numbers would become void", "", false},
		{"bill", 2010, "at 1000, would be at 2010; 1010 numbers would become void", "bill stands at 1000, and 1010 numbers", false},
		{"account/a@2026", 10, "the store has no counter; it would have one at 10; 10 numbers would become void", "", false},
		{"account/a@2026", 1001, "the store has no counter; it would have one at 1001; 1001 numbers would become void", "1001 numbers would be skipped", false},
	} {
		r, err := Raise(t.Context(), cfg, test.counter, test.number, How{DryRun: true})
		if err != nil || r.String() != test.would {
			t.Errorf("%s %d: %q, %v, want %q", test.counter, test.number, r, err, test.would)
		}
		if test.refused == "" {
			continue
		}
		if r, err := Raise(t.Context(), cfg, test.counter, test.number, How{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s %d: %q, %v, want %q", test.counter, test.number, r, err, test.refused)
		}
		marks := []Mark{{"order", 5101}, {test.counter, test.number}}
		if test.isCommon {
			continue
		}
		must.Is(t, RaiseAll(t.Context(), cfg, marks, How{}, func(string, Raised) { t.Error("something was raised") }), ErrRefused, "%v", marks)
	}
	for _, by := range []string{"", "tenant", "bill"} {
		got := make(map[string]string)
		must.Report(t, RaiseBy(t.Context(), cfg, By{BizType: by}, How{DryRun: true}, func(counter string, r Raised) { got[counter] = r.String() }))
		want := map[string]string{"order": "at 5100, would stay there", "tenant/a": "at 3000000, would stay there", "tenant/b": "at 5, would stay there", "bill": "at 1000, would stay there"}
		maps.DeleteFunc(want, func(counter, _ string) bool { return !strings.HasPrefix(counter, by) })
		if !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", by, got, want)
		}
	}
	wantCounters(t, cfg, before)
	for counter, number := range map[string]int64{"order": 900_000_000_000, "bill": 5000, "tenant/new": 1} {
		if r, err := Raise(t.Context(), cfg, counter, number, How{Sure: true}); err != nil || r.After != number {
			t.Errorf("%s, surely: %+v, %v", counter, r, err)
		}
	}
}

// shared is a store that nodes share.
type shared struct{ persist.Store }

func (shared) Shared() bool { return true }
func (shared) Close() error { return nil }

// Nothing is raised while a node runs, except what stands still anyway. One that was killed is
// waited for. A dry run does not care.
func TestRaiseBesideNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := must.Get(config.LoadYAML([]byte("store: {driver: mongo, mongo: {uri: \"mongodb://h\"}}\nbizTypes: [{name: order, sequencer: store}, {name: bill, strategy: audit}]"), config.Sources{}))(t)
		store := shared{memory.New(time.Now)}
		ctx := seams.With(t.Context(), seams.Seams{OpenStore: func(context.Context, driver.How) (persist.Store, error) { return store, nil }})
		fillCounters(t, store, map[string]int64{"order": 50})
		writeState(t, store, "bill", "", ledger.Op{Kind: ledger.Issue, Count: 5})
		waited := ""
		how := How{Waits: func(nodes string) { waited = nodes }}
		raises := func(counter string, number int64, want error) {
			t.Helper()
			if r, err := Raise(ctx, cfg, counter, number, how); !errors.Is(err, want) {
				t.Errorf("%s %d: %q, %v, want %v", counter, number, r, err, want)
			}
		}
		raises("order", 51, nil)
		living, kill := context.WithCancel(t.Context())
		go beats(living, store)
		synctest.Wait()
		raises("order", 60, ErrRefused)
		raises("order", 1, ErrRefused) // it would retire the cursor
		raises("bill", 60, ErrRefused)
		raises("bill", 5, nil)
		if how.DryRun = true; waited != "here (10.0.0.1:8080)" {
			t.Errorf("waited for %q", waited)
		}
		raises("order", 60, nil)
		how.DryRun = false
		kill()
		began := time.Now()
		raises("order", 60, nil)
		if took := time.Since(began); took > 21*time.Second {
			t.Errorf("it took %s", took)
		}
		if c, err := store.Counters().Read(ctx, "order"); err != nil || c.Max != 60 {
			t.Errorf("%+v, %v", c, err)
		}
	})
}

// beats writes the document of a node until ctx ends, as one that is killed then.
func beats(ctx context.Context, store persist.Store) {
	for n := int64(1); ; n++ {
		doc := persist.Document{Kind: "node", Key: "n", Revision: n, Body: `{"id":"n","host":"here","node":"10.0.0.1:8080"}`, Timestamp: 1, Expires: time.Now().Add(20 * time.Second).UnixMilli()}
		write := store.Documents().Update
		if n == 1 {
			write = store.Documents().Create
		}
		if err := write(context.Background(), doc); err != nil {
			panic(err)
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return
		}
	}
}
