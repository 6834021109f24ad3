package testenv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/seqd/seqd/internal/testing/await"
)

const (
	slots          = 16384
	clusterMasters = 3
)

// Cluster is a Redis Cluster of three masters with one replica each.
type Cluster struct {
	Nodes []*Redis // the first masters, then their replicas in the same order
	t     testing.TB
	ids   map[*Redis]string // node IDs
	buses map[*Redis]int    // ports of the cluster bus
}

// StartCluster starts a cluster and waits until all nodes agree on it. No node ever counts as dead
// by itself, because a machine that stalls looks like one: see [Cluster.Failover].
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{t: t, ids: map[*Redis]string{}, buses: map[*Redis]int{}}
	for range 2 * clusterMasters {
		bus := reservePort(t)
		node := StartRedis(t, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 3600000",
			"cluster-replica-validity-factor 0", fmt.Sprintf("cluster-port %d", bus))
		c.Nodes = append(c.Nodes, node)
		c.buses[node] = bus
	}
	ctx, cancel := within()
	defer cancel()
	c.meet(ctx)
	c.share(ctx)
	c.AwaitOK()
	return c
}

// meet introduces the nodes to each other and waits until each knows all.
func (c *Cluster) meet(ctx context.Context) {
	c.t.Helper()
	for i, node := range c.Nodes {
		id, err := node.client.ClusterMyID(ctx).Result()
		must(c.t, node, "CLUSTER MYID", err)
		c.ids[node] = id
		// Nodes start with different epochs. Nodes with the same epoch would first have to resolve
		// the conflict.
		must(c.t, node, "CLUSTER SET-CONFIG-EPOCH", node.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	}
	for i, node := range c.Nodes {
		for _, other := range c.Nodes[:i] { // all pairs, because gossip would take seconds
			must(c.t, node, "CLUSTER MEET", node.client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", other.port, c.buses[other]).Err())
		}
	}
	for _, node := range c.Nodes {
		node.await("the nodes know each other", func(ctx context.Context) error { return c.knowsAll(ctx, node) })
	}
}

// knowsAll returns an error until a node has shaken hands with all others.
func (c *Cluster) knowsAll(ctx context.Context, node *Redis) error {
	known, err := node.client.ClusterNodes(ctx).Result()
	if err == nil && (strings.Contains(known, "handshake") || strings.Count(known, "\n") != len(c.Nodes)) {
		err = fmt.Errorf("%s knows:\n%s", node.name, known)
	}
	return err
}

// share assigns slots and replicas to the masters.
func (c *Cluster) share(ctx context.Context) {
	c.t.Helper()
	for i, master := range c.Nodes[:clusterMasters] {
		first, last := i*slots/clusterMasters, (i+1)*slots/clusterMasters-1
		must(c.t, master, "CLUSTER ADDSLOTSRANGE", master.client.ClusterAddSlotsRange(ctx, first, last).Err())
		replica := c.Nodes[clusterMasters+i]
		must(c.t, replica, "CLUSTER REPLICATE", replica.client.ClusterReplicate(ctx, c.ids[master]).Err())
	}
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// Client returns a client of the whole cluster, for the preparations and checks of a test.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(), DisableIdentity: true, DialerRetries: 1, ReadTimeout: await.Patience,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// AwaitOK waits until all running nodes report that the cluster is well, agree on the masters, and
// replicate.
func (c *Cluster) AwaitOK() {
	c.t.Helper()
	eventually(c.t, "the cluster is well", func(ctx context.Context) error { _, err := c.well(ctx); return err })
}

// well returns the view that all running nodes share.
func (c *Cluster) well(ctx context.Context) (view, error) {
	var shared view
	for _, node := range c.running() {
		seen, err := c.viewOf(ctx, node)
		if err != nil {
			return nil, err
		}
		if shared != nil && !slices.Equal(shared, seen) {
			return nil, fmt.Errorf("%s sees %v and another node %v", node.name, seen, shared)
		}
		shared = seen
	}
	return shared, nil
}

// running returns the nodes that can be expected to answer.
func (c *Cluster) running() []*Redis {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(node *Redis) bool { return !node.process.answers() })
}

// view is the assignment of slots to masters, in the order of the slots.
type view []ownership

type ownership struct {
	first, last int
	master      string // address
}

// viewOf returns the view of one node, or an error if the node is not well.
func (c *Cluster) viewOf(ctx context.Context, node *Redis) (view, error) {
	info, err := node.client.ClusterInfo(ctx).Result()
	if err != nil {
		return nil, err
	}
	if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:"+strconv.Itoa(slots)) {
		return nil, fmt.Errorf("%s says %s", node.name, info)
	}
	if err := node.linkUp(ctx); err != nil {
		return nil, err
	}
	ranges := redis.NewClusterSlotsCmd(ctx, "CLUSTER", "SLOTS") // clients use it too
	if err := node.client.Process(ctx, ranges); err != nil {
		return nil, err
	}
	seen := view{}
	for _, r := range ranges.Val() {
		seen = append(seen, ownership{first: r.Start, last: r.End, master: r.Nodes[0].Addr})
	}
	slices.SortFunc(seen, func(a, b ownership) int { return a.first - b.first })
	return seen, nil
}

// Master waits until the cluster is well and returns the master of a key.
func (c *Cluster) Master(key string) *Redis {
	c.t.Helper()
	return c.AwaitMaster(key)
}

// AwaitMaster waits until the cluster is well and the key's master is none of the given nodes.
func (c *Cluster) AwaitMaster(key string, but ...*Redis) *Redis {
	c.t.Helper()
	slot := c.slot(key)
	var master *Redis
	eventually(c.t, "the cluster is well and has a master for "+key, func(ctx context.Context) (err error) {
		master, err = c.owner(ctx, slot, but...)
		return err
	})
	return master
}

// owner returns the node that all nodes report as the master of a slot, or an error if it is one of
// the given nodes.
func (c *Cluster) owner(ctx context.Context, slot int, but ...*Redis) (*Redis, error) {
	shared, err := c.well(ctx)
	if err != nil {
		return nil, err
	}
	owner := c.ownerIn(shared, slot)
	if owner == nil {
		return nil, fmt.Errorf("no node of this cluster owns slot %d", slot)
	}
	if slices.Contains(but, owner) {
		return nil, fmt.Errorf("it is still %s", owner.name)
	}
	return owner, nil
}

func (c *Cluster) ownerIn(shared view, slot int) *Redis {
	for _, owned := range shared {
		if owned.first <= slot && slot <= owned.last {
			if at := slices.Index(c.Addrs(), owned.master); at >= 0 {
				return c.Nodes[at]
			}
		}
	}
	return nil
}

// slot asks the cluster for the slot of a key.
func (c *Cluster) slot(key string) int {
	c.t.Helper()
	ctx, cancel := within()
	defer cancel()
	err := errors.New("no node runs")
	for _, node := range c.running() {
		var slot int64
		if slot, err = node.client.ClusterKeySlot(ctx, key).Result(); err == nil {
			return int(slot)
		}
	}
	must(c.t, c, "CLUSTER KEYSLOT", err)
	return 0
}

// Failover makes the replica of a master that was killed take over without asking anybody, waits
// until all nodes know, and returns the new master of a key.
func (c *Cluster) Failover(key string, dead *Redis) (heir *Redis) {
	c.t.Helper()
	slot := c.slot(key)
	ask := again(func(ctx context.Context) error {
		replica, err := c.replicaOf(ctx, dead)
		if err != nil {
			return err
		}
		return replica.client.Do(ctx, "CLUSTER", "FAILOVER", "TAKEOVER").Err()
	})
	eventually(c.t, "CLUSTER FAILOVER", func(ctx context.Context) (err error) {
		if heir, err = c.owner(ctx, slot, dead); err != nil {
			err = errors.Join(err, ask(ctx))
		}
		return err
	})
	return heir
}

// replicaOf returns a running replica of a master.
func (c *Cluster) replicaOf(ctx context.Context, master *Redis) (*Redis, error) {
	for _, node := range c.running() {
		info, err := node.info(ctx, "replication")
		if err != nil {
			return nil, err
		}
		if info["role"] == "slave" && info["master_port"] == strconv.Itoa(master.port) {
			return node, nil
		}
	}
	return nil, fmt.Errorf("%s has no replica that runs", master.name)
}

// Log returns the logs of all nodes.
func (c *Cluster) Log() string { return logs(c.Nodes) }
