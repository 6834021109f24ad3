package ops

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
	"github.com/seqd/seqd/plugin/obfuscate"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/backends/backendstest"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
	"github.com/seqd/seqd/strategy/segment"
)

// busy has counters that another process changes after every read.
type busy struct {
	persist.Counters
	change func() error
}

func (b busy) Read(ctx context.Context, id string) (persist.Counter, error) {
	c, err := b.Counters.Read(ctx, id)
	return c, errors.Join(err, b.change())
}

func newCounter(t *testing.T, maximum int64) persist.Counters {
	t.Helper()
	counters := memory.New(time.Now).Counters()
	must.Do(t, counters.Create(t.Context(), persist.Counter{BizTag: "order", Max: maximum, Step: 70, Timestamp: 7}))
	return counters
}

func TestRaiseCounter(t *testing.T) {
	for _, test := range []struct {
		before, number, after int64
		text                  string
	}{
		{5000, 1_000_000, 1_000_000, "5000 → 1000000"},
		{0, 1, 1, "0 → 1"},
		{5000, 5000, 5000, "nothing changed, it is at 5000 already"},
		{5000, 4999, 5000, "nothing changed, it is at 5000 already"},
		{5000, 1, 5000, "nothing changed, it is at 5000 already"},
		{5000, persist.MaxNumber, persist.MaxNumber, "5000 → 9007199254740991"},
		{persist.MaxNumber, persist.MaxNumber, persist.MaxNumber, "nothing changed, it is at 9007199254740991 already"},
	} {
		counters := newCounter(t, test.before)
		for i, want := range []string{test.text, "nothing changed, it is at"} {
			raised, err := raise(t.Context(), counters, "order", test.number, time.Now())
			if err != nil || len(raised.String()) < len(want) || raised.String()[:len(want)] != want {
				t.Errorf("%d to %d, time %d: %q, %v", test.before, test.number, i, raised, err)
			}
		}
		got, err := counters.Read(t.Context(), "order")
		if want := (persist.Counter{BizTag: "order", Max: test.after, Step: 70, Timestamp: 7}); err != nil || got != want {
			t.Errorf("%d to %d: the counter is %+v, %v, want %+v", test.before, test.number, got, err, want)
		}
	}
}

func TestRaiseCreates(t *testing.T) {
	counters := memory.New(time.Now).Counters()
	raised, err := raise(t.Context(), counters, "order", 500, time.UnixMilli(9))
	if want := "no counter → 500: the store had none, and has one now"; err != nil || raised.String() != want {
		t.Errorf("%q, %v", raised, err)
	}
	got, err := counters.Read(t.Context(), "order")
	if want := (persist.Counter{BizTag: "order", Max: 500, Step: 1, Timestamp: 9}); err != nil || got != want {
		t.Errorf("the counter is %+v, %v", got, err)
	}
}

// Nobody should use the store meanwhile. If a process does, the numbers of neither side are lost.
func TestRaiseBesideOthers(t *testing.T) {
	for _, taken := range []int64{10, 10_000} {
		counters := newCounter(t, 100)
		var theirs persist.Range
		beside := busy{counters, func() (err error) {
			theirs, err = counters.Allocate(context.Background(), persist.Request{BizTag: "order", Size: taken, Step: 5})
			return err
		}}
		raised, err := raise(t.Context(), beside, "order", 1000, time.Now())
		if err != nil || raised.After < 1000 || raised.After <= theirs.Last {
			t.Errorf("%+v, %v, theirs are %+v", raised, err, theirs)
		}
		if got, err := counters.Read(t.Context(), "order"); err != nil || got.Max != raised.After || got.Step != 5 {
			t.Errorf("the counter is %+v, %v", got, err)
		}
	}
	// Another process creates the counter first.
	store := memory.New(time.Now)
	first := true
	beside := busy{store.Counters(), func() error {
		if !first {
			return nil
		}
		first = false
		return store.Counters().Create(context.Background(), persist.Counter{BizTag: "order", Max: 7, Step: 1})
	}}
	must.Equal(t, must.Get(raise(t.Context(), beside, "order", 1000, time.Now()))(t), (Raised{Before: 7, After: 1000}))
}

