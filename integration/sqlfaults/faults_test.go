package sqlfaults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// away are the codes of a call for which no number came from the store.
var away = []string{"store_unavailable", "timeout"}

// fault is something that happens to a server under load.
type fault struct {
	name string
	// quick is true if the fault is part of the short run.
	quick bool
	// settings are those of the server, and env those of the nodes.
	postgres, mariadb []string
	// begin makes it happen, and end undoes it. Either may be one of the two kinds of servers.
	begin func(s *system) (end func())
	// felt is true if numbers run out.
	felt bool
}

var faults = []fault{
	{name: "killed", quick: true, felt: true, begin: func(s *system) func() { s.db.Kill(); return s.db.Start }},
	{name: "restarted", begin: func(s *system) func() { s.db.Stop(); s.db.Start(); return func() {} }},
	{name: "stopped", felt: true, begin: func(s *system) func() { s.db.Stop(); return s.db.Start }},
	{name: "paused", felt: true, begin: func(s *system) func() { s.db.Pause(); return s.db.Resume }},
	{name: "a stranger locks the row", felt: true, begin: lockRow},
	{name: "a stranger locks the table", felt: true, begin: lockTable},
	{name: "statements time out", felt: true, begin: timeOut},
	{name: "no connections are left", felt: true, postgres: []string{"max_connections = 30"}, mariadb: []string{"max-connections=30"}, begin: useUp},
	{name: "read only", felt: true, begin: readOnly},
	{name: "a standby", felt: true, begin: demote},
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, f := range faults {
		for ordering, env := range longtest.Or(map[string][]string{"per-node": nil}, map[string][]string{"per-node": nil, "strict": strict}) {
			t.Run(f.name+"/"+ordering, func(t *testing.T) {
				if !f.quick {
					longtest.Only(t)
				}
				t.Parallel()
				t.Run("postgres", func(t *testing.T) {
					t.Parallel()
					p := testenv.StartPostgres(t, f.postgres...)
					f.run(onPostgres(t, p, p.Addr(), env...))
				})
				t.Run("mariadb", func(t *testing.T) {
					t.Parallel()
					f.run(onMariaDB(t, testenv.StartMariaDB(t, f.mariadb...), env...))
				})
			})
		}
	}
}

// strict are the settings of nodes that keep the order over all nodes, by the store alone.
var strict = []string{"SEQD_SEGMENT_ORDERING=strict", "SEQD_SEGMENT_SEQUENCER=store"}

// run lets a fault happen twice.
func (f *fault) run(s *system) {
	s.Helper()
	s.load()
	for range longtest.Or(1, 2) {
		end := f.begin(s)
		if f.felt {
			s.refused()
			s.explains()
		}
		end()
		s.returns()
	}
	s.finish(away...)
}

// hold runs statements of the superuser on one connection, and closes it at the end.
func hold(s *system, statements ...string) (end func()) {
	s.Helper()
	run, close := session(s)
	for _, statement := range statements {
		if _, err := run(statement); err != nil {
			s.Fatalf("%s: %v", statement, err)
		}
	}
	return close
}

// session opens one connection of the superuser. run returns the first column of the first row.
func session(s *system) (run func(string) (string, error), close func()) {
	s.Helper()
	run, close, err := trySession(s)
	must.Do(s, err)
	return run, close
}

// trySession is like session, for a server that may have no connection left.
func trySession(s *system) (run func(string) (string, error), close func(), err error) {
	ctx, cancel := context.WithTimeout(s.Context(), await.Patience)
	defer cancel()
	if p, ok := s.db.(*testenv.Postgres); ok {
		conn, err := p.TryConnect(ctx)
		if err != nil {
			return nil, nil, err
		}
		run = func(statement string) (string, error) {
			results, err := conn.PgConn().Exec(s.Context(), statement).ReadAll()
			if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
				return "", err
			}
			return string(results[0].Rows[0][0]), nil
		}
		return run, func() { _ = conn.Close(context.Background()) }, nil
	}
	conn, err := s.db.(*testenv.MariaDB).TryConnect(ctx)
	if err != nil {
		return nil, nil, err
	}
	run = func(statement string) (first string, err error) {
		err = conn.QueryRowContext(s.Context(), statement).Scan(&first)
		if errors.Is(err, sql.ErrNoRows) {
			err = nil
		}
		return first, err
	}
	return run, func() { _ = conn.Close() }, nil
}

