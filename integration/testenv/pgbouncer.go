package testenv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// pgbouncerSettings are for all of them. The last line of a name counts.
var pgbouncerSettings = []string{
	"listen_addr = 127.0.0.1", "unix_socket_dir =", "auth_type = scram-sha-256", "pool_mode = transaction",
	"server_login_retry = 0.1", "max_client_conn = 500", "default_pool_size = 10",
}

// Pgbouncer is a pgbouncer in transaction mode.
type Pgbouncer struct {
	*server
	user *syscall.Credential
	conf string
}

// StartPgbouncer starts a pgbouncer in front of a server, at its address or at that of a Link, and
// waits until its port is open. Each setting is a line of pgbouncer.ini, such as "pool_mode =
// session".
func StartPgbouncer(t testing.TB, addr string, settings ...string) *Pgbouncer {
	t.Helper()
	user, err := unprivileged()
	b := &Pgbouncer{server: newServer(t, "pgbouncer"), user: user}
	must(t, b, "look for a user other than root", err)
	folder := userFolder(t, user)
	b.conf = filepath.Join(folder, "pgbouncer.ini")
	users := filepath.Join(folder, "users.txt")
	host, port, err := net.SplitHostPort(addr)
	must(t, b, "read the address", err)
	lines := []string{
		"[databases]", fmt.Sprintf("* = host=%s port=%s", host, port),
		"[pgbouncer]", "auth_file = " + users, "listen_port = " + strconv.Itoa(b.port),
	}
	lines = append(append(lines, pgbouncerSettings...), settings...)
	passwords := fmt.Sprintf("\"%s\" \"%s\"\n\"%s\" \"%s\"\n", sqlName, sqlPassword, sqlAdmin, sqlPassword)
	must(t, b, "write pgbouncer.ini", errors.Join(
		os.WriteFile(b.conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600),
		os.WriteFile(users, []byte(passwords), 0o600), giveTo(user, folder)))
	b.Start()
	return b
}

// Start starts it again after Kill.
func (b *Pgbouncer) Start() {
	b.t.Helper()
	b.process = startProcessAs(b.t, b.output, b.user, syscall.SIGKILL, lookUpServer(b.t, "pgbouncer", "pgbouncer"), b.conf)
	b.await("start "+b.name, func(ctx context.Context) error { return dial(ctx, b.Addr()) })
}

// URL returns the connection string of the database and its owner.
func (b *Pgbouncer) URL() string { return PostgresURL(b.Addr()) }
