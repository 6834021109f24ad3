package failover

import (
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// A node gets ranges that the standby never receives, and dies. The other nodes have not seen these
// numbers, so nothing but the fence keeps them from issuing them again.
func TestRangesThatTheStandbyNeverGot(t *testing.T) {
	onBoth(t, func(p *pair) {
		env := settings("per-node")
		idle, busy := p.start("idle", env...), p.start("busy", env...)
		p.take(idle, "idle", 10)
		p.take(busy, "busy", 10)
		p.reach()
		p.standby.Detach()
		for range 20 {
			p.take(busy, "busy", 500)
		}
		busy.Kill()
		before := p.highest(p.primary)
		if behind := before - p.highest(p.standby); behind < 9000 {
			p.t.Fatalf("the standby is only %d numbers behind: this tests nothing", behind)
		}
		p.cutOff()
		fresh := p.start("fresh", env...)
		for range 20 {
			p.take(idle, "idle", 500)
			p.take(fresh, "fresh", 500)
		}
		idle.Stop()
		fresh.Stop()
		p.check()
		if p.skipped(before) < 1 {
			p.t.Error("it skipped nothing")
		}
	})
}

// Nodes under load go on after a failover by themselves, with order per node or over all nodes.
func TestLoadGoesOn(t *testing.T) {
	longtest.Only(t)
	for ordering, env := range map[string][]string{
		"per-node": settings("per-node"), "strict": settings("strict", "SEQD_SEGMENT_SEQUENCER=store"),
	} {
		t.Run(ordering, func(t *testing.T) { loadGoesOn(t, env, ordering == "strict") })
	}
}

func loadGoesOn(t *testing.T, env []string, strict bool) {
	onBoth(t, func(p *pair) {
		a, b := p.start("a", env...), p.start("b", env...)
		onA, onB := p.traffic(a, "a"), p.traffic(b, "b")
		onA.More(p.t, 1000)
		onB.More(p.t, 1000)
		p.reach()
		p.standby.Detach()
		received := p.highest(p.standby)
		onA.More(p.t, 5000)
		onB.More(p.t, 5000)
		p.cutOff()
		before := p.highest(p.primary)
		if before <= received {
			p.t.Fatal("the standby is not behind: this tests nothing")
		}
		onA.Await(p.t, "a passes the failover", func() bool { return onA.Highest() > before })
		onB.Await(p.t, "b passes the failover", func() bool { return onB.Highest() > before })
		a.Await("/readyz", 200)
		b.Await("/readyz", 200)
		onA.Stop()
		onB.Stop()
		a.Stop()
		b.Stop()
		p.t.Logf("failures of a %v, of b %v", onA.Failures(), onB.Failures())
		p.check()
		p.skipped(before)
		if err := p.record.Order(); strict && err != nil {
			p.t.Error(err)
		}
	})
}

// The connection string names both servers, and nodes find the one that takes writes.
func TestConnectionStringOfBothServers(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	p := onPostgres(t)
	other := testenv.NewLink(t, p.standby.Addr())
	p.env = func(addr string) []string { return postgresAt(addr, other.Addr()) }
	n := p.start("n", settings("per-node")...)
	onN := p.traffic(n, "n")
	onN.More(t, 2000)
	p.link.Cut()
	p.standby.Promote()
	before := onN.Highest()
	onN.Await(t, "n passes the failover", func() bool { return onN.Highest() > before+10_000 })
	onN.Stop()
	n.Stop()
	t.Logf("failures %v", onN.Failures())
	p.check()
}
