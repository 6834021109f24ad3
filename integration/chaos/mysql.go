package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// mariadb is a primary and a replica of MariaDB, which the driver for MySQL is tried on. Commits
// wait until the replica has received them, unless it is asynchronous.
type mariadb struct{ pair }

const mysqlDatabase = "seqd"

func newMariaDB(w *world, lossy bool) (*mariadb, error) {
	if _, err := exec.LookPath("mariadbd"); err != nil {
		return nil, errors.New("MariaDB is missing; install it: apt-get update && apt-get install -y mariadb-server")
	}
	m := &mariadb{pair{port: mysqlPort, lossy: lossy}}
	if err := m.create(w, "y", "320m"); err != nil {
		return nil, err
	}
	for i, s := range m.servers {
		s.command = func() *exec.Cmd { return s.host.command("mariadbd", m.settings(i)...) }
		s.ready = func() error { _, err := m.ask(s, "", "SELECT 1"); return err }
		s.sluggish = true
	}
	return m, nil
}

// settings returns the arguments of a server. One that is not the primary does not wait for a
// replica, because it has none.
func (m *mariadb) settings(i int) []string {
	s := m.servers[i]
	args := []string{
		"--no-defaults", "--user=root", "--datadir=" + s.data(), "--socket=" + s.socket(), "--pid-file=" + filepath.Join(s.disk, "pid"), "--tmpdir=" + s.disk,
		"--bind-address=0.0.0.0", fmt.Sprintf("--port=%d", mysqlPort), "--skip-name-resolve", "--max-connections=100",
		"--innodb-buffer-pool-size=32M", smallFiles, "--innodb-log-file-size=16M", "--innodb-buffer-pool-dump-at-shutdown=off",
		fmt.Sprintf("--server-id=%d", i+1), "--log-bin=binlog", "--sync-binlog=1", "--log-slave-updates", "--gtid-strict-mode=1", "--max-binlog-size=16M",
		"--rpl-semi-sync-slave-enabled=1", "--slave-net-timeout=4", "--rpl-semi-sync-master-timeout=4294967295", "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
	}
	if s == m.primary() && !m.lossy {
		args = append(args, "--rpl-semi-sync-master-enabled=1")
	}
	return args
}

const smallFiles = "--innodb-data-file-path=ibdata1:4M:autoextend"

func (s *storeServer) socket() string { return filepath.Join(s.disk, "socket") }

// install makes an empty server with the user of the nodes and of the replica, and starts it.
func (m *mariadb) install(s *storeServer) error {
	return inOrder(
		func() error { return os.RemoveAll(s.data()) },
		func() error {
			return run("mariadb-install-db", "--no-defaults", "--user=root", "--datadir="+s.data(), "--auth-root-authentication-method=normal", "--skip-test-db", smallFiles)
		},
		s.start,
		func() error {
			_, err := m.ask(s, "", fmt.Sprintf("SET sql_log_bin = 0; CREATE DATABASE %[1]s; CREATE USER %[1]s@'%%'; GRANT ALL ON %[1]s.* TO %[1]s@'%%'; "+
				"CREATE USER replica@'%%'; GRANT REPLICATION SLAVE ON *.* TO replica@'%%'", mysqlDatabase))
			return err
		},
	)
}

func (m *mariadb) start() error {
	return inOrder(func() error { return m.install(m.primary()) }, m.rebuild)
}

