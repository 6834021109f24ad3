package testenv

import (
	"context"
	"database/sql"
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

	"github.com/go-sql-driver/mysql"
)

// mariaDBSettings are for all servers. They are small, and leave durability as it is by default.
// The last one of a name counts.
var mariaDBSettings = []string{
	"bind-address=127.0.0.1", "socket=mysql.sock", "pid-file=mysql.pid", "skip-name-resolve",
	"innodb-log-file-size=8M", "innodb-buffer-pool-size=24M", "key-buffer-size=1M", "aria-pagecache-buffer-size=1M",
	"innodb-buffer-pool-dump-at-shutdown=off", "max-connections=60",
}

// MariaDB is one MariaDB server, with an empty database that belongs to an ordinary user.
type MariaDB struct {
	*server
	binary    string
	installer string
	data      string
	temporary string // a folder for files that no other server may remove: see ownTemporary
	settings  []string
}

// StartMariaDB starts a MariaDB server and waits until it answers. Each setting is an option of
// mariadbd without its dashes, such as "log-bin=binlog". Without settings it is as durable as it is
// by default.
func StartMariaDB(t testing.TB, settings ...string) *MariaDB {
	t.Helper()
	return StartMariaDBIn(t, "", settings...)
}

// StartMariaDBIn is like StartMariaDB, with the data in a folder that exists and does not belong to
// the server, such as a small file system.
func StartMariaDBIn(t testing.TB, folder string, settings ...string) *MariaDB {
	t.Helper()
	if folder == "" {
		folder = t.TempDir()
	}
	m := &MariaDB{
		server: newServer(t, "mariadb"), data: filepath.Join(folder, "data"), temporary: t.TempDir(),
		binary:    lookUpServer(t, "mariadbd", "mariadb-server"),
		installer: lookUp(t, "mariadb-install-db", "mariadb-server"),
	}
	m.settings = append(slices.Clone(mariaDBSettings), settings...)
	must(t, m, "create a database", mariaDBTemplate.unpack(nil, m.initialize, m.data))
	m.Start()
	return m
}

var mariaDBTemplate template

// initialize makes a new data folder, with the database and its users.
func (m *MariaDB) initialize(folder string) error {
	statements := append([]string{"FLUSH PRIVILEGES;"}, mySQLUsers()...)
	file := folder + ".sql"
	if err := os.WriteFile(file, []byte(strings.Join(statements, "\n")), 0o600); err != nil {
		return err
	}
	return run(ownTemporary(folder, m.installer, "--no-defaults", "--user="+userName(),
		"--datadir="+folder, "--skip-test-db", "--auth-root-authentication-method=normal", "--innodb-log-file-size=8M",
		"--innodb-flush-method=nosync", "--extra-file="+file))
}

// ownTemporary returns a command that makes the data in a folder, and has its temporary files beside
// it. A server that starts removes all that look like its own, also those of others.
func ownTemporary(folder, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(folder))
	return cmd
}

// userName is the present user. MariaDB accepts root if it is named.
func userName() string {
	if os.Geteuid() == 0 {
		return "root"
	}
	return "" // the present one
}

// Start starts a server that was killed or stopped, with the same data and port, and waits until it
// answers.
func (m *MariaDB) Start() {
	m.t.Helper()
	args := []string{"--no-defaults", "--user=" + userName(), "--datadir=" + m.data, "--port=" + strconv.Itoa(m.port), "--server-id=" + strconv.Itoa(m.port), "--tmpdir=" + m.temporary}
	for _, setting := range m.settings {
		args = append(args, "--"+setting)
	}
	m.process = startProcess(m.t, m.output, m.binary, args...)
	m.await("start "+m.name, func(ctx context.Context) error {
		_, err := m.query(ctx, "SELECT 1")
		return err
	})
}

// Configure adds options, such as "read-only=1", for the next start. The last one of a name counts.
func (m *MariaDB) Configure(settings ...string) { m.settings = append(m.settings, settings...) }

// DSN returns the connection string of the database and its owner.
func (m *MariaDB) DSN() string { return MariaDBDSN(m.Addr()) }

// MariaDBDSN returns the connection string of the database and its owner at another address, such
// as that of a Link.
func MariaDBDSN(addr string) string {
	return fmt.Sprintf("%s:%s@tcp(%s)/%s", sqlName, sqlPassword, addr, sqlName)
}

// AdminDSN returns the connection string of the superuser, for the same database.
func (m *MariaDB) AdminDSN() string {
	return fmt.Sprintf("%s:%s@tcp(%s)/%s", sqlAdmin, sqlPassword, m.Addr(), sqlName)
}

// Query runs one statement as the superuser and returns the first column of the first row as text,
// "" if there is none.
func (m *MariaDB) Query(statement string) string {
	m.t.Helper()
	ctx, cancel := within()
	defer cancel()
	text, err := m.query(ctx, statement)
	must(m.t, m, statement, err)
	return text
}

func (m *MariaDB) query(ctx context.Context, statement string) (string, error) {
	row, err := m.row(ctx, statement)
	if err != nil || len(row) == 0 {
		return "", err
	}
	return row[0].value, nil
}

// open returns connections of the superuser. They do not log that the server is down.
func (m *MariaDB) open() (*sql.DB, error) {
	config, err := mysql.ParseDSN(m.AdminDSN())
	if err != nil {
		return nil, err
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// field is a column of a row, as text.
type field struct{ name, value string }

// row runs a statement as the superuser and returns its first row, if there is one.
func (m *MariaDB) row(ctx context.Context, statement string) ([]field, error) {
	db, err := m.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil || len(columns) == 0 || !rows.Next() {
		return nil, errors.Join(err, rows.Err())
	}
	values, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	err = rows.Scan(targets...)
	row := make([]field, len(columns))
	for i, column := range columns {
		row[i] = field{column, values[i].String}
	}
	return row, err
}

// Connect returns one connection of the superuser, for the preparations and checks of a test.
func (m *MariaDB) Connect() *sql.Conn {
	m.t.Helper()
	db, err := m.open()
	must(m.t, m, "connect to "+m.name, err)
	m.t.Cleanup(func() { _ = db.Close() })
	ctx, cancel := within()
	defer cancel()
	conn, err := db.Conn(ctx)
	must(m.t, m, "connect to "+m.name, err)
	return conn
}

// TryConnect returns one connection of the superuser, if the server has one left. The caller closes
// it.
func (m *MariaDB) TryConnect(ctx context.Context) (*sql.Conn, error) {
	db, err := m.open()
	if err != nil {
		return nil, err
	}
	m.t.Cleanup(func() { _ = db.Close() })
	db.SetMaxIdleConns(-1) // closed is closed
	return db.Conn(ctx)
}

// Restart kills the server if it runs, and starts it with the same data and port. It has every
// acknowledged write, unless a setting says otherwise.
func (m *MariaDB) Restart() {
	m.t.Helper()
	m.Kill()
	m.Start()
}

// Stop ends the server as an operator does (SIGTERM): transactions are aborted and connections
// closed.
func (m *MariaDB) Stop() {
	m.t.Helper()
	m.stop(syscall.SIGTERM)
}
