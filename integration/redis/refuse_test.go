// Package redis tests which Redis servers a node accepts or refuses: single servers, Sentinel,
// Cluster, TLS, and unfit servers.
package redis

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

func TestMain(m *testing.M) { node.Main(m) }

// password must not appear in any log.
const password = "correct-horse"

// settings returns the settings of a node with its own store, which connects to Redis but does not
// need it.
func settings(addrs string, more ...string) []string {
	return append([]string{"SEQD_STORE_DRIVER=memory", "SEQD_REDIS_ADDRS=" + addrs}, more...)
}

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in: %s", part, text)
		}
	}
	if strings.Contains(text, password) {
		t.Errorf("the password is in: %s", text)
	}
}

// refuses checks that seqd does not start and reports the reason.
func refuses(t *testing.T, env []string, want ...string) {
	t.Helper()
	n := node.Launch(t, t.TempDir(), env...)
	await.True(t, "seqd ends", func() bool {
		if strings.Contains(n.Log(), "Redis cannot be used now") { // the machine stalled longer than redis.timeout
			n.Kill()
			n = node.Launch(t, t.TempDir(), env...)
		}
		return n.Ended()
	})
	log := n.Fails()
	wantText(t, log, want...)
	if strings.Contains(log, "Redis is well") {
		t.Errorf("it was found well: %s", log)
	}
}

// accepts checks that seqd starts and finds Redis well.
func accepts(t *testing.T, env []string) {
	t.Helper()
	n := node.StartReady(t, t.TempDir(), env...)
	n.AwaitLog("Redis is well")
	must.Report(t, must.Err(n.Take("order", 1)))
	n.Stop()
}

// user creates a user with the password on a server.
func user(t *testing.T, server *testenv.Redis, name string, rules ...any) []string {
	t.Helper()
	args := append([]any{"ACL", "SETUSER", name, "reset", "on", ">" + password}, rules...)
	must.Do(t, server.Client().Do(t.Context(), args...).Err())
	return settings(server.Addr(), "SEQD_REDIS_USERNAME="+name, "SEQD_REDIS_PASSWORD="+password)
}

// onBolt returns the settings of a store that keeps its cluster ID over restarts.
func onBolt(t *testing.T) []string {
	return []string{"SEQD_STORE_DRIVER=bolt", "SEQD_STORE_BOLT_PATH=" + filepath.Join(t.TempDir(), "seqd.db")}
}

// The documented rights are enough. If one of them is missing, seqd reports it at the start.
func TestUsers(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	bolt := onBolt(t)
	rights := []any{"~seqd:*", "+eval", "+evalsha", "+info", "+hmget", "+hset", "+time"}
	accepts(t, append(user(t, server, "few", rights...), bolt...))
	accepts(t, append(append(user(t, server, "few", append(rights, "+select")...), "SEQD_REDIS_DB=3"), bolt...))
	for i, missing := range rights {
		t.Run(fmt.Sprint("without ", missing), func(t *testing.T) {
			var rest []any
			rest = append(append(rest, rights[:i]...), rights[i+1:]...)
			switch env := append(user(t, server, "without"+fmt.Sprint(i), rest...), bolt...); missing {
			case "+info":
				refuses(t, env, "INFO", "redis.addrs: ")
			case "+eval": // not needed while the server has the scripts
				accepts(t, env)
			default:
				refuses(t, env, "redis.username: the user lacks rights", "~seqd:* +eval")
			}
		})
	}
	t.Run("without select", func(t *testing.T) {
		refuses(t, append(user(t, server, "noselect", rights...), "SEQD_REDIS_DB=3"), "redis.username: ", "+select")
	})
	t.Run("another prefix", func(t *testing.T) {
		env := user(t, server, "other", rights...)
		refuses(t, append(env, "SEQD_REDIS_KEYPREFIX=mine:"), "redis.username: ", "~mine:*")
	})
	t.Run("nothing cached", func(t *testing.T) {
		must.Do(t, server.Client().ScriptFlush(t.Context()).Err())
		refuses(t, user(t, server, "noeval", "~seqd:*", "+evalsha", "+info", "+hmget", "+hset", "+time"), "redis.username: ", "+eval")
	})
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	must.Do(t, server.Client().ConfigSet(t.Context(), "requirepass", password).Err())
	accepts(t, settings(server.Addr(), "SEQD_REDIS_PASSWORD="+password))
	refuses(t, settings(server.Addr()), "redis.password: ", "NOAUTH")
	refuses(t, settings(server.Addr(), "SEQD_REDIS_PASSWORD=wrong"), "redis.password: ", "WRONGPASS")
	refuses(t, settings(server.Addr(), "SEQD_REDIS_USERNAME=nobody", "SEQD_REDIS_PASSWORD="+password), "redis.username, redis.password: ", "WRONGPASS")
}

// A server without AUTH repeats its arguments in the error.
func TestRenamedCommands(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, `rename-command AUTH ""`)
	accepts(t, settings(server.Addr(), "SEQD_REDIS_PASSWORD="+password)) // the password is sent with HELLO
	server = testenv.StartRedis(t, `rename-command EVALSHA ""`)
	refuses(t, settings(server.Addr()), "redis.addrs: the server does not know a command", "evalsha")
}

