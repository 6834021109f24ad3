package failover

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
)

// The layout of the numbers of machines.
const (
	bitsSequence = 12
	bitsMachine  = 1 // one for the first node and one for the next
)

// machines are the settings of nodes that lease machine IDs for a few seconds.
var machines = []string{
	`SEQD_BIZTYPES=[{"name":"order","strategy":"snowflake"}]`, "SEQD_SNOWFLAKE_BITSMACHINE=1",
	"SEQD_SNOWFLAKE_HORIZON=4s", "SEQD_SNOWFLAKE_RENEWINTERVAL=100ms", "SEQD_SNOWFLAKE_POLLINTERVAL=100ms", "SEQD_SNOWFLAKE_MAXSKEW=200ms",
}

// moment is a machine ID in one millisecond. Only one node may issue numbers of it.
type moment struct{ ms, machine int64 }

func momentOf(number int64) moment {
	return moment{number >> (bitsSequence + bitsMachine), number & (1<<bitsMachine - 1)}
}

// A node leases a machine ID that the standby never hears of, and keeps issuing without the store.
// A node that starts after the failover finds no trace of the lease, and must not get the same ID
// for the same time.
func TestLeaseThatTheStandbyNeverGot(t *testing.T) {
	onBoth(t, func(p *pair) {
		p.found()
		first := p.start("first", machines...)
		p.take(first, "first", 1)
		p.reach()
		p.standby.Detach()
		lone := testenv.NewLink(p.t, p.primary.Addr())
		late := p.launch("late", lone.Addr(), machines...)
		late.Await("/readyz", http.StatusOK)
		onLate := p.traffic(late, "late")
		onLate.More(p.t, 100)
		lone.Cut() // it never hears of the failover
		p.cutOff()
		next := p.launch("next", p.link.Addr(), machines...)
		onNext, onFirst := p.traffic(next, "next"), p.traffic(first, "first")
		onLate.Await(p.t, "the lease ends", func() bool { return onLate.Failed() > 0 })
		if longtest.Tests() { // leases may have been lost for longer than this test
			await.Eventually(p.t, "both issue", func() error {
				if onNext.Acked() < 1000 || onFirst.Acked() < 1000 {
					return fmt.Errorf("%v, %v\n%s", onNext.Failures(), onFirst.Failures(), next.Log())
				}
				return nil
			})
		}
		for _, n := range []*node.Traffic{onLate, onNext, onFirst} {
			n.Stop()
		}
		p.t.Logf("failures of the first node %v, of the next %v", onFirst.Failures(), onNext.Failures())
		for _, n := range []*node.Node{first, late, next} {
			n.Stop()
		}
		p.check()
		p.checkMoments()
	})
}

// found creates the registry as one that cannot have lost leases, so that the first node need not
// wait.
func (p *pair) found() {
	p.t.Helper()
	slots := p.open(p.primary.Addr()).Slots()
	const layout = "epoch=2025-01-01T00:00:00Z unit=1ms time=50 sequence=12 machine=1"
	table, err := slots.Look(p.t.Context(), "machineIds "+layout)
	if err == nil {
		_, err = slots.Swap(p.t.Context(), "machineIds "+layout, persist.SlotSwap{Source: table.Source, NewSet: &persist.SlotSet{
			Incarnation: fmt.Sprintf("%032x", 1), Layout: layout, Ahead: 1, Source: table.Source,
		}})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// checkMoments checks that no two nodes issued numbers of one machine ID in the same millisecond.
func (p *pair) checkMoments() {
	p.t.Helper()
	owner := make(map[moment]string)
	used := make(map[int64]map[string]bool)
	bad := 0
	for name, record := range p.lives() {
		record.Each(func(c ordercheck.Call) {
			for _, n := range c.Numbers {
				m := momentOf(n)
				if used[m.machine] == nil {
					used[m.machine] = make(map[string]bool)
				}
				used[m.machine][name] = true
				if other, known := owner[m]; known && other != name {
					if bad++; bad <= 5 {
						p.t.Errorf("%s and %s both issued as machine %d at %d", other, name, m.machine, m.ms)
					}
				}
				owner[m] = name
			}
		})
	}
	p.t.Logf("%d numbers; machine IDs and their nodes: %v", p.record.Numbers(), used)
}

// The first node of a new store waits for the leases that may be out there, as on every shared
// store. It does not also wait for writes that a failover may have lost, because there was none.
func TestFirstNumberOfANewStore(t *testing.T) {
	onBoth(t, func(p *pair) {
		n := p.launch("first", p.link.Addr(), machines...)
		began := time.Now()
		n.Await("/readyz", http.StatusOK)
		p.take(n, "first", 1)
		took := time.Since(began)
		p.t.Logf("the first number took %s", took)
		if took > time.Minute { // the horizon is 4 s, and what a failover loses is up to a minute old
			p.t.Errorf("the first number took %s", took)
		}
		n.Stop()
	})
}
