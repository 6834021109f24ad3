package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

const (
	sqlName     = "seqd" // the database, its owner, and its schema's owner
	sqlPassword = "secret"
	sqlAdmin    = "admin" // the superuser
)

// postgresSettings are for all servers. They are small, and leave durability as it is by default.
// The last line of a name counts.
var postgresSettings = []string{
	"listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", "max_connections = 60",
	"shared_buffers = 16MB", "dynamic_shared_memory_type = mmap", "min_wal_size = 2MB", "max_wal_size = 64MB",
	"wal_level = replica", "max_wal_senders = 10", "hot_standby = on", "restart_after_crash = on",
	"log_line_prefix = '%m [%p] %u@%d '", "autovacuum_naptime = 10s",
}

// Postgres is one PostgreSQL server, with an empty database that belongs to an ordinary user. Tests
// that run as root start it as the user nobody, because it refuses root.
type Postgres struct {
	*server
	binary string // other programs of PostgreSQL are beside it
	user   *syscall.Credential
	data   string
}

// StartPostgres starts a PostgreSQL server and waits until it answers. Each setting is a line of
// postgresql.conf, such as "fsync = off". Without settings it is as durable as it is by default.
func StartPostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	return StartPostgresIn(t, "", settings...)
}

// StartPostgresIn is like StartPostgres, with the data in a folder that exists and does not belong
// to the server, such as a small file system. It makes the folder accessible to the server.
func StartPostgresIn(t testing.TB, folder string, settings ...string) *Postgres {
	t.Helper()
	p := newPostgres(t, folder)
	must(t, p, "create a database", postgresTemplate.unpack(p.user, p.initialize, p.data))
	p.Configure(append(slices.Clone(postgresSettings), settings...)...)
	p.Start()
	return p
}

// newPostgres prepares a server without data.
func newPostgres(t testing.TB, folder string) *Postgres {
	t.Helper()
	user, err := unprivileged()
	p := &Postgres{server: newServer(t, "postgres"), user: user, binary: postgresBinary(t)}
	must(t, p, "look for a user other than root", err)
	if folder == "" {
		folder = userFolder(t, user)
	} else {
		must(t, p, "use "+folder, giveTo(user, folder))
	}
	p.data = filepath.Join(folder, "data")
	t.Cleanup(p.forget)
	return p
}

var postgresTemplate template

// initialize makes a new data folder, with the database and its owner.
func (p *Postgres) initialize(folder string) error {
	passwords := folder + ".password"
	if err := os.WriteFile(passwords, []byte(sqlPassword+"\n"), 0o644); err != nil {
		return err
	}
	init := p.command("initdb", "--no-sync", "--auth=scram-sha-256", "--username="+sqlAdmin, "--pwfile="+passwords,
		"--locale=C", "--encoding=UTF8", "--wal-segsize=1", "--pgdata="+folder)
	if err := run(init); err != nil {
		return err
	}
	single := p.command("postgres", "--single", "-F", "-D", folder, "postgres")
	single.Stdin = strings.NewReader(fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s';\nCREATE DATABASE %s OWNER %s;\n",
		sqlName, sqlPassword, sqlName, sqlName))
	return run(single)
}

// postgresBinary returns the path of the newest server. Debian keeps it outside the PATH, in a
// folder per version.
func postgresBinary(t testing.TB) string {
	t.Helper()
	found, _ := filepath.Glob(filepath.Join(postgresFolder, "*/bin/postgres")) // the pattern is right
	if len(found) > 0 {
		return slices.MaxFunc(found, func(a, b string) int { return postgresVersion(a) - postgresVersion(b) })
	}
	return lookUp(t, "postgres", "postgresql")
}

// postgresVersion is the number in /usr/lib/postgresql/15/bin/postgres.
func postgresVersion(path string) int {
	version, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 if it is none
	return version
}

// command is a program of PostgreSQL that runs as the server's user.
func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(filepath.Dir(p.binary), name), args...)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: p.user, Pdeathsig: syscall.SIGKILL}
	command.Env = append(os.Environ(), "PGPASSWORD="+sqlPassword, "HOME="+filepath.Dir(p.data))
	command.Dir = "/"
	return command
}

