package redissim_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/redissim"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/plugin"
	"github.com/seqd/seqd/plugin/ratelimit"
	"github.com/seqd/seqd/server/feed"
	"github.com/seqd/seqd/server/idempotency"
	"github.com/seqd/seqd/server/idempotency/idempotencytest"
)

func TestIdempotency(t *testing.T) {
	idempotencytest.Run(t, func(t *testing.T) (one, two idempotency.Backend, pass func(time.Duration)) {
		s := deploy(t, redissim.Options{}).Server(0)
		backend := func() idempotency.Backend {
			client := connect(t, s)
			client.Options().ReadTimeout, client.Options().WriteTimeout = time.Hour, time.Hour // of real time
			return idempotency.NewRedis(idempotency.RedisOptions{Client: client, Prefix: "seqd:"})
		}
		return backend(), backend(), s.Shift
	})
}

// limits returns the rate limit of a biz type on two nodes.
func limits(t *testing.T, d *redissim.Deployment, rate float64, burst int64, log io.Writer) (nodes [2]seqd.Plugin) {
	t.Helper()
	factory, err := plugin.Lookup("rate-limit")
	must.Do(t, err)
	settings := ratelimit.DefaultSettings()
	settings.Rate, settings.Burst, settings.Scope, settings.Per = rate, burst, ratelimit.Cluster, ratelimit.PerNumber
	b := seqd.BizType{Name: "order", Plugins: []seqd.PluginBinding{{Name: "rate-limit", Settings: &settings}}}
	for i := range nodes {
		env := plugin.Env{Redis: connect(t, d.Server(0)), RedisPrefix: "seqd:", Now: time.Now, Cluster: "c", Log: slog.New(slog.NewTextHandler(log, nil))}
		if nodes[i], err = factory.New(env, b, b.Plugins[0]); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// passes takes tokens from the nodes in turn until one refuses.
func passes(t *testing.T, nodes ...seqd.Plugin) (n int) {
	for nodes[n%len(nodes)].Before(t.Context(), &seqd.Call{BizType: "order", Count: 1}) == nil {
		n++
	}
	return n
}

func TestRateLimit(t *testing.T) {
	bubble(t, redissim.Options{}, func(t *testing.T, d *redissim.Deployment) {
		nodes := limits(t, d, 2, 3, io.Discard)
		if n := passes(t, nodes[:]...); n != 3 {
			t.Errorf("%d requests passed a full bucket of 3", n)
		}
		time.Sleep(time.Second)
		if n := passes(t, nodes[:]...); n != 2 {
			t.Errorf("%d requests passed after a second, want 2", n)
		}
		if d.Server(0).Evict(0) == "" {
			t.Error("there is no bucket")
		}
		if n := passes(t, nodes[:]...); n != 3 {
			t.Errorf("%d requests passed after the bucket was evicted, want 3", n)
		}
		time.Sleep(time.Minute)
		if reply := do(t, d.Server(0), "exists", "x"); reply != int64(0) || d.Server(0).Evict(0) != "" {
			t.Error("a full bucket did not expire")
		}
	})
}

// A caller that retries after RetryAfter passes, and one that retries earlier does not.
func TestRateLimitRetryAfter(t *testing.T) {
	bubble(t, redissim.Options{}, func(t *testing.T, d *redissim.Deployment) {
		p := limits(t, d, 10, 20, io.Discard)[0]
		call := &seqd.Call{BizType: "order", Count: 20}
		if err := p.Before(t.Context(), call); err != nil || call.Limit.Remaining != 0 || call.Limit.Reset != 2*time.Second {
			t.Fatalf("%+v, %v", call.Limit, err)
		}
		for range 5 {
			refused := seqd.AsError(p.Before(t.Context(), &seqd.Call{BizType: "order", Count: 3}))
			if refused == nil || refused.Code != seqd.CodeRateLimited || refused.RetryAfter != 300*time.Millisecond {
				t.Fatalf("got %v", refused)
			}
			time.Sleep(refused.RetryAfter - time.Millisecond)
			if p.Before(t.Context(), &seqd.Call{BizType: "order", Count: 3}) == nil {
				t.Error("it passed too early")
			}
			time.Sleep(time.Millisecond)
			if err := p.Before(t.Context(), &seqd.Call{BizType: "order", Count: 3}); err != nil {
				t.Errorf("it did not pass: %v", err)
			}
		}
		call = &seqd.Call{BizType: "order", Count: 21}
		if err := p.Before(t.Context(), call); seqd.CodeOf(err) != seqd.CodeInvalidCount || call.Limit.Quota != 20 {
			t.Errorf("a call that can never pass: %+v, %v", call.Limit, err)
		}
	})
}

// The clock of the server is set back, as by a failover: the bucket grants no more, and refills. What
// the script has not written counts as a full bucket.
func TestRateLimitBuckets(t *testing.T) {
	bubble(t, redissim.Options{}, func(t *testing.T, d *redissim.Deployment) {
		p := limits(t, d, 1, 5, io.Discard)[0]
		passes(t, p)
		d.Server(0).Shift(-time.Hour)
		if n := passes(t, p); n != 0 {
			t.Errorf("%d passed at once", n)
		}
		time.Sleep(time.Second)
		if n := passes(t, p); n != 1 {
			t.Errorf("%d passed after a second", n)
		}
		key := d.Server(0).Evict(0)
		for _, rubbish := range []string{"", "x", "1", "a 5", "1 2 3"} {
			do(t, d.Server(0), "set", key, rubbish)
			if n := passes(t, p); n != 5 {
				t.Errorf("a bucket that holds %q lets %d pass", rubbish, n)
			}
		}
	})
}

// While Redis hangs or is away each node limits on its own. When Redis is back they share again.
func TestRateLimitWithoutRedis(t *testing.T) {
	bubble(t, redissim.Options{}, func(t *testing.T, d *redissim.Deployment) {
		const slow = 1.0 / 3600
		var log testlog.Text // of two handlers, each with a lock of its own
		nodes := limits(t, d, slow, 10, &log)
		for range 5 {
			must.Do(t, nodes[0].Before(t.Context(), &seqd.Call{BizType: "order", Count: 1}))
		}
		server := d.Server(0)
		server.Hang()
		began := time.Now()
		if n, m := passes(t, nodes[0]), passes(t, nodes[1]); n != 10 || m != 10 || time.Since(began) > time.Second {
			t.Errorf("%d and %d passed within %v while Redis hung", n, m, time.Since(began))
		}
		server.Resume()
		time.Sleep(1100 * time.Millisecond)
		// A command without an answer ran when Redis resumed, and took a token.
		if n, m := passes(t, nodes[0]), passes(t, nodes[1]); n < 3 || n > 5 || m != 0 {
			t.Errorf("%d and %d passed when Redis was back", n, m)
		}
		server.Kill()
		if n := passes(t, nodes[1]); n != 0 {
			t.Errorf("%d passed the bucket of the node, which is empty", n)
		}
		for _, text := range []string{"cannot use Redis", "uses Redis again"} {
			if n := log.Count(text); n < 2 {
				t.Errorf("%q was logged %d times by two nodes:\n%s", text, n, log.String())
			}
		}
	})
}

// What one node publishes another one hears, also through a replica, and again after a restart.
func TestFeed(t *testing.T) {
	bubble(t, redissim.Options{Servers: 2}, func(t *testing.T, d *redissim.Deployment) {
		store := shared{memory.New(time.Now)}
		var mu sync.Mutex
		var heard []string
		node := func(s *redissim.Server, name string) *feed.Feed {
			f := feed.New(feed.Options{
				Documents: store.Documents(), Shared: true, Redis: connect(t, s), Channel: "changes", Now: time.Now, Log: slog.New(slog.DiscardHandler),
			})
			f.Add("thing", feed.Follower{
				Changed: func(_ context.Context, key string) error {
					mu.Lock()
					defer mu.Unlock()
					heard = append(heard, name+" "+key)
					return nil
				},
				Reload: func(context.Context) ([]string, error) { return nil, nil },
			})
			return f
		}
		writer, reader := node(d.Server(0), "writer"), node(d.Server(1), "reader")
		ctx, cancel := context.WithCancel(t.Context())
		must.Do(t, reader.Begin(ctx))
		go reader.Follow(ctx)
		synctest.Wait()
		writer.Publish(ctx, "thing", "a")
		synctest.Wait()
		d.Server(1).Start(redissim.Everything)
		d.Server(1).Sync()
		time.Sleep(20 * time.Second) // the client subscribes again
		writer.Publish(ctx, "thing", "b")
		synctest.Wait()
		cancel()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(heard, []string{"reader a", "reader b"}) {
			t.Errorf("heard %q", heard)
		}
	})
}

type shared struct{ persist.Store }

func (shared) Shared() bool { return true }
