// Package failover tests nodes whose store is a PostgreSQL or MariaDB server that fails over to a
// standby or is restored to a point in time, and so loses numbers that it has acknowledged (S2 in
// docs/DESIGN.md). No number may come twice. The simulation has whatever else a failover can lose.
package failover

import (
	"strconv"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
)

func TestMain(m *testing.M) { node.Main(m) }

// server is what the tests use of a server, of either kind.
type server interface {
	Addr() string
	Query(statement string) string
	Detach()
	Promote()
}

// pair is a server and its standby, behind one address.
type pair struct {
	t                *testing.T
	primary, standby server
	link             *testenv.Link              // to the server in charge
	reach            func()                     // waits until the standby has everything
	env              func(addr string) []string // the settings of nodes that reach the store there

	record *ordercheck.Record // the numbers; each call begins with the name of the node
}

// onBoth runs a test on PostgreSQL and on MariaDB.
func onBoth(t *testing.T, test func(*pair)) {
	t.Helper()
	t.Parallel()
	for kind, build := range map[string]func(*testing.T) *pair{"postgres": onPostgres, "mariadb": onMariaDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(build(t))
		})
	}
}

func onPostgres(t *testing.T) *pair {
	primary := testenv.StartPostgres(t)
	standby := testenv.StartStandby(t, primary)
	p := newPair(t, primary, standby, postgresAt)
	p.reach = func() { primary.AwaitStandby(standby) }
	return p
}

// postgresAt returns the settings of a store in PostgreSQL.
func postgresAt(addr string) []string {
	return []string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.PostgresURL(addr), "SEQD_STORE_POSTGRES_TIMEOUT=2s"}
}

func onMariaDB(t *testing.T) *pair {
	primary := testenv.StartMariaDB(t, testenv.Replicated...)
	standby := testenv.StartMariaDBReplica(t, primary)
	p := newPair(t, primary, standby, mariaDBAt)
	p.reach = func() { primary.AwaitReplica(standby) }
	return p
}

// mariaDBAt returns the settings of a store in MariaDB.
func mariaDBAt(addr string) []string {
	return []string{"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN=" + testenv.MariaDBDSN(addr), "SEQD_STORE_MYSQL_TIMEOUT=2s"}
}

func newPair(t *testing.T, primary, standby server, env func(addr string) []string) *pair {
	return &pair{t: t, primary: primary, standby: standby, link: testenv.NewLink(t, primary.Addr()), env: env, record: ordercheck.New()}
}

// start starts a node and waits until it is ready.
func (p *pair) start(settings ...string) *node.Node {
	p.t.Helper()
	n := node.Start(p.t, p.t.TempDir(), append(p.env(p.link.Addr()), settings...)...)
	n.AwaitAll()
	return n
}

// take requests numbers from a node and records the answer.
func (p *pair) take(n *node.Node, name string, count int) []int64 {
	p.t.Helper()
	began := p.record.Now()
	numbers, err := n.Take("order", count)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", name, err, n.Log())
	}
	p.record.Add(began, name, numbers)
	return numbers
}

// cutOff makes the standby the server in charge. The old primary continues, and no node reaches it.
func (p *pair) cutOff() {
	p.t.Helper()
	p.link.Cut()
	p.standby.Promote()
	p.link.Switch(p.standby.Addr())
	p.link.Restore()
}

// highest returns the maximum of the counter order on a server.
func (p *pair) highest(s server) int64 {
	p.t.Helper()
	highest := must.Get(strconv.ParseInt(s.Query("SELECT highest FROM seqd_counters WHERE name = 'order'"), 10, 64))(p.t)
	return highest
}

// lives returns the calls by life of a node.
func (p *pair) lives() map[string]*ordercheck.Record {
	return p.record.Split(func(c ordercheck.Call) string { return c.Who })
}

// check checks every number: it was issued once, and in order on its node.
func (p *pair) check() {
	p.t.Helper()
	lives := p.lives()
	for name, record := range lives {
		if err := record.Order(); err != nil {
			p.t.Errorf("node %s: %v", name, err)
		}
	}
	must.Report(p.t, p.record.Duplicates())
	p.t.Logf("%d numbers from %d lives", p.record.Numbers(), len(lives))
}

// skipped logs how many numbers lie between the last one that was allocated before a failover and
// the first one after it, and returns that.
func (p *pair) skipped(before int64) int64 {
	p.t.Helper()
	next := int64(persist.MaxNumber)
	p.record.Each(func(c ordercheck.Call) {
		for _, n := range c.Numbers {
			if n > before {
				next = min(next, n)
			}
		}
	})
	if next == persist.MaxNumber {
		p.t.Fatalf("nothing was issued above %d", before)
	}
	p.t.Logf("the failover skipped %d numbers, %d to %d", next-before-1, before+1, next-1)
	return next - before - 1
}

// settings are those of nodes that issue from small ranges.
func settings() []string {
	return []string{
		"SEQD_SEGMENT_ORDERING=per-node", "SEQD_SEGMENT_STEP=100", "SEQD_SEGMENT_MAXSTEP=1000", "SEQD_SEGMENT_ACQUIRETIMEOUT=5s",
	}
}