func TestUnfitServers(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	replica := testenv.StartReplica(t, server)
	refuses(t, settings(replica.Addr()), "redis.addrs: ", "is a replica", "redis.masterName")
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "allkeys-random"} {
		evicting := testenv.StartRedis(t, "maxmemory-policy "+policy)
		refuses(t, settings(evicting.Addr()), "redis.addrs: ", "maxmemory-policy is "+policy, "noeviction")
	}
	accepts(t, settings(testenv.StartRedis(t, "maxmemory-policy volatile-lru").Addr()))
	refuses(t, settings(server.Addr()+","+testenv.StartRedis(t).Addr()), "redis.addrs: several addresses mean a Redis Cluster")
	refuses(t, settings(server.Addr(), "SEQD_REDIS_DB=15", "SEQD_REDIS_MASTERNAME=m"), "redis.masterName: it is set, but the servers of redis.addrs are not Sentinels")
	two := testenv.StartRedis(t, "databases 2")
	refuses(t, settings(two.Addr(), "SEQD_REDIS_DB=2"), "redis.db: ", "out of range")
}

// Something else listens at the address.
func TestNoRedisAtAll(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	addr := strings.TrimPrefix(web.URL, "http://")
	refuses(t, settings(addr), "redis.addrs: what answers there is not Redis")
	refuses(t, settings(addr+","+testenv.StartRedis(t).Addr()), "redis.addrs: ")
	refuses(t, settings(addr, "SEQD_REDIS_MASTERNAME=m"), "redis.addrs: what answers there is not Redis")
	// MongoDB closes the connection on invalid input, as does a proxy whose server is down. That
	// may be temporary, so seqd starts.
	n := node.StartReady(t, t.TempDir(), settings(testenv.StartMongo(t).Addr())...)
	n.AwaitLog("Redis cannot be used now")
	n.Stop()
	wantText(t, n.Log(), "redis.addrs: ")
}

// Two clusters with separate stores must not share a Redis with the same key prefix.
func TestForeignCluster(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	one, other := settings(server.Addr(), onBolt(t)...), settings(server.Addr(), onBolt(t)...)
	accepts(t, one)
	refuses(t, other, "another store", "redis.keyPrefix")
	accepts(t, one) // the cluster ID belongs to the store, not to the process
	accepts(t, append(other, "SEQD_REDIS_KEYPREFIX=mine:"))
	accepts(t, settings(server.Addr())) // a store in memory is new at each start
}

// Data of a newer version is not changed.
func TestNewerHash(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	key := fmt.Sprintf("seqd:{:probe%d}", rediscursor.FormatVersion)
	must.Do(t, server.Client().HSet(t.Context(), key, "v", strconv.Itoa(rediscursor.FormatVersion+1), "cluster", "c", "new", "x").Err())
	refuses(t, settings(server.Addr()), "newer version")
	if got, err := server.Client().HLen(t.Context(), key).Result(); err != nil || got != 3 {
		t.Errorf("%d fields, %v", got, err)
	}
}

// seqd starts even if the server is away, hangs or is full. It logs the problem once, and logs once
// when the server is well.
func TestAwayAndBack(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ harm, heal func(*testenv.Redis) }{
		"killed": {(*testenv.Redis).Kill, (*testenv.Redis).Restart},
		"paused": {(*testenv.Redis).Pause, (*testenv.Redis).Resume},
		"full": {
			func(r *testenv.Redis) { r.Client().ConfigSet(t.Context(), "maxmemory", "1kb") },
			func(r *testenv.Redis) { r.Client().ConfigSet(t.Context(), "maxmemory", "0") },
		},
		"too few replicas": {
			func(r *testenv.Redis) { r.Client().ConfigSet(t.Context(), "min-replicas-to-write", "1") },
			func(r *testenv.Redis) { r.Client().ConfigSet(t.Context(), "min-replicas-to-write", "0") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			test.harm(server)
			n := node.StartReady(t, t.TempDir(), settings(server.Addr(), "SEQD_REDIS_TIMEOUT=500ms")...)
			must.Report(t, must.Err(n.Take("order", 10)))
			n.AwaitLog("Redis cannot be used")
			time.Sleep(2 * time.Second) // several checks
			if got := strings.Count(n.Log(), "Redis cannot be used"); got != 1 || strings.Contains(n.Log(), "Redis is well") {
				t.Errorf("complained %d times: %s", got, n.Log())
			}
			test.heal(server)
			n.AwaitLog("Redis is well")
			n.Stop()
		})
	}
}

// If a server is found unfit only when it comes back, seqd logs it and continues.
func TestUnfitWhenItComes(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartRedis(t, "maxmemory-policy allkeys-lru")
	server.Pause()
	n := node.StartReady(t, t.TempDir(), settings(server.Addr())...)
	server.Resume()
	n.AwaitLog("maxmemory-policy")
	must.Report(t, must.Err(n.Take("order", 1)))
	must.Do(t, server.Client().ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	n.AwaitLog("Redis is well")
	n.Stop()
	must.Equal(t, strings.Count(n.Log(), "Redis cannot be used as it is"), 1, "the complaints in %s", n.Log())
}
