package cluster

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// Sentinels promote a replica that lacks the last numbers.
func TestSentinelFailover(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	a := testenv.StartRedis(t)
	b := testenv.StartReplica(t, a)
	s := testenv.StartSentinels(t, a, b)
	c := start(t, 2, append(fleet.Postgres(t), "SEQD_REDIS_ADDRS="+strings.Join(s.Addrs(), ","), "SEQD_REDIS_MASTERNAME="+s.Name)...)
	c.more(c.members...)
	c.cutOff(b) // Sentinel repairs that only after five seconds
	c.more(c.members...)
	a.Kill()
	if heir := s.Failover(a); heir != b {
		t.Fatalf("the master is %s", heir.Addr())
	}
	c.awaitTakes(b)
	c.more(c.members...)
	c.finish()
}

// cutOff ends replication to a replica, which stays a replica of an address where nothing listens.
func (c *cluster) cutOff(replica *testenv.Redis) {
	c.Helper()
	nowhere := testenv.NewLink(c, "127.0.0.1:1")
	nowhere.Cut()
	host, port, err := net.SplitHostPort(nowhere.Addr())
	if err == nil {
		err = replica.Client().ReplicaOf(c.Context(), host, port).Err()
	}
	must.Do(c, err)
}

// awaitTakes waits until numbers are taken at a server.
func (c *cluster) awaitTakes(r *testenv.Redis) {
	c.Helper()
	before := ""
	await.Eventually(c, "numbers are taken at "+r.Addr(), func() error {
		cur, err := r.Client().HGet(c.Context(), key, "cur").Result()
		if err == nil && (before == "" || before == cur) {
			before, err = cur, fmt.Errorf("%s was taken last", cur)
		}
		return err
	})
}

// Under load, a Redis Cluster moves the slot of the cursor, which is lost meanwhile, and then fails
// over.
func TestRedisCluster(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	servers := testenv.StartCluster(t)
	c := start(t, 2, append(fleet.Postgres(t), "SEQD_REDIS_ADDRS="+strings.Join(servers.Addrs(), ","))...)
	c.more(c.members...)
	m := servers.BeginMigration(key)
	c.more(c.members...)
	must.Do(t, m.From.Client().Del(t.Context(), key).Err())
	c.more(c.members...) // at the new owner, by ASK
	m.MoveKeys()
	m.Finish()
	c.awaitTakes(m.To)
	c.more(c.members...)
	master := servers.Master(key)
	master.Kill()
	c.awaitTakes(servers.Failover(key, master))
	c.more(c.members...)
	c.finish()
}