func TestRaisedTellsWhatWaitsInRedis(t *testing.T) {
	if got, want := (Raised{Before: 5, After: 3000, Waiting: 3000}).String(), "5 → 3000; numbers up to 3000 wait in Redis"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// answering is a Redis server whose scripts all return the same array of texts, for their one key.
func answering(t *testing.T, words ...string) string {
	reply := fmt.Sprintf("*1\r\n*%d\r\n", len(words))
	for _, word := range words {
		reply += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	addr, _ := backendstest.Redis(t, func(line string) string {
		switch line {
		case "hello":
			return "%0\r\n"
		case "hmget": // whose it is
			return "*1\r\n$-1\r\n"
		case "evalsha":
			return reply
		}
		return ""
	})
	return addr
}

// ceilOf returns how far the cursor of the biz type order went.
func ceilOf(t *testing.T, cfg *config.Config, store persist.Store) (int64, error) {
	f := &repair{cfg: cfg, store: store}
	client := must.Get(f.openCursors(t.Context()))(t)
	if client != nil {
		defer client.Close()
	}
	return f.inCursor(t.Context(), target{counter: "order"})
}

// Everything that was ever in the cursor of a biz type counts as issued. If Redis cannot be asked,
// nothing is changed.
func TestRaiseAsksRedis(t *testing.T) {
	const strict, perNode = "ordering: strict", "ordering: per-node"
	const nowhere = "127.0.0.1:1"
	for name, test := range map[string]struct {
		addr, ordering, driver string
		ceil                   int64
		errs                   string
	}{
		"a cursor":            {answering(t, "other", "g", "3000", "e", "r"), strict, "mongo", 3000, ""},
		"a cursor that waits": {answering(t, "stub", "g", "3000", "1"), strict, "mongo", 3000, ""},
		"no cursor yet":       {answering(t, "stub", "g", "0", "1"), strict, "mongo", 0, ""},
		"another cluster's":   {answering(t, "foreign", "x"), strict, "mongo", 0, "belongs to a cluster with another store"},
		"a newer one":         {answering(t, "newer", "9"), strict, "mongo", 0, "newer version"},
		"a replica":           {answering(t, "replica"), strict, "mongo", 0, "replica"},
		"nonsense":            {answering(t, "took"), strict, "mongo", 0, "does not understand"},
		"nothing there":       {nowhere, strict, "mongo", 0, "redis.addrs: "},
		"per-node":            {answering(t, "other", "g", "3000", "e", "r"), perNode, "mongo", 3000, ""},
		"per-node, not there": {nowhere, perNode, "mongo", 0, "redis.addrs: "},
		"an embedded store":   {nowhere, strict, "bolt", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf("store: {driver: %s, mongo: {uri: \"mongodb://h\"}}\nredis: {addrs: [%q], timeout: 1s}\nsegment: {%s}\nbizTypes: [{name: order}]\n", test.driver, test.addr, test.ordering)
			cfg := must.Get(config.LoadYAML([]byte(text), config.Sources{}))(t)
			ceil, err := ceilOf(t, cfg, memory.New(time.Now))
			if test.errs == "" && (err != nil || ceil != test.ceil) {
				t.Errorf("%d, %v; want %d", ceil, err, test.ceil)
			}
			then := "Start Redis; or "
			if errors.Is(err, ErrRefused) {
				then = "find out which before you change anything"
			}
			if test.errs != "" && (err == nil || !strings.Contains(err.Error(), test.errs) || !strings.Contains(err.Error(), then)) {
				t.Errorf("%d, %v; want an error with %q and what to do", ceil, err, test.errs)
			}
		})
	}
}

// If numbers reset, a period is raised.
func TestRaisePeriod(t *testing.T) {
	today := &segment.Settings{}
	*today = segment.DefaultSettings()
	today.Reset = seqd.ResetDaily
	never := segment.DefaultSettings()
	cfg := config.Default()
	cfg.Store.Settings["bolt"].(*bolt.Settings).Path = filepath.Join(t.TempDir(), "seqd.db")
	hides := &obfuscate.Settings{}
	cfg.BizTypes = []seqd.BizType{
		{Name: "order", Strategy: "segment", Settings: today}, {Name: "invite", Strategy: "segment", Settings: &never},
		{Name: "hidden", Strategy: "segment", Settings: today, Plugins: []seqd.PluginBinding{{Name: "obfuscate", Settings: hides}}},
		{Name: "user", Strategy: "snowflake"},
	}
	store := must.Get(backends.NewStore(t.Context(), cfg.Store, time.Now))(t)
	must.Do(t, store.Close())
	for counter, want := range map[string]string{
		"order":           "the numbers of order reset daily: name the period, such as order@20",
		"order@":          "name the period",
		"order@202611":    "name the period",
		"order@20261131":  "name the period",
		"order@2026-11-2": "name the period",
		"invite@20261120": "the numbers of invite never reset",
		"user":            "user has no counter: its strategy is snowflake",
		"other@20261120":  "there is no biz type \"other\"",
	} {
		if _, err := Raise(t.Context(), &cfg, counter, 7, How{}); !errors.Is(err, ErrRaise) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", counter, err, want)
		}
	}
	// those of another shape too: who restored the store may have to force that shape again
	for _, counter := range []string{"order@20261120", "order", "order/a@2026", "invite@202611", "user"} {
		r, err := Raise(t.Context(), &cfg, counter, 7, How{Sure: counter != "order@20261120"})
		if err != nil || !r.Created || r.After != 7 {
			t.Errorf("%s: %+v, %v", counter, r, err)
		}
	}
	raised := 0
	must.Do(t, RaiseBy(t.Context(), &cfg, By{}, How{DryRun: true}, func(string, Raised) { raised++ }))
	if raised != 4 {
		t.Errorf("%d counters are shown, want 4", raised)
	}
	raise := func(number int64, how How) error {
		_, err := Raise(t.Context(), &cfg, "hidden@20261120", number, how)
		return err
	}
	if err := raise(7, How{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "hidden: plugins[0].version: set it") {
		t.Errorf("without a record of the shape: %v", err)
	}
	must.Do(t, raise(7, How{Sure: true}))
	hides.Version = 1
	must.Do(t, raise(8, How{}))
	hides.Version = 0
	store = must.Get(backends.NewStore(t.Context(), cfg.Store, time.Now))(t)
	must.Do(t, errors.Join(persist.ShapesIn(store.Documents()).Create(t.Context(), "hidden", "any", time.Now()), store.Close()))
	must.Do(t, raise(9, How{}))
}

// A counter that the store sequences stays so.
func TestRaiseWhatTheStoreSequences(t *testing.T) {
	store := memory.New(time.Now)
	must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 500, Step: 1, Epoch: persist.StoreEpoch}))
	for _, number := range []int64{100, 1000} { // below what the store has, and above
		must.Get(raise(t.Context(), store.Counters(), "order", number, time.Now()))(t)
		counter, err := store.Counters().Read(t.Context(), "order")
		if err != nil || counter.Epoch != persist.StoreEpoch || counter.Max != max(500, number) {
			t.Errorf("raised to %d: %+v, %v", number, counter, err)
		}
	}
}

// A restored record may say that the store sequences the counter, although a cursor has taken over
// since the backup. So Redis is asked nevertheless.
func TestRaiseDoesNotBelieveABackup(t *testing.T) {
	store := memory.New(time.Now)
	must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 500, Step: 1, Epoch: persist.StoreEpoch}))
	cfg := must.Get(config.LoadYAML([]byte("store: {driver: mongo}\nredis: {addrs: [\"127.0.0.1:1\"], timeout: 1s}\nbizTypes: [{name: order}]\n"), config.Sources{}))(t)
	if ceil, err := ceilOf(t, cfg, store); err == nil {
		t.Errorf("%d, and no error", ceil)
	}
}
