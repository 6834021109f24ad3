package testenv_test

import (
	"context"
	"database/sql"
	"strconv"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
)

// openMariaDB returns a connection that ends with the test.
func openMariaDB(t *testing.T, dsn string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func execMariaDB(t *testing.T, conn *sql.Conn, statement string) {
	t.Helper()
	if _, err := conn.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// takeMariaDB adds 1 to the counter and returns it.
func takeMariaDB(ctx context.Context, conn *sql.Conn) (int64, error) {
	result, err := conn.ExecContext(ctx, "UPDATE counters SET max = LAST_INSERT_ID(max + 1) WHERE id = 'a'")
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

func mariaDBCounter(t *testing.T, conn *sql.Conn) {
	t.Helper()
	execMariaDB(t, conn, "CREATE TABLE counters (id varchar(64) PRIMARY KEY, max bigint)")
	execMariaDB(t, conn, "INSERT INTO counters VALUES ('a', 0)")
}

func TestMariaDBIsDurable(t *testing.T) {
	t.Parallel()
	m := testenv.StartMariaDB(t)
	if got := m.Query("SELECT @@innodb_flush_log_at_trx_commit"); got != "1" {
		t.Errorf("innodb_flush_log_at_trx_commit is %s", got)
	}
	if got := m.Query("SELECT @@innodb_flush_method"); got != "fsync" && got != "O_DIRECT" {
		t.Errorf("innodb_flush_method is %s", got)
	}
}

func TestMariaDBKillKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	m := testenv.StartMariaDB(t, "log-bin=binlog", "sync-binlog=1")
	conn := openMariaDB(t, m.DSN())
	mariaDBCounter(t, conn)
	acknowledged := int64(0)
	for range 3 {
		started, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for n := 0; ; n++ {
				max, err := takeMariaDB(t.Context(), conn)
				if err != nil {
					return
				}
				acknowledged = max
				if n == 50 {
					close(started)
				}
			}
		}()
		select {
		case <-started:
		case <-stopped:
			t.Fatal("a call failed before the kill")
		}
		m.Kill()
		<-stopped
		m.Restart()
		conn = openMariaDB(t, m.DSN())
		if got, err := strconv.ParseInt(m.Query("SELECT max FROM counters"), 10, 64); err != nil || got < acknowledged || got > acknowledged+1 {
			t.Fatalf("%d after %d was acknowledged: %v", got, acknowledged, err)
		}
	}
}

func TestMariaDBPauseAndStop(t *testing.T) {
	t.Parallel()
	m := testenv.StartMariaDB(t)
	conn := openMariaDB(t, m.DSN())
	mariaDBCounter(t, conn)
	m.Pause()
	results := make(chan error)
	go func() { _, err := takeMariaDB(t.Context(), conn); results <- err }()
	select {
	case err := <-results:
		t.Fatalf("a paused server answers: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	m.Resume()
	if err := <-results; err != nil {
		t.Error(err)
	}
	m.Stop()
	if err := conn.PingContext(t.Context()); err == nil {
		t.Error("a stopped server answers")
	}
	m.Configure("read-only=1")
	m.Start()
	if _, err := takeMariaDB(t.Context(), openMariaDB(t, m.DSN())); err == nil {
		t.Error("a read-only server writes")
	}
	if got := m.Query("SELECT max FROM counters"); got != "1" {
		t.Errorf("max is %s", got)
	}
}
