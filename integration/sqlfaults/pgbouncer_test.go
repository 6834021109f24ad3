package sqlfaults

import (
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// Nodes reach PostgreSQL through pgbouncer in transaction mode, which gives each transaction
// another connection. pgbouncer and the server are killed and come back.
func TestBehindPgbouncer(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgres(t)
	b := testenv.StartPgbouncer(t, p.Addr())
	s := onPostgres(t, p, b.Addr())
	s.load()
	b.Kill()
	s.refused()
	b.Start()
	s.returns()
	if longtest.Tests() {
		p.Kill()
		s.refused()
		p.Start()
		s.returns()
		p.Pause()
		s.refused()
		p.Resume()
		s.returns()
	}
	s.finish(away...)
}

// pgbouncer has far fewer connections to the server than the nodes have to it.
func TestPgbouncerWithOneConnection(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	p := testenv.StartPostgres(t)
	s := onPostgres(t, p, testenv.StartPgbouncer(t, p.Addr(), "default_pool_size = 1").Addr(), "SEQD_SEGMENT_ACQUIRETIMEOUT=1m", "SEQD_STORE_POSTGRES_TIMEOUT=10s")
	s.load()
	for range 5 {
		s.more()
	}
	s.finish()
}
