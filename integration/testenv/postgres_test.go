package testenv_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seqd/seqd/integration/testenv"
)

// openPostgres returns a connection that ends with the test.
func openPostgres(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// sqlCounter makes a table with one counter of PostgreSQL, as the ordinary user.
func sqlCounter(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), "CREATE TABLE counters (id text PRIMARY KEY, max bigint)"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO counters VALUES ('a', 0)"); err != nil {
		t.Fatal(err)
	}
}

func takeSQL(ctx context.Context, conn *pgx.Conn) (max int64, err error) {
	err = conn.QueryRow(ctx, "UPDATE counters SET max = max + 1 WHERE id = 'a' RETURNING max").Scan(&max)
	return max, err
}

func TestPostgresIsDurable(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgres(t)
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		if value := p.Query("SHOW " + setting); value != "on" {
			t.Errorf("%s is %s", setting, value)
		}
	}
	if got := p.Query("SELECT rolsuper FROM pg_roles WHERE rolname = 'seqd'"); got != "f" {
		t.Errorf("the owner of the database is a superuser: %s", got)
	}
}

func TestPostgresKillKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgres(t)
	conn := openPostgres(t, p.URL())
	sqlCounter(t, conn)
	acknowledged := int64(0)
	for range 3 {
		started, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for n := 0; ; n++ {
				max, err := takeSQL(t.Context(), conn)
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
		p.Kill()
		<-stopped
		p.Restart()
		conn = openPostgres(t, p.URL())
		if got, err := strconv.ParseInt(p.Query("SELECT max FROM counters"), 10, 64); err != nil || got < acknowledged || got > acknowledged+1 {
			t.Fatalf("%d after %d was acknowledged: %v", got, acknowledged, err)
		}
	}
}

func TestPostgresPauseAndStop(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgres(t)
	conn := openPostgres(t, p.URL())
	sqlCounter(t, conn)
	p.Pause()
	results := make(chan error)
	go func() { _, err := takeSQL(t.Context(), conn); results <- err }()
	select {
	case err := <-results:
		t.Fatalf("a paused server answers: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	p.Resume()
	if err := <-results; err != nil {
		t.Error(err)
	}
	p.Stop()
	if _, err := pgx.Connect(t.Context(), p.URL()); err == nil {
		t.Error("a stopped server answers")
	}
	p.Start()
	if got := p.Query("SELECT max FROM counters"); got != "1" {
		t.Errorf("max is %s", got)
	}
}

func TestPostgresSettings(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgres(t, "synchronous_commit = off")
	if got := p.Query("SHOW synchronous_commit"); got != "off" {
		t.Errorf("it is %s", got)
	}
	p.Configure("synchronous_commit = local")
	p.Reload()
	if got := p.Query("SHOW synchronous_commit"); got != "local" {
		t.Errorf("it is %s after a reload", got)
	}
}

func TestPgbouncer(t *testing.T) {
	t.Parallel()
	p := testenv.StartPostgres(t)
	b := testenv.StartPgbouncer(t, p.Addr())
	config, err := pgx.ParseConfig(b.URL())
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // no prepared statements
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	sqlCounter(t, conn)
	if max, err := takeSQL(t.Context(), conn); err != nil || max != 1 {
		t.Errorf("%d, %v", max, err)
	}
	b.Kill()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("it answers after Kill")
	}
	b.Start()
	openPostgres(t, b.URL())
}
