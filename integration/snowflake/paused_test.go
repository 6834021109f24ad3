// Package snowflake tests the registry of machine IDs in Redis on real servers, and a process that is
// stopped while another one takes its machine ID over.
package snowflake

import (
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.Main(m) }

// There are two machine IDs. A process stops (SIGSTOP) for longer than its lease lasts, and another one
// takes its machine ID over. When the first one continues, it issues nothing with that machine ID.
func TestPausedAndSucceeded(t *testing.T) {
	t.Parallel()
	const bitsMachine, bitsSequence = 1, 12
	mongo := testenv.StartMongo(t)
	history := ordercheck.New()
	start := func(name string, status int, code string) (*node.Node, *node.Traffic) {
		n := node.Start(t, t.TempDir(), "SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI="+mongo.URI(), "SEQD_STORE_MONGO_DATABASE="+mongo.Database(),
			`SEQD_BIZTYPES=[{"name":"order","strategy":"snowflake","bitsMachine":1}]`,
			"SEQD_SNOWFLAKE_HORIZON=3s", "SEQD_SNOWFLAKE_RENEWINTERVAL=100ms", "SEQD_SNOWFLAKE_POLLINTERVAL=100ms", "SEQD_SNOWFLAKE_MAXSKEW=200ms")
		n.AwaitReadiness(status, code)
		return n, node.StartTraffic(n, "order", history, name, node.Pace{Callers: 2, Pause: time.Millisecond, Largest: 20})
	}
	a, onA := start("a", 200, "")
	b, onB := start("b", 200, "")
	c, onC := start("c", 503, "no_machine_id")
	onA.More(t, 100)
	a.Pause()
	c.AwaitReadiness(200, "")
	onC.More(t, 100)
	a.Resume()
	a.AwaitReadiness(503, "no_machine_id")
	onC.More(t, 100)
	onB.Stop()
	b.Stop() // releases its machine ID
	onA.More(t, 100)
	onA.Stop()
	onC.Stop()
	a.Stop()
	c.Stop()

	must.Report(t, history.Duplicates())
	users := make(map[[2]int64]byte) // who used a time of a machine ID
	history.Each(func(call ordercheck.Call) {
		for _, n := range call.Numbers {
			moment := [2]int64{n & (1<<bitsMachine - 1), n >> (bitsSequence + bitsMachine)}
			if other, used := users[moment]; used && other != call.Who[0] {
				t.Errorf("%c and %c used the same time of machine ID %d", other, call.Who[0], moment[0])
			}
			users[moment] = call.Who[0]
		}
	})
}
