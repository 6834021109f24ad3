package failover

import (
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// The layout of the numbers of machines.
const (
	bitsSequence = 12
	bitsMachine  = 4
)

// machines are the settings of nodes that lease machine IDs for a few seconds.
var machines = []string{
	`SEQD_BIZTYPES=[{"name":"order","strategy":"snowflake"}]`, "SEQD_SNOWFLAKE_BITSMACHINE=4",
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
		first := p.start("first", machines...)
		p.take(first, "first", 1)
		p.reach()
		p.standby.Detach()
		lone := testenv.NewLink(p.t, p.primary.Addr())
		p.each["late"] = ordercheck.New()
		late := node.StartReady(p.t, p.t.TempDir(), append(p.env(lone.Addr()), machines...)...)
		onLate := p.traffic(late, "late")
		onLate.More(p.t, 100)
		lone.Cut() // it never hears of the failover
		p.cutOff()
		next := p.start("next", machines...)
		onNext, onFirst := p.traffic(next, "next"), p.traffic(first, "first")
		onNext.More(p.t, 1000)
		onFirst.More(p.t, 1000)
		onLate.Stop()
		onNext.Stop()
		onFirst.Stop()
		for _, n := range []*node.Node{first, late, next} {
			n.Stop()
		}
		p.checkMoments(p.check())
	})
}

// checkMoments checks that no two nodes issued numbers of one machine ID in the same millisecond.
func (p *pair) checkMoments(all *ordercheck.Record) {
	p.t.Helper()
	owner := make(map[moment]string)
	used := make(map[int64]map[string]bool)
	bad := 0
	for name, record := range p.each {
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
	p.t.Logf("%d numbers; machine IDs and their nodes: %v", all.Numbers(), used)
}
