package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// mariadb is one server of MariaDB, which the driver for MySQL is tried on.
type mariadb struct{ one *storeServer }

const mysqlDatabase = "seqd"

func newMariaDB(w *world) (*mariadb, error) {
	if _, err := exec.LookPath("mariadbd"); err != nil {
		return nil, errors.New("MariaDB is missing; install it: apt-get update && apt-get install -y mariadb-server")
	}
	s, err := newStoreServer(w, loneStore, 31, "320m")
	m := &mariadb{one: s}
	s.command = func() *exec.Cmd {
		return s.host.command("mariadbd", "--no-defaults", "--user=root", "--datadir="+s.data(), "--socket="+m.socket(), "--pid-file="+filepath.Join(s.disk, "pid"), "--tmpdir="+s.disk,
			"--bind-address=0.0.0.0", fmt.Sprintf("--port=%d", mysqlPort), "--skip-name-resolve", "--max-connections=100",
			"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=1", "--innodb-data-file-path=ibdata1:4M:autoextend")
	}
	s.ready = func() error { _, err := m.ask("", "SELECT 1"); return err }
	return m, err
}

func (m *mariadb) socket() string { return filepath.Join(m.one.disk, "socket") }

// start makes the database and its user.
func (m *mariadb) start() error {
	s := m.one
	return inOrder(
		func() error {
			return run("mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+s.data(), "--auth-root-authentication-method=normal", "--skip-test-db", "--innodb-data-file-path=ibdata1:4M:autoextend")
		},
		s.start,
		func() error {
			_, err := m.ask("", fmt.Sprintf("CREATE DATABASE %[1]s; CREATE USER %[1]s@'%%'; GRANT ALL ON %[1]s.* TO %[1]s@'%%'", mysqlDatabase))
			return err
		},
	)
}

// ask runs statements and returns what they printed, without faults of the network.
func (m *mariadb) ask(database, statements string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := m.client(ctx, "mariadb", "-B", "-N", "-e", statements, database).Output()
	if ended, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("%q: %w: %s", statements, err, strings.TrimSpace(string(ended.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// client returns a command that runs a client program.
func (m *mariadb) client(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, program, append([]string{"--no-defaults", "--socket=" + m.socket(), "--user=root"}, args...)...)
}

func (m *mariadb) addr() string               { return m.one.addr(mysqlPort) }
func (m *mariadb) server(string) *storeServer { return m.one }

func (m *mariadb) env(addr string) []string {
	return []string{"SEQD_STORE_DRIVER=mysql", fmt.Sprintf("SEQD_STORE_MYSQL_DSN=%s@tcp(%s)/%s", mysqlDatabase, addr, mysqlDatabase), "SEQD_STORE_MYSQL_FAILOVER=lossy"}
}

// backup uses mariadb-dump, as docs/STORES.md says.
func (m *mariadb) backup(ctx context.Context) (putBack func(context.Context) error, err error) {
	dump, err := m.client(ctx, "mariadb-dump", "--single-transaction", mysqlDatabase).Output()
	return func(ctx context.Context) error {
		cmd := m.client(ctx, "mariadb", mysqlDatabase)
		cmd.Stdin = strings.NewReader(string(dump))
		out, err := cmd.CombinedOutput()
		return named("put the dump back: "+strings.TrimSpace(string(out)), err)
	}, named("mariadb-dump", err)
}

func (m *mariadb) counters(context.Context) (map[string]int64, error) {
	text, err := m.ask(mysqlDatabase, "SELECT CONCAT(CONVERT(name USING utf8mb4), ' ', highest) FROM seqd_counters")
	if err != nil {
		return nil, err
	}
	return readMaxima(text)
}
