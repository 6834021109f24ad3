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
	*output
	t       testing.TB
	user    *syscall.Credential
	conf    string
	port    int
	process *process
}

// StartPgbouncer starts a pgbouncer in front of a server, at its address or at that of a Link, and
// waits until its port is open. Each setting is a line of pgbouncer.ini, such as "pool_mode =
// session".
func StartPgbouncer(t testing.TB, server string, settings ...string) *Pgbouncer {
	t.Helper()
	user, err := unprivileged()
	b := &Pgbouncer{output: &output{}, t: t, user: user, port: reservePort(t)}
	must(t, b, "look for a user other than root", err)
	folder := userFolder(t, user)
	b.conf = filepath.Join(folder, "pgbouncer.ini")
	users := filepath.Join(folder, "users.txt")
	host, port, err := net.SplitHostPort(server)
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
	showOnFailure(t, "pgbouncer "+b.Addr(), b)
	b.Start()
	return b
}

// Start starts it again after Kill.
func (b *Pgbouncer) Start() {
	b.t.Helper()
	b.process = startProcessAs(b.t, b.output, b.user, syscall.SIGKILL, lookUpServer(b.t, "pgbouncer", "pgbouncer"), b.conf)
	await(b.t, "start pgbouncer", b, func(ctx context.Context) error {
		if err := b.process.ended(); err != nil {
			b.t.Fatalf("start pgbouncer: %v\n%s", err, lastOf(b.Log()))
		}
		return dial(ctx, b.Addr())
	})
}

// Kill ends it as kill -9 does.
func (b *Pgbouncer) Kill() { b.process.kill() }

// Addr returns the host and port to use instead of the server's.
func (b *Pgbouncer) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// URL returns the connection string of the database and its owner.
func (b *Pgbouncer) URL() string { return PostgresURL(b.Addr()) }
