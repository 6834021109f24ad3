package snowflake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
)

// The requirements on a server with a registry, and its lag.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		replicas int
		command  string // to the primary
		want     string // in the error; "" for no error
		lag      int64
	}{
		"alone":                      {0, "PING", "", 0},
		"alone, told to be followed": {0, "CONFIG SET min-replicas-to-write 1", "", 12_000},
		"alone, without a bound":     {0, "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 0", "min-replicas-max-lag", 0},
		"evicts":                     {0, "CONFIG SET maxmemory-policy allkeys-lru", "noeviction", 0},
		"evicts others":              {0, "CONFIG SET maxmemory-policy volatile-lru", "", 0},
		"followed":                   {1, "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 3", "", 5_000},
		"followed by more":           {1, "CONFIG SET min-replicas-to-write 2", "", 12_000},
		"followed, not told":         {1, "PING", "min-replicas-to-write", -1},
		"followed, too few":          {2, "CONFIG SET min-replicas-to-write 1", "set it to 2", -1},
		"followed, without a bound":  {1, "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 0", "min-replicas-max-lag", -1},
		"no CONFIG":                  {1, "ACL SETUSER default -config|get", "+config|get", -1},
		"no INFO":                    {0, "ACL SETUSER default -info", "+info", -1},
		"a replica":                  {0, "REPLICAOF 127.0.0.1 1", "redis.masterName", -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.StartRedis(t)
			for range test.replicas {
				testenv.StartReplica(t, server)
			}
			client := connect(t, server.Addr(), calm)
			var args []any
			for _, word := range strings.Fields(test.command) {
				args = append(args, word)
			}
			command(t, client, args...)
			err := redisslots.Check(t.Context(), client)
			if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, redisslots.ErrUnfit) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v", err)
			}
			table, err := open(t, client, "seqd:").Look(t.Context(), tableName)
			switch {
			case test.lag < 0 && err == nil:
				t.Errorf("a look: %+v", table)
			case test.lag >= 0 && (err != nil || table.Lag != test.lag):
				t.Errorf("a look: %+v, %v", table, err)
			}
		})
	}
}

// A replica that is added after the check could be promoted unnoticed. Look fails until the server
// waits for it too.
func TestReplicaAddedAfterTheCheck(t *testing.T) {
	t.Parallel()
	const told = "min-replicas-to-write 1"
	server := testenv.StartRedis(t, told, "min-replicas-max-lag 3")
	testenv.StartReplica(t, server, told)
	client := connect(t, server.Addr(), calm)
	must.Do(t, redisslots.Check(t.Context(), client))
	s := open(t, client, "seqd:")
	must.Equal(t, s.look().Lag, 5_000, "the lag")
	testenv.StartReplica(t, server, told)
	if table, err := s.Look(t.Context(), tableName, 5); !errors.Is(err, redisslots.ErrUnfit) || !strings.Contains(err.Error(), "set it to 2") {
		t.Errorf("a look: %+v, %v", table, err)
	}
	command(t, client, "CONFIG", "SET", "min-replicas-to-write", "2")
	must.Equal(t, s.look(5).Lag, 5_000, "the lag")
}

func TestCheckDeadServer(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	client := connect(t, server.Addr(), calm)
	server.Kill()
	if err := redisslots.Check(t.Context(), client); !errors.Is(err, persist.ErrUnavailable) || errors.Is(err, redisslots.ErrUnfit) {
		t.Errorf("error %v", err)
	}
}

// With Sentinels, replicas count even if there are none at the moment, and a new primary has a lag.
func TestSentinels(t *testing.T) {
	t.Parallel()
	master := testenv.StartRedis(t)
	replica := testenv.StartReplica(t, master)
	sentinels := testenv.StartSentinels(t, master, replica)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: sentinels.Name, SentinelAddrs: sentinels.Addrs(), MaxRetries: -1, DialerRetries: 1, DialTimeout: calm, ReadTimeout: calm, WriteTimeout: calm,
	})
	t.Cleanup(func() { _ = client.Close() })
	if err := redisslots.Check(t.Context(), client); !errors.Is(err, redisslots.ErrUnfit) || !strings.Contains(err.Error(), "min-replicas-to-write") {
		t.Errorf("not told: %v", err)
	}
	for _, server := range []*testenv.Redis{master, replica} {
		command(t, server.Client(), "CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", "4")
	}
	await.Eventually(t, "the primary counts its replica", func() error {
		if n := master.Info("replication")["min_slaves_good_slaves"]; n != "1" {
			return fmt.Errorf("it counts %q", n)
		}
		return nil
	})
	must.Report(t, redisslots.Check(t.Context(), client))
	s := open(t, client, "seqd:")
	source := s.fill()
	await.Eventually(t, "the replica is in step", func() error {
		if n, err := replica.Client().HLen(t.Context(), s.key).Result(); err != nil || n != 4 {
			return fmt.Errorf("it has %d fields, %w", n, err)
		}
		return nil
	})
	master.Kill()
	sentinels.Failover(master)
	var table persist.SlotTable
	await.Eventually(t, "the client finds the new primary", func() (err error) {
		table, err = s.Look(t.Context(), tableName)
		return err
	})
	if table.Source == source || table.Lag != 6_000 || table.Set == nil || *table.Set != set || len(table.Slots) != 1 {
		t.Errorf("after the failover: %+v", table)
	}
	s.swap(false, persist.SlotSwap{OldSet: &set, OldSlot: leased(5), NewSlot: leased(5), Source: source})
	// It has no replica left, so it accepts no writes.
	made, err := s.Swap(t.Context(), tableName, persist.SlotSwap{OldSet: &set, OldSlot: leased(5), NewSlot: leased(5), Source: table.Source})
	if made || !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("a swap: %v, %v", made, err)
	}
	must.Report(t, redisslots.Check(t.Context(), client))
}

// In a Cluster every primary must be fit. The lag is that of the primary with the registry.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(), MaxRetries: -1, DialerRetries: 1, DialTimeout: calm, ReadTimeout: calm, WriteTimeout: calm, DisableRoutingPolicies: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	s := open(t, client, "seqd:")
	must.Is(t, redisslots.Check(t.Context(), client), redisslots.ErrUnfit, "not told")
	owner := cluster.Master(s.key)
	for _, node := range cluster.Nodes {
		lag := "2"
		if node == owner {
			lag = "7"
		}
		command(t, node.Client(), "CONFIG", "SET", "min-replicas-to-write", "1", "min-replicas-max-lag", lag)
	}
	await.Eventually(t, "the primaries count their replicas", func() error {
		return client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
			if text, err := node.Info(ctx, "replication").Result(); err != nil || !strings.Contains(text, "min_slaves_good_slaves:1") {
				return fmt.Errorf("%s, %w", text, err)
			}
			return nil
		})
	})
	must.Report(t, redisslots.Check(t.Context(), client))
	s.fill()
	if table := s.look(); table.Lag != 9_000 || len(table.Slots) != 1 || table.Source != owner.ReplicationID() {
		t.Errorf("%+v", table)
	}
}