func lockRow(s *system) func() {
	return hold(s, "BEGIN", "SELECT name FROM seqd_counters WHERE name = 'order' FOR UPDATE")
}

func lockTable(s *system) func() {
	if isPostgres(s) {
		return hold(s, "BEGIN", "LOCK TABLE seqd_counters IN ACCESS EXCLUSIVE MODE")
	}
	return hold(s, "LOCK TABLES seqd_counters WRITE")
}

func isPostgres(s *system) bool {
	_, ok := s.db.(*testenv.Postgres)
	return ok
}

// timeOut lets the server end statements that take long, and makes them take long.
func timeOut(s *system) func() {
	begin, end := "ALTER ROLE seqd SET statement_timeout = '50ms'", "ALTER ROLE seqd RESET statement_timeout"
	if !isPostgres(s) {
		begin, end = "SET GLOBAL max_statement_time = 0.05", "SET GLOBAL max_statement_time = 0"
	}
	s.db.Query(begin)
	s.disconnect()
	unlock := lockRow(s)
	return func() {
		unlock()
		s.db.Query(end)
	}
}

// disconnect ends the connections of the nodes.
func (s *system) disconnect() {
	s.Helper()
	run, close := session(s)
	defer close()
	must.Do(s, s.terminate(run))
}

func (s *system) terminate(run func(string) (string, error)) error {
	statement := "KILL CONNECTION USER seqd"
	if isPostgres(s) {
		statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'seqd'"
	}
	_, err := run(statement)
	return err
}

// useUp takes all connections from the nodes. A connection that has ended may count for a while, so
// strangers go on: otherwise a node could get it.
func useUp(s *system) func() {
	s.Helper()
	run, close := session(s)
	ends := []func(){close}
	of := "SELECT count(*) FROM information_schema.processlist WHERE user = 'seqd'"
	if isPostgres(s) {
		of = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'seqd'"
	}
	take := func() error {
		for {
			_, close, err := trySession(s)
			if err != nil {
				break
			}
			ends = append(ends, close)
		}
		if left, err := run(of); err != nil || left != "0" {
			return errors.Join(err, s.terminate(run), fmt.Errorf("nodes have %s", left))
		}
		return nil
	}
	await.Eventually(s, "strangers have all connections", take)
	until, endTaking := context.WithCancel(s.Context())
	var taking sync.WaitGroup
	taking.Go(func() {
		for {
			select {
			case <-until.Done():
				return
			case <-time.After(20 * time.Millisecond):
				_ = take() // it is tried again
			}
		}
	})
	return func() {
		endTaking()
		taking.Wait()
		s.Logf("%d connections of strangers", len(ends))
		for _, end := range ends {
			end()
		}
	}
}

// readOnly makes a server refuse writes, while it still is the primary.
func readOnly(s *system) func() {
	if isPostgres(s) {
		p := s.db.(*testenv.Postgres)
		set := func(value string) {
			s.db.Query(fmt.Sprintf("ALTER SYSTEM SET default_transaction_read_only = %s", value))
			p.Reload()
		}
		set("on")
		return func() {
			// the connection that switches it off may write
			_ = hold(s, "SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
		}
	}
	s.db.Query("SET GLOBAL read_only = 1")
	return func() { s.db.Query("SET GLOBAL read_only = 0") }
}

// demote makes a server a standby, and promotes it.
func demote(s *system) func() {
	if isPostgres(s) {
		p := s.db.(*testenv.Postgres)
		p.Demote()
		return p.Promote
	}
	m := s.db.(*testenv.MariaDB)
	m.Stop()
	m.Configure("read-only=1")
	m.Start()
	return func() { s.db.Query("SET GLOBAL read_only = 0") }
}
