package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/redisonce"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/persist/mysql"
	"github.com/seqd/seqd/persist/postgres"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
)

// request asks a server for something, through a pool of connections.
type request func(context.Context) error

// onStore returns requests to a store with a time-out, which may be longer than a configuration may
// say.
func onStore[S driver.Settings](name string, set func(s S, addr string, timeout time.Duration)) func(*testing.T, string, time.Duration) request {
	return func(t *testing.T, addr string, timeout time.Duration) request {
		cfg := config.Default().Store
		cfg.Driver = name
		set(cfg.Settings[name].(S), addr, timeout)
		return storeOf(t, cfg)
	}
}

func storeOf(t *testing.T, cfg config.Store) request {
	var store interface {
		Now(context.Context) (time.Time, error)
		Close() error
	}
	await.Eventually(t, "open the store", func() (err error) {
		store, err = backends.NewStore(t.Context(), cfg, time.Now)
		return err
	})
	t.Cleanup(func() { _ = store.Close() })
	return func(ctx context.Context) error { _, err := store.Now(ctx); return err }
}

var (
	onPostgres = onStore("postgres", func(s *postgres.Settings, addr string, timeout time.Duration) {
		s.URL, s.Timeout = testenv.PostgresURL(addr), timeout
	})
	onMariaDB = onStore("mysql", func(s *mysql.Settings, addr string, timeout time.Duration) {
		s.DSN, s.Timeout = testenv.MariaDBDSN(addr), timeout
	})
	onMongo = onStore("mongo", func(s *mongo.Settings, addr string, timeout time.Duration) {
		s.URI, s.Timeout = "mongodb://"+addr, timeout
	})
)

// onRedis returns requests to a Redis.
func onRedis(t *testing.T, addr string, timeout time.Duration) request {
	cfg := config.Default().Redis
	cfg.Addrs, cfg.Timeout = []string{addr}, timeout
	client := must.Get(backends.NewRedis(t.Context(), cfg))(t)
	t.Cleanup(func() { _ = client.Close() })
	return func(ctx context.Context) error { _, err := redisonce.Do(ctx, client, "time"); return err }
}

// together sends many requests at once, and returns the errors.
func together(ctx context.Context, ask request) error {
	const callers = 32
	done := make(chan error, callers)
	for range callers {
		go func() { done <- ask(ctx) }()
	}
	var all []error
	for range callers {
		all = append(all, <-done)
	}
	return errors.Join(all...)
}

// pooled is a server, and what opens a pool of connections to it.
type pooled struct {
	start func(*testing.T) (addr string)
	open  func(t *testing.T, addr string, timeout time.Duration) request
}

// An address that fails over, or a firewall that forgets, swallows all connections and closes none.
// The first request that finds that out is the last one that suffers.
func TestSwallowedConnections(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	for name, kind := range map[string]pooled{
		"PostgreSQL": {func(t *testing.T) string { return testenv.StartPostgres(t).Addr() }, onPostgres},
		"MariaDB":    {func(t *testing.T) string { return testenv.StartMariaDB(t).Addr() }, onMariaDB},
		"MongoDB":    {func(t *testing.T) string { return testenv.StartMongo(t).Addr() }, onMongo},
		"Redis":      {func(t *testing.T) string { return testenv.StartRedis(t).Addr() }, onRedis},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := testenv.NewSwallower(t, kind.start(t))
			suffer(t, network, kind.open(t, network.Addr(), brief))
		})
	}
}

// A pool that gets fewer connections than it may have works with those.
func TestFewConnections(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	for name, kind := range map[string]pooled{
		"role": {func(t *testing.T) string {
			server := testenv.StartPostgres(t)
			server.Query("ALTER ROLE seqd CONNECTION LIMIT 2")
			return server.Addr()
		}, onPostgres},
		"database": {func(t *testing.T) string {
			server := testenv.StartPostgres(t)
			server.Query("ALTER DATABASE seqd CONNECTION LIMIT 1")
			return server.Addr()
		}, onPostgres},
		"pgbouncer": {func(t *testing.T) string {
			return testenv.StartPgbouncer(t, testenv.StartPostgres(t).Addr(), "max_client_conn = 3").Addr()
		}, onPostgres},
		"MariaDB": {func(t *testing.T) string {
			server := testenv.StartMariaDB(t)
			server.Query("GRANT USAGE ON *.* TO seqd@'%' WITH MAX_USER_CONNECTIONS 2")
			return server.Addr()
		}, onMariaDB},
		"Redis": {func(t *testing.T) string { return testenv.StartRedis(t, "maxclients 4").Addr() }, onRedis},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ask := kind.open(t, kind.start(t), 2*patient)
			for range 3 {
				must.Do(t, together(t.Context(), ask))
			}
		})
	}
}

// suffer swallows the connections of a pool and checks that only one request is sent on them.
func suffer(t *testing.T, network *testenv.Swallower, ask request) {
	for {
		await.True(t, "the pool has connections", func() bool {
			_ = together(t.Context(), ask)
			return network.Opened() >= 6
		})
		network.Swallow()
		began := time.Now()
		if ask(t.Context()) == nil {
			continue // it has opened another connection
		}
		sent := network.Swallowed()
		if sent.After(began.Add(brief / 2)) {
			continue // the machine was slow: the server was asked too late to be suspected
		}
		await.Eventually(t, "a new connection works", func() error { return ask(t.Context()) })
		if again := network.Swallowed(); again != sent {
			t.Fatalf("a request was sent on a swallowed connection %v after the first one", again.Sub(sent))
		}
		return
	}
}
