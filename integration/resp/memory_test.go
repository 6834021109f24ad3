// Package resp tests the memory of a node whose clients of the Redis protocol do not read, or send far
// more than a command may have.
package resp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/respconn"
)

func TestMain(m *testing.M) { node.Main(m) }

const patience = await.Patience

// mostGrown is how much more memory a node may take from the system because of clients that
// misbehave, in bytes. Without bounds it is gigabytes.
const mostGrown = 256 << 20

// startOne starts a node on a bolt file and returns the address of the Redis protocol.
func startOne(t *testing.T, env ...string) (*node.Node, string) {
	t.Helper()
	addr := testenv.ReserveAddr(t)
	return node.StartReady(t, t.TempDir(), append([]string{"SEQD_RESP_ADDR=" + addr, `SEQD_BIZTYPES=[{"name":"order","step":10000000},{"name":"other"}]`}, env...)...), addr
}

// tiny has a tiny receive buffer, so that the memory of the clients does not count.
var tiny = net.Dialer{Timeout: patience, Control: func(_, _ string, raw syscall.RawConn) (err error) {
	controlErr := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096) })
	return errors.Join(controlErr, err)
}}

// Clients send SEQ.NEXT with the largest count without an end, and never read. The memory of the
// node stays bounded, and others are served meanwhile.
func TestClientsThatNeverRead(t *testing.T) {
	n, addr := startOne(t, "SEQD_SERVER_WRITETIMEOUT=1h")
	crowd := longtest.Or(200, 1000)
	before := n.PeakMemory()
	var flood sync.WaitGroup
	ended := make(chan struct{})
	for range crowd {
		c, err := tiny.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		flood.Go(func() { pour(c, ended) })
	}
	served := 0
	for end := time.Now().Add(time.Duration(longtest.Or(3, 10)) * time.Second); time.Now().Before(end); {
		mustServe(t, n, addr)
		served++
	}
	grown := n.PeakMemory() - before
	close(ended)
	flood.Wait()
	t.Logf("%d clients that do not read: the node took %d MiB more; others were served %d times", crowd, grown>>20, served)
	if grown > mostGrown {
		t.Errorf("the node took %d MiB more, want at most %d", grown>>20, mostGrown>>20)
	}
}

// pour sends commands until the end of the test, as fast as the node takes them.
func pour(c net.Conn, ended <-chan struct{}) {
	commands := []byte(strings.Repeat("SEQ.NEXT order COUNT 10000\r\n", 1000))
	for rest := commands; ; {
		select {
		case <-ended:
			return
		default:
		}
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		wrote, err := c.Write(rest)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return // the node may end such a connection
		}
		if rest = rest[wrote:]; len(rest) == 0 {
			rest = commands
		}
	}
}

// mustServe requires that new callers of both protocols get numbers soon.
func mustServe(t *testing.T, n *node.Node, addr string) {
	t.Helper()
	c, err := respconn.Dial(addr, patience, nil)
	if err == nil {
		defer func() { _ = c.Close() }()
		err = c.SetDeadline(time.Now().Add(patience))
	}
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for _, command := range []string{"INCR other", "INCR order", "PING"} {
		if _, err := c.Do(command); err != nil {
			t.Fatalf("%s after %v: %v", command, time.Since(began), err)
		}
	}
	if status, body := n.Status("/seq/other"); status != http.StatusOK {
		t.Fatalf("GET /seq/other: %d %s", status, body)
	}
}

// Clients announce or send far more than a command may have. They get an error and the end of the
// connection, and the node's memory does not grow.
func TestHugeCommands(t *testing.T) {
	n, addr := startOne(t)
	before := n.PeakMemory()
	for what, send := range map[string]func(io.Writer) error{
		"1 GB announced":             text("*2\r\n$4\r\nINCR\r\n$1073741824\r\n" + strings.Repeat("x", 1<<16)),
		"1 GB announced as a name":   text("*1\r\n$1073741824\r\n"),
		"2^62 bytes announced":       text("*1\r\n$4611686018427387904\r\n"),
		"a negative length":          text("*2\r\n$4\r\nINCR\r\n$-2\r\n"),
		"100,000 arguments":          text("*100000\r\n" + strings.Repeat("$5\r\norder\r\n", 100_000)),
		"100,000 arguments, inline":  text("INCR" + strings.Repeat(" order", 100_000) + "\r\n"),
		"2^31 arguments announced":   text("*2147483648\r\n"),
		"a line without an end":      text(strings.Repeat("x", 1<<20)),
		"a length without an end":    text("*" + strings.Repeat("1", 1<<16)),
		"1 GB, and it really comes":  gigabyte,
		"a command that is no array": text("$4\r\nINCR\r\n$5\r\norder\r\n*1\r\n:1\r\n"),
	} {
		var crowd sync.WaitGroup
		for range 100 {
			crowd.Go(func() {
				if err := rejected(addr, send); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		crowd.Wait()
		mustServe(t, n, addr)
	}
	grown := n.PeakMemory() - before
	t.Logf("the node took %d MiB more", grown>>20)
	if grown > mostGrown {
		t.Errorf("the node took %d MiB more, want at most %d", grown>>20, mostGrown>>20)
	}
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// gigabyte sends a bulk of a gigabyte.
func gigabyte(w io.Writer) error {
	if _, err := io.WriteString(w, "*2\r\n$4\r\nINCR\r\n$"+strconv.Itoa(1<<30)+"\r\n"); err != nil {
		return err
	}
	chunk := make([]byte, 1<<20)
	for range 1 << 10 {
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// rejected sends something and requires errors as answers, and the end of the connection.
func rejected(addr string, send func(io.Writer) error) error {
	c, err := respconn.Dial(addr, patience, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() { sent <- send(c) }() // an error is fine: the node does not read all of it
	defer func() { _ = c.Close(); <-sent }()
	for said := false; ; said = true {
		answer, err := c.Read()
		refused, is := errors.AsType[respconn.Error](err)
		switch {
		case is && strings.HasPrefix(string(refused), "ERR "):
			continue
		case err == nil || is:
			return fmt.Errorf("it got %v, %w", answer, err)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errors.New("the connection stays open")
		case !said && !errors.Is(err, syscall.ECONNRESET):
			return fmt.Errorf("no answer: %w", err)
		}
		return nil
	}
}
