package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// hashes is a hook that answers HMGET for one field of hashes.
type hashes map[string]string

func (h hashes) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hashes) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return h.answer(cmd) }
}

func (h hashes) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			_ = h.answer(cmd)
		}
		return nil
	}
}

func (h hashes) answer(cmd redis.Cmder) error {
	found := []any{nil}
	if value, ok := h[fmt.Sprint(cmd.Args()[1])]; ok {
		found[0] = value
	}
	cmd.(*redis.SliceCmd).SetVal(found)
	return nil
}

// After a restore each counter is named: those below their cursors in Redis, and those of which
// nothing outside the store says how far they came: those without a cursor, of keys, periods,
// gapless ones, and those that the store lacks. Otherwise the report names a few.
func TestRestored(t *testing.T) {
	store := memory.New(time.Now)
	must.Get(persist.ClusterID(t.Context(), store, time.Now))(t)
	cluster := must.Get(persist.ReadCluster(t.Context(), store.Documents()))(t)
	for name, most := range map[string]int64{"order": 500, "led": 500, "fine": 500, "tick/": 2, "tick/a": 10, "tick/b": 20, "year@2025": 7} {
		must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: name, Max: most, Step: 10}))
	}
	keepLedger(t, store, "bill", "", noon, ledger.Op{Kind: ledger.Issue, Count: 3})
	for i := range 9 {
		keepLedger(t, store, fmt.Sprint("due/", i), "", noon, ledger.Op{Kind: ledger.Issue, Count: 3})
	}
	const key, owner = "seqd:{order}", "seqd:{:probe2}"
	d := examined(t, mongoRedis+"bizTypes: [{name: order}, {name: led, sequencer: store}, {name: bill, strategy: audit}, {name: new}, {name: lost}, {name: user, strategy: snowflake}, {name: tick, keyed: true}]")
	unvouched := []string{"led", "tick/a", "tick/b", "year@2025", "bill", "due/0", "due/8", "new (which"}
	for name, test := range map[string]struct {
		redis   hashes // nil for none
		log     bool
		level   Level
		named   []string
		below   []string
		compare string
	}{
		"restored":        {hashes{key: "900", "seqd:{fine}": "500", "seqd:{lost}": "70"}, false, Warn, unvouched, []string{"seqd raise order 900", "seqd raise lost 70"}, ""},
		"as ever":         {hashes{key: "500", "seqd:{fine}": "500", owner: cluster.ID}, false, Info, append(unvouched[:6:6], "and 6 more (seqd raise --dry-run"), nil, "no counter stands below its cursor in Redis; 2 were compared"},
		"with a log":      {hashes{key: "500"}, true, Warn, append(unvouched, "fine"), nil, "1 were compared"},
		"without Redis":   {nil, true, Warn, append(unvouched, "order", "fine"), nil, ""},
		"another cluster": {hashes{key: "900", owner: "other"}, true, Warn, append(unvouched, "order"), nil, "the counters cannot be compared"},
	} {
		t.Run(name, func(t *testing.T) {
			if d.Lacking = nil; test.log {
				d.Lacking = func(context.Context, persist.Store) ([]Finding, error) { return nil, nil }
			}
			var client redis.UniversalClient
			if test.redis != nil {
				real := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
				defer real.Close()
				real.AddHook(test.redis)
				client = real
			}
			list := run(t, func(ctx context.Context, f *findings) { restoreCheck{d}.judge(ctx, f, store, client) })
			for _, part := range test.named {
				want(t, list, test.level, "counters", part)
			}
			for _, part := range test.below {
				want(t, list, Fail, "store", part)
			}
			if fails := slices.DeleteFunc(slices.Clone(list), func(f Finding) bool { return f.Level != Fail }); len(fails) != len(test.below) {
				t.Errorf("%v", fails)
			}
			if !slices.ContainsFunc(list, func(f Finding) bool { return strings.Contains(f.Found, test.compare) }) {
				t.Errorf("%v do not say %q", list, test.compare)
			}
			if slices.ContainsFunc(list, func(f Finding) bool { return strings.Contains(f.Found, "user") || strings.Contains(f.Found, "tick/,") }) {
				t.Errorf("%v name what counts no numbers", list)
			}
		})
	}
}
