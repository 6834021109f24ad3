package failover

import (
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/persist/sqlstore"
)

// A node gets ranges that the standby never receives, and dies. The other nodes have not seen these
// numbers, so nothing but the fence keeps them from issuing them again.
func TestRangesThatTheStandbyNeverGot(t *testing.T) {
	onBoth(t, func(p *pair) {
		env := settings()
		idle, busy := p.start(env...), p.start(env...)
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
		fresh := p.start(env...)
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

// A node with failover lossless marks the store, so nothing is skipped after a failover. A command
// with that setting does not mark it: it says nothing about the nodes.
func TestLosslessNodeSkipsNothing(t *testing.T) {
	t.Parallel()
	primary := testenv.StartPostgres(t)
	standby := testenv.StartStandby(t, primary)
	primary.Synchronous()
	primary.Query("GRANT pg_read_all_stats TO seqd")
	p := newPair(t, primary, standby, postgresAt)
	marked := func() bool { return primary.Query("SELECT LEFT(fence, 1) FROM seqd_schema") == sqlstore.LosslessMark }
	env := append(settings(), "SEQD_STORE_POSTGRES_FAILOVER=lossless")

	if out, _ := node.Command(t, t.TempDir(), append(p.env(p.link.Addr()), env...), "raise", "--dry-run", "order", "5"); marked() {
		t.Errorf("a command marked the store: %s", out)
	}
	idle := p.start(env...)
	await.True(t, "the node marks the store", marked)
	p.take(idle, "idle", 10)
	before := p.highest(primary)

	p.link.Cut()
	standby.Promote()
	testenv.StartStandby(t, standby)
	standby.Synchronous()
	p.link.Switch(standby.Addr())
	p.link.Restore()
	fresh := p.start(env...)
	p.take(idle, "idle", 10)
	p.take(fresh, "fresh", 1000)
	must.Equal(t, true, p.skipped(before) < 100_000, "the gap was skipped")
	p.check()
}
