// Package fleet runs nodes that share a store, for tests whose clients must survive that nodes are
// killed. The addresses of a node stay the same over its restarts.
package fleet

import (
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/node"
)

// Member is one node of a fleet.
type Member struct {
	// HTTP and RESP are the addresses that the node listens on: host and port.
	HTTP, RESP string
	// Node is the present process. It changes with every restart.
	Node *node.Node
	t    testing.TB
	dir  string
	env  []string
}

// Start starts nodes with the same settings and waits until they are ready.
func Start(t testing.TB, size int, settings ...string) []*Member {
	t.Helper()
	members := make([]*Member, size)
	for i := range members {
		m := &Member{HTTP: testenv.ReserveAddr(t), RESP: testenv.ReserveAddr(t), t: t, dir: t.TempDir()}
		m.env = append([]string{"SEQD_SERVER_ADDR=" + m.HTTP, "SEQD_RESP_ADDR=" + m.RESP}, settings...)
		m.Start()
		members[i] = m
	}
	return members
}

// Start starts the node and waits until it is ready.
func (m *Member) Start() {
	m.t.Helper()
	m.Node = node.Start(m.t, m.dir, m.env...)
	m.Node.AwaitAll()
}

// Kill ends the node as kill -9 does.
func (m *Member) Kill() { m.Node.Kill() }

// Postgres starts a PostgreSQL and returns the settings of nodes that share it.
func Postgres(t testing.TB) []string {
	return []string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + testenv.StartPostgres(t).URL()}
}
