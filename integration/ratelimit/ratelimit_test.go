// Package ratelimit tests the scope "cluster" of the plugin rate-limit on real Redis servers.
package ratelimit

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/plugin/ratelimit"
)

// slow is a rate that adds no token during a test.
const slow = 1.0 / 3600

// limits creates the rate limits of a biz type on a node, as the server does.
func limits(t testing.TB, env plugin.Env, bizType string, list ...ratelimit.Settings) []seqd.Plugin {
	t.Helper()
	factory, err := plugin.Lookup("rate-limit")
	if err != nil {
		t.Fatal(err)
	}
	b := seqd.BizType{Name: bizType}
	for i := range list {
		list[i].Scope = ratelimit.Cluster
		b.Plugins = append(b.Plugins, seqd.PluginBinding{Name: "rate-limit", Settings: &list[i]})
	}
	var plugins []seqd.Plugin
	for _, binding := range b.Plugins {
		p, err := factory.New(env, b, binding)
		if err != nil {
			t.Fatal(err)
		}
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

// patient makes commands wait for their answers, although the plugin gives them 250 ms, and counts
// its scripts.
type patient struct {
	off  atomic.Bool
	sent atomic.Int64
}

func (p *patient) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") { // not what opens a connection
			p.sent.Add(1)
		}
		if !p.off.Load() {
			ctx = context.WithoutCancel(ctx)
		}
		return next(ctx, cmd)
	}
}

func (p *patient) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *patient) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// connect returns a client as the product builds it, except for its patience.
func connect(t testing.TB, addr string) (redis.UniversalClient, *patient) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: await.Patience, ReadTimeout: await.Patience,
		WriteTimeout: await.Patience, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	p := &patient{}
	client.AddHook(p)
	return client, p
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
	if passed.Load() != 100 {
		t.Errorf("%d passed on all nodes, want 100", passed.Load())
	}
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
	client, _ := connect(t, server.Addr())
	allOver(t, client)
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
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
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for range 5 { // biz types on different nodes
		allOver(t, client)
	}
}

// A caller that retries after RetryAfter passes; one that retries earlier does not.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	log := &strings.Builder{}
	s := settings(10, 20)
	s.Per = ratelimit.PerNumber
	client, _ := connect(t, testenv.StartRedis(t).Addr())
	p := limits(t, environment(client, log), "order", s)[0]
	if limit, err := ask(t, p, "", 20); err != nil || limit.Remaining != 0 || limit.Reset < 1900*time.Millisecond || limit.Reset > 2*time.Second {
		t.Fatalf("%+v, %v", limit, err)
	}
	for range 5 {
		_, err := ask(t, p, "", 3)
		for err == nil { // the bucket refilled meanwhile
			_, err = ask(t, p, "", 3)
		}
		if err.Code != seqd.CodeRateLimited || err.RetryAfter <= 0 || err.RetryAfter > 300*time.Millisecond {
			t.Fatalf("%v after %s", err, err.RetryAfter)
		}
		time.Sleep(err.RetryAfter)
		if _, err := ask(t, p, "", 3); err != nil {
			t.Fatalf("it did not pass: %v, %s", err, err.RetryAfter)
		}
	}
	limit, err := ask(t, p, "", 21)
	if err == nil || err.Code != seqd.CodeInvalidCount || limit.Quota != 20 {
		t.Errorf("a call that can never pass: %+v, %v", limit, err)
	}
	if log.Len() > 0 {
		t.Errorf("Redis was not used: %s", log)
	}
}

// A bucket whose time is in the future, as after a failover to a server whose clock is behind, does
// not grant more and still refills.
func TestClockOfTheServerSetBack(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	log := &strings.Builder{}
	client, _ := connect(t, server.Addr())
	p := limits(t, environment(client, log), "order", settings(1, 5))[0]
	passes(t, p, "")
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	ahead := fmt.Sprintf("0.5 %d", time.Now().Add(time.Hour).UnixMicro())
	if err := server.Client().Set(t.Context(), keys[0], ahead, 0).Err(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if n := passes(t, p, ""); float64(n) > 1+time.Since(began).Seconds() {
		t.Errorf("%d passed at once", n)
	}
	await.True(t, "it refills", func() bool { _, err := ask(t, p, "", 1); return err == nil })
	for _, rubbish := range []string{"", "x", "1", "a 5", "1 2 3"} {
		if err := server.Client().Set(t.Context(), keys[0], rubbish, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if limit, err := ask(t, p, "", 1); err != nil || limit.Remaining != 4 {
			t.Errorf("a bucket that holds %q: %+v, %v", rubbish, limit, err)
		}
	}
	if log.Len() > 0 {
		t.Errorf("Redis was not used: %s", log)
	}
}

// While Redis hangs or is away each node limits on its own. When Redis is back they share again.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	log := &strings.Builder{}
	client, waits := connect(t, server.Addr())
	env := environment(client, log)
	var clock atomic.Int64 // added to the time
	began := time.Now()
	env.Now = func() time.Time { return began.Add(time.Duration(clock.Load())) }
	a, b := limits(t, env, "order", settings(slow, 10))[0], limits(t, env, "order", settings(slow, 10))[0]
	for range 5 {
		if _, err := ask(t, a, "", 1); err != nil {
			t.Fatal(err)
		}
	}
	server.Pause()
	waits.off.Store(true)
	waits.sent.Store(0)
	if n, m := passes(t, a, ""), passes(t, b, ""); n != 10 || m != 10 {
		t.Errorf("%d and %d passed while Redis hung", n, m)
	}
	if sent := waits.sent.Load(); sent > 2 {
		t.Errorf("22 requests waited for Redis %d times", sent)
	}
	server.Resume()
	waits.off.Store(false)
	clock.Store(int64(1100 * time.Millisecond))
	// A command without an answer may have run when Redis resumed, and then took a token.
	n := passes(t, a, "")
	if m := passes(t, b, ""); n < 3 || n > 5 || m != 0 {
		t.Errorf("%d and %d passed when Redis was back", n, m)
	}
	server.Kill()
	var refusal *seqd.Error
	if err := b.Before(t.Context(), &seqd.Call{BizType: "order", Count: 1}); err != nil && !errors.As(err, &refusal) {
		t.Error(err)
	}
	for _, text := range []string{"cannot use Redis", "uses Redis again"} {
		if n := strings.Count(log.String(), text); n < 2 {
			t.Errorf("%q was logged %d times by two nodes:\n%s", text, n, log)
		}
	}
}

func BenchmarkBefore(b *testing.B) {
	log := &strings.Builder{}
	client, _ := connect(b, testenv.StartRedis(b).Addr())
	p := limits(b, environment(client, log), "order", settings(1e6, 1e9))[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ask(b, p, "shop", 1); err != nil {
			b.Fatal(err)
		}
	}
	if log.Len() > 0 {
		b.Errorf("Redis was not used: %s", log)
	}
}
