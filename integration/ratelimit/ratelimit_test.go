// Package ratelimit tests the scope "cluster" of the plugin rate-limit on real Redis servers.
package ratelimit

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/plugin/ratelimit"
)

// slow is a rate that adds no token during a test.
const slow = 1.0 / 3600

// limits creates the rate limits of a biz type on a node, as the server does.
func limits(t testing.TB, env plugin.Env, bizType string, list ...ratelimit.Settings) []seqd.Plugin {
	t.Helper()
	factory := must.Get(plugin.Lookup("rate-limit"))(t)
	b := seqd.BizType{Name: bizType}
	for i := range list {
		list[i].Scope = ratelimit.Cluster
		b.Plugins = append(b.Plugins, seqd.PluginBinding{Name: "rate-limit", Settings: &list[i]})
	}
	var plugins []seqd.Plugin
	for _, binding := range b.Plugins {
		p := must.Get(factory.New(env, b, binding))(t)
		plugins = append(plugins, p)
	}
	return plugins
}

func environment(client redis.UniversalClient, log *strings.Builder) plugin.Env {
	return plugin.Env{Redis: client, RedisPrefix: "seqd:", Now: time.Now, Cluster: "c1", Log: slog.New(slog.NewTextHandler(log, nil))}
}

func settings(rate float64, burst int64) ratelimit.Settings {
	s := ratelimit.DefaultSettings()
	s.Rate, s.Burst = rate, burst
	return s
}

// patient makes commands wait for their answers, although the plugin gives them 250 ms.
type patient struct{}

func (p *patient) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return next(context.WithoutCancel(ctx), cmd) }
}

func (p *patient) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *patient) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// connect returns a client as the product builds it, except for its patience.
func connect(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: await.Patience, ReadTimeout: await.Patience,
		WriteTimeout: await.Patience, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	client.AddHook(&patient{})
	return client
}

func ask(t testing.TB, p seqd.Plugin, caller string, count int) (seqd.Limit, *seqd.Error) {
	t.Helper()
	call := &seqd.Call{BizType: "order", Count: count, Caller: seqd.Caller{Name: caller}}
	if err := p.Before(t.Context(), call); err != nil {
		return call.Limit, seqd.AsError(err)
	}
	return call.Limit, nil
}

func passes(t testing.TB, p seqd.Plugin, caller string) (n int) {
	t.Helper()
	for ; ; n++ {
		if _, err := ask(t, p, caller, 1); err != nil {
			return n
		}
	}
}

// allOver checks that nodes share buckets, also under concurrent calls, and that callers, bindings
// and clusters do not.
func allOver(t *testing.T, client redis.UniversalClient) {
	log := &strings.Builder{}
	env := environment(client, log)
	bizType := "b" + testenv.Unique()
	nodes := make([]seqd.Plugin, 4)
	for i := range nodes {
		nodes[i] = limits(t, env, bizType, settings(slow, 100))[0]
	}
	var passed atomic.Int64
	var wg sync.WaitGroup
	for _, p := range nodes {
		for range 2 {
			wg.Go(func() {
				for range 50 {
					call := &seqd.Call{BizType: bizType, Count: 1, Caller: seqd.Caller{Name: "shop"}}
					if p.Before(context.Background(), call) == nil {
						passed.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	if log.Len() > 0 {
		t.Fatalf("Redis was not used: %s", log)
	}
	must.Equal(t, passed.Load(), 100, "passed on all nodes")
	if limit, err := ask(t, nodes[1], "app", 1); err != nil || limit.Remaining != 99 {
		t.Errorf("another caller: %+v, %v", limit, err)
	}
	env.Cluster = "c2"
	if limit, err := ask(t, limits(t, env, bizType, settings(slow, 100))[0], "shop", 1); err != nil || limit.Remaining != 99 {
		t.Errorf("another cluster: %+v, %v", limit, err)
	}
	env.Cluster = "c3"
	two := limits(t, env, bizType, settings(slow, 3), settings(slow, 3))
	if n, m := passes(t, two[0], "shop"), passes(t, two[1], "shop"); n != 3 || m != 3 {
		t.Errorf("two bindings: %d and %d passed", n, m)
	}
}

func TestServer(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := connect(t, server.Addr())
	allOver(t, client)
	keys := must.Get(server.Client().Keys(t.Context(), "*").Result())(t)
	for _, key := range keys {
		ttl, err := server.Client().PTTL(t.Context(), key).Result()
		if err != nil || ttl <= 0 || ttl > 101*time.Hour || !strings.HasPrefix(key, "seqd:{b") || !strings.Contains(key, "}:limit:") || strings.Contains(key, "shop") {
			t.Errorf("the key %s is kept for %s, %v", key, ttl, err)
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), MaxRetries: -1, DialerRetries: 1, ReadTimeout: await.Patience, DisableRoutingPolicies: true, ContextTimeoutEnabled: true})
	client.AddHook(&patient{})
	t.Cleanup(func() { _ = client.Close() })
	// the client learns the nodes before the first request
	must.Do(t, client.Ping(t.Context()).Err())
	for range 5 { // biz types on different nodes
		allOver(t, client)
	}
}
