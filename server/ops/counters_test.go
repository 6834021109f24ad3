package ops

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// Counters lists what the store has, by pages of any size, in byte order, and changes no byte of it.
// What it lists, RaiseAll takes.
func TestCounters(t *testing.T) {
	cfg := boltConfig(t, func(store persist.Store) {
		fillCounters(t, store, map[string]int64{
			"order": 41, "tenant/a": 5, "tenant/b-c": 6, "tenant/": 2, "invoice/a@2026": 7, "invoice/@2026": 1, "invoice/a-b@2025": 8, "gone": 9, "bill": 3, "order-2": 1, "order0": 0,
		})
		policy := ledger.Policy{Start: 10}
		state := ledger.Fresh(&policy, persist.NewEpoch(), "")
		state.Last = 12
		must.Do(t, store.Documents().Create(t.Context(), must.Get(state.Document("bill", 1000))(t)))
	})
	before := must.Get(os.ReadFile(cfg.Store.Place()))(t)
	for _, test := range []struct{ bizType, want string }{
		{"", "bill=12 gone=9 invoice/a-b@2025=8 invoice/a@2026=7 order=41 order-2=1 order0=0 tenant/a=5 tenant/b-c=6"},
		{"order", "order=41"},
		{"invoice", "invoice/a-b@2025=8 invoice/a@2026=7"},
		{"bill", "bill=12"},
		{"nobody", ""},
	} {
		for size := 1; size < 12; size++ {
			var got []string
			must.Do(t, Counters(t.Context(), cfg, func(list ListCounters) error {
				for after := ""; ; {
					page, next, err := list(t.Context(), test.bizType, after, size)
					for _, s := range page {
						got = append(got, fmt.Sprintf("%s=%d", s.Counter, s.Highest))
					}
					if err != nil || next == "" {
						return err
					}
					after = next
				}
			}))
			must.Equal(t, strings.Join(got, " "), test.want)
		}
	}
	var all []admin.Standing
	must.Do(t, Counters(t.Context(), cfg, func(list ListCounters) (err error) {
		all, _, err = list(t.Context(), "", "", 100)
		return err
	}))
	must.Equal(t, all[0], admin.Standing{Counter: "bill", BizType: "bill", Highest: 12, Strategy: "audit", Sequencer: "ledger", UpdatedAt: "1970-01-01T00:00:01.000Z"})
	must.Equal(t, all[3], admin.Standing{Counter: "invoice/a@2026", BizType: "invoice", Key: "a", Period: "2026", Highest: 7, Strategy: "segment", Sequencer: "node"})
	if after := must.Get(os.ReadFile(cfg.Store.Place()))(t); !slices.Equal(before, after) {
		t.Error("the file has changed")
	}

	var marks []Mark
	for _, s := range all {
		if s.Highest > 0 && s.Strategy != "" {
			marks = append(marks, Mark{s.Counter, s.Highest})
		}
	}
	must.Do(t, RaiseAll(t.Context(), cfg, marks, How{}, func(counter string, r Raised) {
		if r.Changed() {
			t.Errorf("%s: %+v", counter, r)
		}
	}))
}

// A raise of all counters raises each by the gap, of each biz type, and a dry run none.
func TestRaiseEveryCounter(t *testing.T) {
	cfg := boltConfig(t, func(store persist.Store) {
		fillCounters(t, store, map[string]int64{"order": 41, "tenant/a": 5, "tenant/b": 6, "tenant/": 2, "invoice/a@2026": 7, "gone": 3, "also-gone/a": 4})
	})
	raise := func(how How) (told []string) {
		t.Helper()
		must.Do(t, RaiseBy(t.Context(), cfg, By{All: true, Gap: 10}, how, func(counter string, r Raised) {
			told = append(told, fmt.Sprintf("%s %d→%d", counter, r.Before, r.After))
		}))
		slices.Sort(told)
		return told
	}
	left := ""
	tell := func(bizTypes []string) { left = fmt.Sprint(bizTypes) }
	want := []string{"invoice/a@2026 7→17", "order 41→51", "tenant/a 5→15", "tenant/b 6→16"}
	must.Equal(t, fmt.Sprint(raise(How{DryRun: true, Left: tell})), fmt.Sprint(want))
	wantCounters(t, cfg, map[string]int64{"order": 41, "tenant/a": 5, "tenant/b": 6, "tenant/": 2, "invoice/a@2026": 7, "gone": 3, "also-gone/a": 4})
	must.Equal(t, left, "[also-gone gone]", "the biz types that are not raised")
	must.Equal(t, fmt.Sprint(raise(How{Sure: true, Left: tell})), fmt.Sprint(want))
	wantCounters(t, cfg, map[string]int64{"order": 51, "tenant/a": 15, "tenant/b": 16, "tenant/": 2, "invoice/a@2026": 17, "gone": 3, "also-gone/a": 4})
}
