// Package idempotency tests Idempotency-Key on real servers: answers in Redis and in MongoDB.
package idempotency

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/idempotency"
	"github.com/seqd/seqd/server/idempotency/idempotencytest"
)

const calm = await.Patience

// connect returns a client as the product builds it.
func connect(t testing.TB, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: calm, ReadTimeout: calm, WriteTimeout: calm, Protocol: 2,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func open(client redis.UniversalClient, prefix string) *idempotency.Redis {
	return idempotency.NewRedis(idempotency.RedisOptions{Client: client, Prefix: prefix})
}

// age makes every key expire as if the given time had passed.
func age(t testing.TB, client redis.UniversalClient, prefix string, d time.Duration) {
	t.Helper()
	keys := keysOf(t, client, prefix)
	for _, key := range keys {
		left, err := client.PTTL(t.Context(), key).Result()
		if err != nil || left <= 0 {
			t.Fatalf("%s has %v left, %v", key, left, err)
		}
		// An expiry of 0 or less removes the key.
		must.Do(t, client.PExpire(t.Context(), key, left-d).Err())
	}
}

// keysOf returns all keys.
func keysOf(t testing.TB, client redis.UniversalClient, prefix string) (keys []string) {
	t.Helper()
	var mu sync.Mutex // guards keys
	look := func(ctx context.Context, node *redis.Client) error {
		found, err := node.Keys(ctx, prefix+"answer:*").Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, found...)
		return err
	}
	var err error
	switch client := client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(t.Context(), look)
	case *redis.Client:
		err = look(t.Context(), client)
	}
	must.Do(t, err)
	return keys
}

func TestRedis(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	idempotencytest.Run(t, func(t *testing.T) (one, two idempotency.Backend, pass func(time.Duration)) {
		prefix := testenv.Unique() + ":"
		return open(connect(t, server.Addr()), prefix), open(connect(t, server.Addr()), prefix),
			func(d time.Duration) { age(t, server.Client(), prefix, d) }
	})
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	idempotencytest.Run(t, func(t *testing.T) (one, two idempotency.Backend, pass func(time.Duration)) {
		prefix := testenv.Unique() + ":"
		client := func() redis.UniversalClient {
			c := redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: cluster.Addrs(), MaxRetries: -1, DialerRetries: 1, DisableRoutingPolicies: true, DialTimeout: calm, ReadTimeout: calm, WriteTimeout: calm, Protocol: 2,
			})
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		return open(client(), prefix), open(client(), prefix), func(d time.Duration) { age(t, cluster.Client(), prefix, d) }
	})
}

// clock is a clock that tests set.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestMongo(t *testing.T) {
	t.Parallel()
	server := testenv.StartMongo(t)
	idempotencytest.Run(t, func(t *testing.T) (one, two idempotency.Backend, pass func(time.Duration)) {
		database, c := testenv.Unique(), &clock{at: begin}
		backend := func() *idempotency.Store {
			s := openMongo(t, server, database)
			slots := timed{s, c.now}
			return idempotency.NewStore(s.Documents(), storeclock.New(slots, c.now, func() time.Duration { return c.now().Sub(begin) }))
		}
		one = backend()
		return one, backend(), func(d time.Duration) {
			c.pass(d)
			must.Report(t, must.Err(one.(*idempotency.Store).Purge(t.Context())))
		}
	})
}

var begin = time.UnixMilli(1_790_000_000_000)

// timed is a store with a clock that a test sets.
type timed struct {
	persist.Clock
	now func() time.Time
}

func (s timed) Now(ctx context.Context) (time.Time, error) {
	_, err := s.Clock.Now(ctx)
	return s.now(), err
}

func openMongo(t *testing.T, server *testenv.Mongo, database string) *mongo.Store {
	t.Helper()
	s := must.Get(mongo.Open(t.Context(), mongo.Options{URI: server.URI(), Database: database, Timeout: calm, Now: time.Now}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A key that Redis lost is new. A lost claim does not lead to two different answers: what was
// issued under it is skipped.
func TestRedisLost(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := connect(t, server.Addr())
	answers := idempotency.New(idempotency.Options{Backend: open(client, "seqd:"), Cluster: "c", TTL: time.Hour, Wait: calm, Log: slog.New(slog.DiscardHandler)})
	next := int64(0)
	try := func(during func()) (string, error) {
		call := &seqd.Call{BizType: "order", Count: 1}
		replayed, err := answers.Once(t.Context(), "k", call, func(_ context.Context, call *seqd.Call) error {
			next++
			call.Sequence.Add(next, 1, 1)
			during()
			return nil
		})
		return replayed + strings.Join(call.Sequence.IDs(), "\n"), err
	}
	ask := func(during func()) string { return must.Get(try(during))(t) }
	lose := func() {
		must.Do(t, server.Client().FlushAll(t.Context()).Err())
	}
	nothing := func() {}
	if first, again := ask(nothing), ask(nothing); first != "1" || again != "1" {
		t.Errorf("got %s and %s", first, again)
	}
	lose()
	var inner string
	// issues 2, which is discarded because 3 was stored meanwhile
	outer := ask(func() { lose(); inner = ask(nothing) })
	if inner != "3" || outer != "3" || ask(nothing) != "3" {
		t.Errorf("the first request got %s, the later one %s", outer, inner)
	}
	lose()
	if got, err := try(lose); got != "" || seqd.CodeOf(err) != seqd.CodeTimeout || ask(nothing) != "5" {
		t.Errorf("after the claim was lost, a request got %q, %v", got, err)
	}
}

// A Redis that was a replica of the home, and takes writes now, has all its answers and its ID, and is
// another home nevertheless: a node with one of them would not see the answers that the other one gets.
func TestCopyOfTheHome(t *testing.T) {
	first := testenv.StartRedis(t)
	replica := testenv.StartReplica(t, first)
	documents := memory.New(time.Now).Documents()
	look := func(h *idempotency.Home, want error) {
		t.Helper()
		h.Look(t.Context())
		must.Is(t, h.Cause(), want)
	}
	right := idempotency.NewHome(documents, connect(t, first.Addr()), "seqd:", time.Now)
	look(right, nil)
	id := must.Get(first.Client().Get(t.Context(), "seqd:answers").Result())(t)
	await.True(t, "the replica has the ID", func() bool { return replica.Client().Get(t.Context(), "seqd:answers").Val() == id })
	replica.Promote()
	other := idempotency.NewHome(documents, connect(t, replica.Addr()), "seqd:", time.Now)
	look(other, idempotency.ErrNotHome)
	look(right, nil)
}
