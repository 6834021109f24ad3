// Package cluster tests several real processes that share a store, with Redis and without: that
// they issue in strict order, that they survive kill -9, SIGSTOP and a Redis that loses everything,
// and that they follow Sentinels and a Redis Cluster. Everything else that can happen to nodes is
// tested in simulation, see internal/testing/sim.
package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

func TestMain(m *testing.M) { node.Main(m) }

// phase is how many numbers each node issues before, during and after a fault.
const phase = 200

// key is the Redis key of the cursor.
var key = rediscursor.Key("seqd:", "order")

// cluster is a set of nodes that issue one biz type in strict order under load, and a record of the
// numbers that their callers got.
type cluster struct {
	*testing.T
	members []*member
	history *ordercheck.Record
}

type member struct {
	*fleet.Member
	name    string
	lives   int
	traffic *node.Traffic
}

// start starts nodes with the same settings, and puts load on them once all is well. They refuse
// callers while Redis is away: otherwise a node that does not reach it in time, because the machine
// is slow, would issue on its own, and not in order.
func start(t *testing.T, nodes int, settings ...string) *cluster {
	t.Helper()
	c := &cluster{T: t, history: ordercheck.New()}
	settings = append(settings, `SEQD_BIZTYPES=[{"name":"order","step":1000,"maxStep":1000}]`, "SEQD_SEGMENT_ONREDISDOWN=reject")
	for i, m := range fleet.Start(t, nodes, settings...) {
		c.members = append(c.members, &member{Member: m, name: fmt.Sprint("node ", i)})
		t.Cleanup(func() {
			if log := m.Node.Log(); t.Failed() {
				t.Logf("log of node %d:\n%s", i, log[max(0, len(log)-10_000):])
			}
		})
	}
	c.awaitWell()
	for _, m := range c.members {
		c.load(m)
	}
	return c
}

// load puts load on the present life of a node.
func (c *cluster) load(m *member) {
	m.lives++
	m.traffic = node.StartTraffic(m.Node, "order", c.history, fmt.Sprintf("%s, life %d,", m.name, m.lives), node.Pace{Callers: 4, Pause: 5 * time.Millisecond, Largest: 50})
}

// more waits until every one of the nodes has issued so many more numbers.
func (c *cluster) more(of ...*member) {
	c.Helper()
	for _, m := range of {
		m.traffic.More(c, phase)
	}
}

// awaitWell waits until all nodes are ready, and none is degraded.
func (c *cluster) awaitWell() {
	c.Helper()
	for _, m := range c.members {
		m.Node.AwaitReadiness(200, "")
	}
}

// comeAndGo kills the first node and stops the second one, under load.
func (c *cluster) comeAndGo() {
	c.Helper()
	for i, m := range c.members[:2] {
		c.more(c.members...)
		if i == 0 {
			m.Kill()
		} else {
			m.Node.Stop()
		}
		m.traffic.Stop()
		c.more(c.members[2:]...)
		m.Start()
		c.load(m)
	}
	c.more(c.members...)
}

// pause stops the last node for a while, as SIGSTOP does, while the others continue.
func (c *cluster) pause() {
	c.Helper()
	last := len(c.members) - 1
	c.members[last].Node.Pause()
	for range 5 {
		c.more(c.members[:last]...)
	}
	c.members[last].Node.Resume()
	c.more(c.members[last])
}

// finish ends all nodes and checks every number that any of them issued.
func (c *cluster) finish() {
	c.Helper()
	for _, m := range c.members {
		for code := range m.traffic.Failures() {
			if !slices.Contains([]string{"redis_unavailable", "store_unavailable", "timeout"}, code) {
				c.Errorf("%s refused with %s", m.name, code)
			}
		}
		m.traffic.Stop()
		m.Node.Stop()
	}
	must.Report(c, c.history.Check())
	c.Logf("%d numbers up to %d", c.history.Numbers(), c.history.Highest())
}

// Three nodes have nothing but a store. Numbers are in strict order over all of them throughout.
func TestStoreOrders(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	c := start(t, 3, fleet.Postgres(t)...)
	c.comeAndGo()
	c.pause()
	c.finish()
}

// Three nodes have Redis, too, which loses everything twice. They notice by themselves, and the
// order holds.
func TestRedisOrders(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t, `save ""`)
	c := start(t, 3, append(fleet.Postgres(t), "SEQD_REDIS_ADDRS="+r.Addr())...)
	c.comeAndGo()
	c.pause()
	must.Do(t, r.Client().FlushAll(t.Context()).Err())
	c.more(c.members...)
	r.Kill()
	for _, m := range c.members {
		m.Node.AwaitReadiness(503, "redis_unavailable")
	}
	r.RestartEmpty()
	c.more(c.members...)
	c.awaitWell()
	c.finish()
}

// A change on one node reaches the others over Redis. In simulation, nodes learn of changes from
// the store only.
func TestChangesReachEveryNode(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t)
	nodes := fleet.Start(t, 2, append(fleet.Postgres(t), "SEQD_BIZTYPESFROM=store", "SEQD_REDIS_ADDRS="+r.Addr())...)
	a, b := nodes[0].Node, nodes[1].Node
	change := func(n *node.Node, method, path string, status int) {
		t.Helper()
		body := ""
		if method == "PUT" {
			body = "{}"
		}
		if answer, err := n.Do(method, "/biz-types/late"+path, body); err != nil || answer.Status > 299 {
			t.Fatalf("%v %d %s", err, answer.Status, answer.Body)
		}
		for _, n := range []*node.Node{a, b} {
			await.Eventually(t, "the change is seen", func() error {
				answer, err := n.Do("GET", "/seq/late", "")
				if err == nil && answer.Status != status {
					err = fmt.Errorf("%d %s", answer.Status, answer.Body)
				}
				return err
			})
		}
	}
	published := subscribe(t, r, 2)
	change(a, "PUT", "", 200)
	await.True(t, "the change is published", func() bool {
		select {
		case m := <-published:
			return strings.Contains(m.Payload, `"late"`)
		default:
			return false
		}
	})
	change(b, "POST", "/disable", 409)
}

// subscribe waits until so many nodes listen to the one channel for changes, and listens too.
func subscribe(t *testing.T, r *testenv.Redis, nodes int64) <-chan *redis.Message {
	t.Helper()
	channel := ""
	await.True(t, fmt.Sprintf("%d nodes listen", nodes), func() bool {
		for _, channel = range r.Client().PubSubChannels(t.Context(), "seqd:changes:*").Val() {
			return r.Client().PubSubNumSub(t.Context(), channel).Val()[channel] == nodes
		}
		return false
	})
	s := r.Client().Subscribe(t.Context(), channel)
	t.Cleanup(func() { _ = s.Close() })
	must.Get(s.Receive(t.Context()))(t)
	return s.Channel()
}
