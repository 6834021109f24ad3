package segment

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
)

// idleKinds are the strategies that a biz type may get, and how many bytes one may take that nobody
// asks. Periodic takes more than the others: the strategy of the present period counts too.
var idleKinds = []struct {
	name   string
	shared bool // the store
	redis  bool
	change func(*Settings)
	most   int
}{
	{name: "Strategy", most: 1024},
	{name: "StrategyPerNode", shared: true, redis: true, change: func(s *Settings) { s.Ordering = PerNode }, most: 1024},
	{name: "Shared", shared: true, redis: true, change: func(s *Settings) { s.Sequencer = SequencerRedis }, most: 1024},
	{name: "Stored", shared: true, change: byStore, most: 1024},
	{name: "StoredWithRedis", shared: true, redis: true, change: byStore, most: 1024},
	{name: "Following", shared: true, redis: true, most: 1024},
	{name: "Keyed", change: func(s *Settings) { s.Keyed = true }, most: 1750},
	{name: "Periodic", change: daily, most: 2750},
	{name: "PeriodicFollowing", shared: true, redis: true, change: daily, most: 3300},
}

// idleBytes returns how many bytes each of many biz types holds that are ready and that nobody
// asks.
func idleBytes(t testing.TB, shared, withRedis bool, change func(*Settings)) int {
	const many = 300
	settings := DefaultSettings()
	if change != nil {
		change(&settings)
	}
	env := strategy.Env{Store: memory.New(time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, RedisPrefix: "seqd:"}
	if shared {
		env.Store = perNode{env.Store}
	}
	if withRedis {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}) // which nobody asks
		defer func() { _ = client.Close() }()
		env.Redis = client
	}
	bizTypes, all := make([]seqd.BizType, many), make([]seqd.Strategy, many)
	for i := range all {
		bizTypes[i] = seqd.BizType{Name: fmt.Sprintf("type%03d", i), Strategy: Name, Settings: &settings}
	}
	open := func() {
		for i := range all {
			var err error
			if all[i], err = build(env, bizTypes[i]); err != nil {
				t.Fatal(err)
			}
			must.Do(t, all[i].Init(t.Context(), true))
		}
	}
	closeAll := func() {
		for _, s := range all {
			must.Do(t, s.Close(t.Context()))
		}
		clear(all)
	}
	open() // fills the store
	closeAll()
	before := heap()
	open()
	defer closeAll()
	got := (heap() - before) / many
	runtime.KeepAlive(bizTypes)
	return got
}

// heap returns how many bytes are in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what had a finalizer
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// There may be very many biz types that nobody asks.
func TestIdleTakesLittle(t *testing.T) {
	for _, kind := range idleKinds {
		t.Run(kind.name, func(t *testing.T) {
			got := idleBytes(t, kind.shared, kind.redis, kind.change)
			for range 2 { // what else the process has on its heap only adds to it
				if got <= kind.most {
					break
				}
				got = idleBytes(t, kind.shared, kind.redis, kind.change)
			}
			t.Logf("%d bytes", got)
			if got > kind.most {
				t.Errorf("%d bytes are more than %d", got, kind.most)
			}
		})
	}
}
