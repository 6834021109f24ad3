package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	addrs := strings.Join(cluster.Addrs(), ",")
	accepts(t, settings(addrs))
	accepts(t, settings(strings.Join(cluster.Addrs()[4:], ","))) // the client finds the rest through replicas
	refuses(t, settings(cluster.Addrs()[0]), "redis.addrs: one address means a single server", "Redis Cluster")
	rights := []any{"~seqd:*", "+eval", "+evalsha", "+info", "+hmget", "+hset", "+time", "+asking"}
	everywhere := func(name string, rules ...any) (env []string) {
		for _, server := range cluster.Nodes {
			env = user(t, server, name, rules...)
		}
		return append(env, "SEQD_REDIS_ADDRS="+addrs)
	}
	accepts(t, everywhere("few", append(rights, "+cluster|slots")...))
	refuses(t, everywhere("noslots", rights...), "redis.username: ", "+cluster|slots")
	must.Do(t, cluster.Nodes[1].Client().ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	refuses(t, settings(addrs), "redis.addrs: ", "maxmemory-policy")
}

// A server in Cluster mode without a Cluster serves no key.
func TestClusterWithoutSlots(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-port "+port(testenv.ReserveAddr(t)))
	refuses(t, settings(server.Addr()), "redis.addrs: one address means a single server")
	n := node.StartReady(t, t.TempDir(), settings(server.Addr()+",127.0.0.1:1")...)
	n.AwaitLog("Redis cannot be used now")
	n.Stop()
}

func TestSentinels(t *testing.T) {
	t.Parallel()
	master := testenv.StartRedis(t)
	sentinels := testenv.StartSentinels(t, master, testenv.StartReplica(t, master))
	addrs := strings.Join(sentinels.Addrs(), ",")
	known := "SEQD_REDIS_MASTERNAME=" + sentinels.Name
	accepts(t, settings(addrs, known))
	accepts(t, settings(addrs, known, "SEQD_REDIS_DB=15"))
	refuses(t, settings(addrs, "SEQD_REDIS_MASTERNAME=unknown"), "redis.masterName: the Sentinels know no primary of this name")
	refuses(t, settings(sentinels.Addrs()[0]), "redis.addrs: the server is a Sentinel", "redis.masterName")
	refuses(t, settings(addrs), "redis.addrs: several addresses mean a Redis Cluster", "redis.masterName")
	for _, sentinel := range sentinels.Trio {
		must.Do(t, sentinel.Client().Do(t.Context(), "ACL", "SETUSER", "default", "resetpass", ">"+password).Err())
	}
	accepts(t, settings(addrs, known, "SEQD_REDIS_SENTINELPASSWORD="+password))
	refuses(t, settings(addrs, known), "redis.sentinelPassword: ")
	refuses(t, settings(addrs, known, "SEQD_REDIS_SENTINELPASSWORD=wrong"), "redis.sentinelPassword: ")
	refuses(t, settings(addrs, known, "SEQD_REDIS_PASSWORD="+password), "redis.sentinelPassword: ")
}

// The Sentinel that seqd is subscribed to hangs while the others promote the replica. seqd switches
// to them.
func TestSentinelHangs(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	// so that Redis is not well until another server is the primary
	master := testenv.StartRedis(t, "min-replicas-to-write 5")
	sentinels := testenv.StartSentinels(t, master, testenv.StartReplica(t, master))
	n := node.StartReady(t, t.TempDir(), settings(strings.Join(sentinels.Addrs(), ","), "SEQD_REDIS_MASTERNAME="+sentinels.Name)...)
	n.AwaitLog("Redis cannot be used now")
	subscribed(t, sentinels).Pause()
	master.Kill()
	sentinels.Failover(master)
	n.AwaitLog("Redis is well")
	n.Stop()
}

// subscribed returns the Sentinel that a client is subscribed to.
func subscribed(t *testing.T, sentinels *testenv.Sentinels) (found *testenv.Redis) {
	t.Helper()
	await.True(t, "a client is subscribed to a Sentinel", func() bool {
		for _, sentinel := range sentinels.Trio {
			reply := redis.NewStringCmd(t.Context(), "CLIENT", "LIST", "TYPE", "PUBSUB")
			must.Do(t, sentinel.Client().Process(t.Context(), reply))
			if strings.Contains(reply.Val(), "sub=2") {
				found = sentinel
			}
		}
		return found != nil
	})
	return found
}

// A temporary state after a failover, a primary that still thinks it is a replica, does not stop
// the start.
func TestSentinelsNameAReplica(t *testing.T) {
	t.Parallel()
	master := testenv.StartRedis(t)
	sentinels := testenv.StartSentinels(t, master)
	replica := testenv.StartReplica(t, testenv.StartRedis(t))
	for _, sentinel := range sentinels.Trio {
		host, port, _ := strings.Cut(replica.Addr(), ":")
		for _, command := range [][]any{{"SENTINEL", "REMOVE", sentinels.Name}, {"SENTINEL", "MONITOR", sentinels.Name, host, port, "2"}} {
			if err := sentinel.Client().Do(t.Context(), command...).Err(); err != nil {
				t.Fatal(fmt.Errorf("%v: %w", command, err))
			}
		}
	}
	n := node.StartReady(t, t.TempDir(), settings(strings.Join(sentinels.Addrs(), ","), "SEQD_REDIS_MASTERNAME="+sentinels.Name)...)
	n.AwaitLog("Redis cannot be used now")
	n.Stop()
	wantText(t, n.Log(), "is a replica")
}
