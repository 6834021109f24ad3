package testenv_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
)

func TestSentinels(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	a := testenv.StartRedis(t)
	b := testenv.StartReplica(t, a)
	s := testenv.StartSentinels(t, a, b)
	if got := s.AwaitMaster(); got != a {
		t.Fatalf("the master is %s", got.Addr())
	}
	client := s.Client()
	set(t, client, "a", "1")
	id := a.ReplicationID()
	if got := s.Failover(); got != b || b.ReplicationID() == id {
		t.Fatalf("the master after a failover is %s, and its ID %s was %s", got.Addr(), b.ReplicationID(), id)
	}
	want(t, b.Client(), "a", "1")
	writes(t, s, client, b, "2")
	await.Eventually(t, "the old master follows the new one", func() error {
		if info := a.Info("replication"); info["role"] != "slave" || info["master_link_status"] != "up" {
			return fmt.Errorf("%v", info)
		}
		return nil
	})
	b.Kill()
	if got := s.AwaitMaster(b); got != a {
		t.Fatalf("the master after a kill is %s", got.Addr())
	}
	writes(t, s, client, a, "3")
}

// writes waits until what a client of the Sentinels writes is at the new master. The old one may
// accept writes, and lose them, until a Sentinel makes it a replica.
func writes(t *testing.T, s *testenv.Sentinels, client *redis.Client, master *testenv.Redis, value string) {
	t.Helper()
	await.Eventually(t, "a client of the Sentinels follows", func() error {
		if err := client.Set(t.Context(), "a", value, 0).Err(); err != nil {
			return err
		}
		got, err := master.Client().Get(t.Context(), "a").Result()
		if err == nil && got != value {
			err = fmt.Errorf("%s is at %s", got, master.Addr())
		}
		return err
	})
}

func TestSentinelsWithoutOne(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	a := testenv.StartRedis(t)
	b := testenv.StartReplica(t, a)
	s := testenv.StartSentinels(t, a, b)
	s.Trio[0].Kill()
	a.Pause()
	if got := s.AwaitMaster(a); got != b {
		t.Fatalf("the master is %s", got.Addr())
	}
	a.Resume() // it still acts as the master, until a Sentinel reconfigures it
	await.Eventually(t, "the paused master becomes a replica", func() error {
		if role := a.Info("replication")["role"]; role != "slave" {
			return fmt.Errorf("it is a %s", role)
		}
		return nil
	})
	s.Trio[0].Restart() // it missed the failovers
	if got := s.AwaitMaster(); got != b {
		t.Fatalf("the master is %s", got.Addr())
	}
}
