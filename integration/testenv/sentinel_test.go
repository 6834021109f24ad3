package testenv_test

import (
	"fmt"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
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
	eventually(t, "a client of the Sentinels follows", s, func() error { return client.Set(t.Context(), "a", "2", 0).Err() })
	want(t, b.Client(), "a", "2")
	eventually(t, "the old master follows the new one", a, func() error {
		if info := a.Info("replication"); info["role"] != "slave" || info["master_link_status"] != "up" {
			return fmt.Errorf("%v", info)
		}
		return nil
	})
	b.Kill()
	if got := s.AwaitMaster(b); got != a {
		t.Fatalf("the master after a kill is %s", got.Addr())
	}
	eventually(t, "a client of the Sentinels follows", s, func() error { return client.Set(t.Context(), "a", "3", 0).Err() })
	want(t, a.Client(), "a", "3")
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
	eventually(t, "the paused master becomes a replica", a, func() error {
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
