// Package sqlfaults tests nodes under load whose store is a PostgreSQL or MariaDB server that is
// locked, full, killed, restarted, read only or out of connections. Each fault has a defined
// answer, nothing is issued twice, and the nodes come back by themselves.
package sqlfaults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

func TestMain(m *testing.M) { node.Main(m) }

// database is what the tests use of a server of either kind.
type database interface {
	Addr() string
	Query(statement string) string
	Kill()
	Start()
	Restart()
	Stop()
	Pause()
	Resume()
	Ended() bool
	Log() string
}

var (
	_ database = (*testenv.Postgres)(nil)
	_ database = (*testenv.MariaDB)(nil)
)

// system is two nodes under load, and the server that they share.
type system struct {
	*testing.T
	db      database
	env     []string
	record  *ordercheck.Record // each call begins with the name of the node
	nodes   []*node.Node
	traffic []*node.Traffic
}

// onPostgres returns a system on a PostgreSQL server, without nodes.
func onPostgres(t *testing.T, p *testenv.Postgres, addr string, more ...string) *system {
	return newSystem(t, p, append([]string{
		"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.PostgresURL(addr), "SEQD_STORE_POSTGRES_TIMEOUT=1s",
	}, more...)...)
}

// onMariaDB returns a system on a MariaDB server, without nodes.
func onMariaDB(t *testing.T, m *testenv.MariaDB, more ...string) *system {
	return newSystem(t, m, append([]string{
		"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN=" + m.DSN(), "SEQD_STORE_MYSQL_TIMEOUT=1s",
	}, more...)...)
}

func newSystem(t *testing.T, d database, env ...string) *system {
	return &system{T: t, db: d, record: ordercheck.New(), env: append([]string{
		"SEQD_SEGMENT_ORDERING=per-node", "SEQD_SEGMENT_STEP=100", "SEQD_SEGMENT_MAXSTEP=100", "SEQD_SEGMENT_ACQUIRETIMEOUT=300ms",
	}, env...)}
}

// load starts two nodes and callers on each. They continue after errors.
func (s *system) load() {
	s.Helper()
	for _, name := range []string{"a", "b"} {
		n := node.StartReady(s, s.TempDir(), s.env...)
		s.nodes = append(s.nodes, n)
		s.traffic = append(s.traffic, node.StartTraffic(n, "order", s.record, name, node.Pace{Callers: 4, Pause: time.Millisecond, Largest: 20}))
	}
	s.more()
}

// more waits until each node has issued more numbers than it can have in hand.
func (s *system) more() {
	s.Helper()
	for _, on := range s.traffic {
		on.More(s, 500)
	}
}

// refused waits until each node has refused a call after now: the numbers in hand are used up.
func (s *system) refused() {
	s.Helper()
	for _, on := range s.traffic {
		before := on.Failed()
		on.Await(s, "a node refuses", func() bool { return on.Failed() > before })
	}
}

// returns waits until both nodes are ready and issue numbers again, after a fault has ended. A
// failover is reported until an operator confirms it, and existing counters continue. A server that
// ends meanwhile is started again.
func (s *system) returns() {
	s.Helper()
	ended := time.Now()
	var wants []int64
	for _, on := range s.traffic {
		wants = append(wants, on.Acked()+500)
	}
	await.Eventually(s, "both nodes are back", func() error {
		if s.db.Ended() {
			s.Log("the server has ended")
			s.db.Start()
		}
		for i, n := range s.nodes {
			if r := n.Readiness(); r.Status != 200 || r.Code != "" && r.Code != "store_failed_over" {
				return fmt.Errorf("%s\n%s", r.Body, n.Log())
			}
			if got := s.traffic[i].Acked(); got < wants[i] {
				return fmt.Errorf("%d numbers, want %d, refused %v", got, wants[i], s.traffic[i].Failures())
			}
		}
		return nil
	})
	s.Logf("back after %v", time.Since(ended))
}

// finish stops everything and checks that each failure had one of the codes, that no number was
// issued twice, and that order holds on each node, or over all of them.
func (s *system) finish(codes ...string) {
	s.Helper()
	for _, on := range s.traffic {
		on.Stop()
	}
	for i, n := range s.nodes {
		n.Stop()
		failures := s.traffic[i].Failures()
		s.Logf("%d numbers, %d refused calls %v", s.traffic[i].Acked(), s.traffic[i].Failed(), failures)
		for _, code := range codes {
			delete(failures, code)
		}
		if len(failures) > 0 {
			s.Errorf("calls were refused with %v\n%s", failures, n.Log())
		}
	}
	for name, life := range s.record.Split(func(c ordercheck.Call) string { return c.Who[:1] }) {
		if err := life.Order(); err != nil {
			s.Errorf("node %s: %v", name, err)
		}
	}
	must.Report(s, s.record.Duplicates())
	if err := s.record.Order(); err != nil && slices.Contains(s.env, strict[0]) {
		s.Errorf("over all nodes: %v", err)
	}
}

// explains waits until each node has logged why it gets no numbers.
func (s *system) explains() {
	s.Helper()
	for i, n := range s.nodes {
		s.traffic[i].Await(s, "the log says why", func() bool { return strings.Contains(n.Log(), "no range from the store") })
	}
}
