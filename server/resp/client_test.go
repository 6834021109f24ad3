package resp_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/resp"
	"github.com/seqd/seqd/strategy"
	_ "github.com/seqd/seqd/strategy/gapless"
	_ "github.com/seqd/seqd/strategy/segment"
	_ "github.com/seqd/seqd/strategy/snowflake"
)

// made returns a biz type with a strategy that comes with seqd, on a store in memory.
func made(tb testing.TB, name, kind string) issuer.Definition {
	tb.Helper()
	factory := must.Get(strategy.Lookup(kind))(tb)
	bizType := seqd.BizType{Name: name, Strategy: kind, Settings: factory.Settings()}
	env := strategy.Env{
		Store: memory.New(time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}, Addr: "127.0.0.1:1", Cluster: strings.Repeat("0", 32),
	}
	s := must.Get(factory.New(env, bizType))(tb)
	tb.Cleanup(func() {
		must.Report(tb, s.Close(context.Background()))
	})
	return issuer.Definition{BizType: bizType, Strategy: s}
}

// clients calls f with a client of each version of the protocol.
func clients(t *testing.T, s *service, f func(t *testing.T, rdb *redis.Client)) {
	for _, version := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", version), func(t *testing.T) {
			rdb := redis.NewClient(&redis.Options{Addr: s.addr, DialTimeout: await.Patience, ReadTimeout: await.Patience, Protocol: version, ClientName: "app", MaxRetries: -1})
			defer rdb.Close()
			f(t, rdb)
		})
	}
}

// TestGoRedis: a client of Redis is a client of seqd.
func TestGoRedis(t *testing.T) {
	s := serve(t, nil, made(t, "order", "segment"), made(t, "user", "snowflake"))
	clients(t, s, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		first := must.Get(rdb.Incr(ctx, "order").Result())(t)
		if last, err := rdb.IncrBy(ctx, "order", 10).Result(); last != first+10 || err != nil {
			t.Errorf("%d after %d, %v", last, first, err)
		}
		ids, err := rdb.Do(ctx, "SEQ.NEXT", "order", "COUNT", 3).StringSlice()
		if want := []string{fmt.Sprint(first + 11), fmt.Sprint(first + 12), fmt.Sprint(first + 13)}; !slices.Equal(ids, want) || err != nil {
			t.Errorf("%q, want %q, %v", ids, want, err)
		}
		id := must.Get(rdb.Do(ctx, "SEQ.NEXT", "user").Text())(t)
		parsed, err := rdb.Do(ctx, "SEQ.PARSE", "user", id).Result()
		if err != nil || !strings.Contains(fmt.Sprint(parsed), id) || !strings.Contains(fmt.Sprint(parsed), "machineId") {
			t.Errorf("%v %v", parsed, err)
		}
		if name, err := rdb.ClientGetName(ctx).Result(); name != "app" || err != nil {
			t.Errorf("%q %v", name, err)
		}
		if info, err := rdb.Info(ctx).Result(); !strings.Contains(info, "seqd_version:v1.2.3") || err != nil {
			t.Errorf("%q %v", info, err)
		}
		commands, err := rdb.Command(ctx).Result()
		if err != nil || commands["incr"] == nil || len(commands) != len(resp.CommandNames()) {
			t.Errorf("%v %v", commands, err)
		}
		if err := rdb.Set(ctx, "a", "b", 0).Err(); err == nil || !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("SET: %v", err)
		}
		if _, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, "order").Err() }); err == nil {
			t.Error("MULTI was accepted")
		}
		if n, err := rdb.Incr(ctx, "order").Result(); n != first+14 || err != nil {
			t.Errorf("%d after %d: %v", n, first+13, err)
		}
	})
}

// TestLargeIntegers: integers that some clients would round are refused unless a setting allows
// them.
func TestLargeIntegers(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		s := serve(t, func(set *settings) { set.resp.LargeIntegers = allowed }, made(t, "user", "snowflake"))
		clients(t, s, func(t *testing.T, rdb *redis.Client) {
			n, err := rdb.Incr(t.Context(), "user").Result()
			if allowed && (n <= seqd.MaxNumber || err != nil) || !allowed && (err == nil || !strings.Contains(err.Error(), "SEQ.NEXT user")) {
				t.Errorf("allowed %t: %d, %v", allowed, n, err)
			}
		})
	}
}