// Configure appends lines to postgresql.conf. The last line of a name counts. A running server uses
// them after Reload, or Restart.
func (p *Postgres) Configure(settings ...string) {
	p.t.Helper()
	file, err := os.OpenFile(filepath.Join(p.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	must(p.t, p, "open postgresql.conf", err)
	_, err = file.WriteString("\n" + strings.Join(settings, "\n") + "\n")
	must(p.t, p, "write postgresql.conf", errors.Join(err, file.Close()))
}

// Reload makes the server read postgresql.conf again, and waits until it has.
func (p *Postgres) Reload() {
	p.t.Helper()
	before := p.Query("SELECT pg_conf_load_time()")
	p.Query("SELECT pg_reload_conf()")
	eventually(p.t, "reload "+p.name, func(ctx context.Context) error {
		if after, err := p.query(ctx, "SELECT pg_conf_load_time()"); err != nil || after == before {
			return fmt.Errorf("it was loaded at %s: %w", after, err)
		}
		return nil
	})
}

// Start starts a server that was killed or stopped, with the same data and port, and waits until it
// answers.
func (p *Postgres) Start() {
	p.t.Helper()
	p.launch()
	p.AwaitReady()
}

func (p *Postgres) launch() {
	p.t.Helper()
	// SIGQUIT makes it kill its children and free its shared memory.
	p.process = startProcessAs(p.t, p.output, p.user, syscall.SIGQUIT, p.binary, "-D", p.data, "-p", strconv.Itoa(p.port))
	p.process.leaves = true
}

// AwaitReady waits until the server answers.
func (p *Postgres) AwaitReady() {
	p.t.Helper()
	p.await("start "+p.name, func(ctx context.Context) error {
		// without it, the log would fill with connections that were refused
		if status := p.pidFile(statusLine); status != "ready" && status != "standby" {
			return fmt.Errorf("its status is %q", status)
		}
		_, err := p.query(ctx, "SELECT 1")
		return err
	})
}

// The lines of the file that a running server keeps, from 0.
const (
	sharedMemoryLine = 6 // key and ID
	statusLine       = 7
)

// pidFile returns a line of the file that a running server keeps, "" if there is none.
func (p *Postgres) pidFile(line int) string {
	text, _ := os.ReadFile(filepath.Join(p.data, "postmaster.pid")) // a stopped server has none
	lines := strings.Split(string(text), "\n")
	if line >= len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[line])
}

// forget frees the shared memory of a server that was killed. The kernel would keep it.
func (p *Postgres) forget() {
	fields := strings.Fields(p.pidFile(sharedMemoryLine))
	if len(fields) != 2 {
		return // it was stopped
	}
	id, _ := strconv.Atoi(fields[1]) // PostgreSQL wrote it
	const remove = 0
	_, _, _ = syscall.Syscall(syscall.SYS_SHMCTL, uintptr(id), remove, 0) // it may be gone
}

// URL returns the connection string of the database and its owner.
func (p *Postgres) URL() string { return PostgresURL(p.Addr()) }

// PostgresURL returns the connection string of the database and its owner at other addresses: those
// of a Link, of Pgbouncer, or of several servers, of which one is the primary.
func PostgresURL(addrs ...string) string {
	url := fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", sqlName, sqlPassword, strings.Join(addrs, ","), sqlName)
	if len(addrs) > 1 {
		url += "&target_session_attrs=read-write"
	}
	return url
}

// AdminURL returns the connection string of the superuser, for the same database.
func (p *Postgres) AdminURL() string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", sqlAdmin, sqlPassword, p.Addr(), sqlName)
}

// Query runs one statement as the superuser and returns the first column of the first row as text,
// "" if there is none.
func (p *Postgres) Query(statement string) string {
	p.t.Helper()
	ctx, cancel := within()
	defer cancel()
	text, err := p.query(ctx, statement)
	must(p.t, p, statement, err)
	return text
}

func (p *Postgres) query(ctx context.Context, statement string) (string, error) {
	conn, err := pgx.Connect(ctx, p.AdminURL())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	results, err := conn.PgConn().Exec(ctx, statement).ReadAll()
	if err != nil || len(results) == 0 || len(results[0].Rows) == 0 {
		return "", err
	}
	return string(results[0].Rows[0][0]), nil
}

// Connect returns a connection of the superuser, for the preparations and checks of a test.
func (p *Postgres) Connect() *pgx.Conn {
	p.t.Helper()
	ctx, cancel := within()
	defer cancel()
	conn, err := pgx.Connect(ctx, p.AdminURL())
	must(p.t, p, "connect to "+p.name, err)
	p.t.Cleanup(func() {
		ctx, cancel := within()
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

// TryConnect returns a connection of the superuser, if the server has one left. The caller closes
// it.
func (p *Postgres) TryConnect(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, p.AdminURL())
}

// Restart kills the server if it runs, and starts it with the same data and port. It has every
// acknowledged write, unless a setting says otherwise.
func (p *Postgres) Restart() {
	p.t.Helper()
	p.Kill()
	p.Start()
}

// LoseDisk kills the server and deletes all that it has.
func (p *Postgres) LoseDisk() {
	p.t.Helper()
	p.Kill()
	p.forget()
	must(p.t, p, "delete "+p.data, os.RemoveAll(p.data))
}

// Stop ends the server as an operator does (pg_ctl stop -m fast): transactions are aborted and
// connections closed.
func (p *Postgres) Stop() {
	p.t.Helper()
	p.stop(syscall.SIGINT)
}
