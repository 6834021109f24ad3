package failover

import (
	"context"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/persist"
)

// lossless is the setting of both kinds.
var lossless = []string{"SEQD_STORE_POSTGRES_FAILOVER=lossless", "SEQD_STORE_MYSQL_FAILOVER=lossless"}

// lossless may be set only if commits wait for a standby.
func TestLosslessNeedsAStandbyThatCommitsWaitFor(t *testing.T) {
	longtest.Only(t)
	onBoth(t, func(p *pair) {
		n := node.Launch(p.t, p.t.TempDir(), append(append(p.env(p.link.Addr()), settings("per-node")...), lossless...)...)
		if said := n.Fails(); !strings.Contains(said, "lossless") {
			p.t.Errorf("it says %s", said)
		}
	})
}

// Commits wait for the standby, and the operator says so. A failover skips nothing. While the new
// server has no standby that commits wait for, nodes refuse it; then they go on by themselves.
func TestLosslessSkipsNothing(t *testing.T) {
	longtest.Only(t)
	onBoth(t, func(p *pair) {
		p.secure()
		env := append(settings("per-node"), lossless...)
		n := p.start("n", env...)
		for range 20 {
			p.take(n, "n", 77)
		}
		p.cutOff()
		onN := p.traffic(n, "n")
		onN.Await(p.t, "it refuses a server without a standby", func() bool { return strings.Contains(n.Log(), "is lossless, but") })
		p.succeed()
		onN.More(p.t, 2000)
		onN.Stop()
		p.t.Logf("failures %v", onN.Failures())
		n.Stop()
		p.check()
		// A call that fails has lost its numbers, and the range of a commit that was cancelled is
		// not used.
		var lost int64
		if onN.Failed() > 0 {
			lost = onN.Lost() + 1000
		}
		skipped := p.record.Highest() - 99 - int64(p.record.Numbers())
		if skipped > lost {
			p.t.Errorf("%d numbers were skipped, and the calls that failed account for %d", skipped, lost)
		}
	})
}

// A commit that was cancelled while it waits for the standby may be lost with the primary, although
// the server says that it succeeded. So the numbers are not used.
func TestCancelledCommitIsUnknown(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	p := onPostgres(t)
	p.secure()
	store := p.open(p.primary.Addr())
	create(t, store)
	before, err := store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, Step: 10})
	if err != nil {
		t.Fatal(err)
	}
	p.standby.Detach()
	type outcome struct {
		r   persist.Range
		err error
	}
	done := make(chan outcome)
	go func() {
		r, err := store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, Step: 10})
		done <- outcome{r, err}
	}()
	const cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
	await.True(t, "a commit waits for the standby", func() bool { return p.primary.Query(cancel) != "0" })
	if got := <-done; got.err == nil {
		t.Errorf("it returned %v", got.r)
	} else {
		t.Logf("it returned %v", got.err)
	}
	if highest := p.highest(p.primary); highest != before.Last+10 {
		t.Errorf("the maximum is %d after %d: the commit was not cancelled while it waited", highest, before.Last)
	}
	p.cutOff()
	if highest := p.highest(p.standby); highest != before.Last {
		t.Errorf("the standby has %d, want %d: this tests nothing", highest, before.Last)
	}
}

func create(t *testing.T, s persist.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	if err := s.Counters().Create(ctx, persist.Counter{BizTag: "order", Step: 10}); err != nil {
		t.Fatal(err)
	}
}
