// Package testenv starts real servers as child processes of a test, and breaks them: Redis alone,
// with replicas, with Sentinels and as a Cluster, PostgreSQL, pgbouncer and MariaDB, and a stand-in
// for MongoDB. A Link in front of any address can cut, hold or delay its traffic.
//
// Everything is private to the test that started it (processes, ports on 127.0.0.1, folders, names)
// and ends with it. Nothing else on the machine is touched. A failure ends the test and prints the
// server's log, so methods must be called from the test's own goroutine, except Addr, URI and Log.
// A missing binary fails the test and never skips it. The package needs Linux.
package testenv

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
)

const tail = 6000 // bytes of a log that are printed on failure

// Unique returns a name that no other test and no other run uses, for keys, databases and counters.
func Unique() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return "seqdtest_" + hex.EncodeToString(random[:])
}

// logger is a server whose log is printed if the test fails.
type logger interface{ Log() string }

// eventually waits until the condition returns no error. The context of the condition ends with the
// wait.
func eventually(t testing.TB, what string, condition func(context.Context) error) {
	t.Helper()
	ctx, cancel := within()
	defer cancel()
	await.Eventually(t, what, func() error { return condition(ctx) })
}

// again wraps a request so that a wait sends it until it succeeds, and again later if it had no
// effect, because Redis gives up a failover after five seconds.
func again(request func(context.Context) error) func(context.Context) error {
	const pause = 6 * time.Second
	var sent time.Time
	return func(ctx context.Context) error {
		if time.Since(sent) < pause {
			return nil
		}
		err := request(ctx)
		if err == nil {
			sent = time.Now()
		}
		return err
	}
}

func lastOf(log string) string {
	if len(log) > tail {
		return "…" + log[len(log)-tail:]
	}
	return log
}

// showOnFailure prints the server's log if the test fails.
func showOnFailure(t testing.TB, name string, server logger) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of %s:\n%s", name, lastOf(server.Log()))
		}
	})
}

// within returns a context for one command of this package.
func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), await.Patience)
}

// must ends the test on an error of this package.
func must(t testing.TB, server logger, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, err, lastOf(server.Log()))
	}
}

// reservePort reserves a free port on 127.0.0.1 until the test ends, even while its server is down.
// A socket stays bound to the port and never listens. It is bound without SO_REUSEADDR, so that the
// port is free, and sets it afterwards, so that a server that sets it too (all servers here do) can
// bind the same port. Without a server connections are refused as usual.
func reservePort(t testing.TB) int {
	t.Helper()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		t.Cleanup(func() { _ = syscall.Close(socket) })
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}
	var bound syscall.Sockaddr
	if err == nil {
		bound, err = syscall.Getsockname(socket)
	}
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	return bound.(*syscall.SockaddrInet4).Port
}

// ReserveAddr returns an address on 127.0.0.1 whose port is free, and reserved until the test ends:
// a server that listens there can end and start again.
func ReserveAddr(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(reservePort(t)))
}

// dial returns an error if nothing listens on an address.
func dial(ctx context.Context, addr string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// lookUp finds a binary. If it is missing, the message says how to install it.
func lookUp(t testing.TB, binary, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(binary)
	if err != nil {
		t.Fatalf("%s is missing; install it: apt-get update && apt-get install -y %s", binary, debianPackage)
	}
	return path
}

// Debian keeps servers in these folders, which may be missing from the PATH. They are variables for
// the test of missing servers.
var (
	serverFolder   = "/usr/sbin"
	postgresFolder = "/usr/lib/postgresql" // one folder per version
)

// lookUpServer is like lookUp, for a binary that may be in serverFolder.
func lookUpServer(t testing.TB, binary, debianPackage string) string {
	t.Helper()
	if path, err := exec.LookPath(filepath.Join(serverFolder, binary)); err == nil {
		return path
	}
	return lookUp(t, binary, debianPackage)
}

// copyFolder copies a folder to one that does not exist yet, or exists and is empty.
func copyFolder(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

// copyFile copies a file.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copy to %s: %w", to, err)
	}
	return out.Close()
}