// rebuild makes a replica from a dump of the primary, and waits until it receives what is written.
func (m *mariadb) rebuild() error {
	s, from := m.standby(), m.primary()
	if s.process != nil {
		s.process.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return inOrder(
		func() error { return m.install(s) },
		func() error {
			dump, err := m.client(ctx, from, "mariadb-dump", "--single-transaction", "--gtid", "--master-data=1", mysqlDatabase).Output()
			if err != nil {
				return named("mariadb-dump", err)
			}
			return m.load(ctx, s, slices.Concat([]byte("SET sql_log_bin = 0;\n"), dump))
		},
		func() error {
			_, err := m.ask(s, "", fmt.Sprintf("CHANGE MASTER TO MASTER_HOST = '%s', MASTER_PORT = %d, MASTER_USER = 'replica', MASTER_USE_GTID = slave_pos, "+
				"MASTER_CONNECT_RETRY = 1, MASTER_HEARTBEAT_PERIOD = 1; START SLAVE; SET GLOBAL read_only = 1", from.host.addr, mysqlPort))
			return err
		},
		func() error { return within(patience, m.replicating) },
	)
}

// load runs statements of a dump.
func (m *mariadb) load(ctx context.Context, s *storeServer, dump []byte) error {
	cmd := m.client(ctx, s, "mariadb", mysqlDatabase)
	cmd.Stdin = strings.NewReader(string(dump))
	out, err := cmd.CombinedOutput()
	return named("load a dump: "+strings.TrimSpace(string(out)), err)
}

// replicating returns an error until the replica receives what is written.
func (m *mariadb) replicating() error {
	status, err := m.replication(m.standby())
	if err == nil && (!strings.Contains(status, "Slave_IO_Running: Yes") || !strings.Contains(status, "Slave_SQL_Running: Yes")) {
		err = fmt.Errorf("the replica does not run: %s", status)
	}
	return err
}

// failOver makes the replica apply what it has received, and take writes.
func (m *mariadb) failOver() error {
	s := m.standby()
	statements := "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0"
	if !m.lossy {
		statements += "; SET GLOBAL rpl_semi_sync_master_enabled = 1"
	}
	return inOrder(
		func() error { _, err := m.ask(s, "", "STOP SLAVE IO_THREAD"); return err },
		func() error { return within(patience, func() error { return m.applied(s) }) },
		func() error { _, err := m.ask(s, "", statements); return err },
		m.swap,
	)
}

// applied returns an error until a replica has applied everything that it has received.
func (m *mariadb) applied(s *storeServer) error {
	status, err := m.replication(s)
	if err == nil && !strings.Contains(status, "Slave has read all relay log") {
		err = fmt.Errorf("the replica still applies: %s", status)
	}
	return err
}

// replication returns the state of a replica, a line for each property.
func (m *mariadb) replication(s *storeServer) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := m.client(ctx, s, "mariadb", "-e", "SHOW SLAVE STATUS\\G").Output()
	return string(out), named("the state of the replica", err)
}

// ask runs statements and returns what they printed, without faults of the network.
func (m *mariadb) ask(s *storeServer, database, statements string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := m.client(ctx, s, "mariadb", "-B", "-N", "-e", statements, database).Output()
	if ended, is := errors.AsType[*exec.ExitError](err); is {
		err = fmt.Errorf("%q on %s: %w: %s", statements, s.host.name, err, strings.TrimSpace(string(ended.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// client returns a command that runs a client program.
func (m *mariadb) client(ctx context.Context, s *storeServer, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, program, append([]string{"--no-defaults", "--socket=" + s.socket(), "--user=root"}, args...)...)
}

func (m *mariadb) env(addr string) []string {
	return []string{
		"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_FAILOVER=" + m.failover(),
		fmt.Sprintf("SEQD_STORE_MYSQL_DSN=%s@tcp(%s)/%s", mysqlDatabase, addr, mysqlDatabase),
	}
}

// backup uses mariadb-dump, as docs/STORES.md says.
func (m *mariadb) backup(ctx context.Context) (putBack func(context.Context) error, err error) {
	dump, err := m.client(ctx, m.primary(), "mariadb-dump", "--single-transaction", mysqlDatabase).Output()
	return func(ctx context.Context) error { return m.load(ctx, m.primary(), dump) }, named("mariadb-dump", err)
}

func (m *mariadb) counters(context.Context) (map[string]int64, error) {
	text, err := m.ask(m.primary(), mysqlDatabase, "SELECT CONCAT(CONVERT(name USING utf8mb4), ' ', highest) FROM seqd_counters")
	if err != nil {
		return nil, err
	}
	return readMaxima(text)
}
