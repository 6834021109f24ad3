package lateread

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// connect returns both ends of a TCP connection.
func connect(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close(); accepted.Close() })
	return accepted.(*net.TCPConn), dialled.(*net.TCPConn)
}

// A Conn does what every connection must.
func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		a, b := connect(t)
		c1, c2 = New(a), New(b)
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

// counted counts the reads of one byte without a deadline that reach a connection.
type counted struct {
	*net.TCPConn
	reads   atomic.Int64
	limited atomic.Bool // there is a read deadline
}

func (c *counted) Read(p []byte) (int, error) {
	if len(p) == 1 && !c.limited.Load() {
		c.reads.Add(1)
	}
	return c.TCPConn.Read(p)
}

func (c *counted) SetReadDeadline(t time.Time) error {
	c.limited.Store(!t.IsZero())
	return c.TCPConn.SetReadDeadline(t)
}

// held returns a Conn with a read that is held back, its end, and what the read returns.
func held(t *testing.T) (c *Conn, below *counted, far *net.TCPConn, result <-chan error) {
	t.Helper()
	a, far := connect(t)
	below = &counted{TCPConn: a}
	c = New(below)
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	for begun := false; !begun; {
		c.mu.Lock()
		begun = c.begun > 0
		c.mu.Unlock()
	}
	return c, below, far, read
}

// The read begins after the pause, although nothing else happens.
func TestPause(t *testing.T) {
	_, below, far, read := held(t)
	begun := time.Now()
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took < Pause/2 {
		t.Errorf("the read was held back for %v only", took)
	}
	if n := below.reads.Load(); n != 1 {
		t.Errorf("%d reads, want 1", n)
	}
}

// A deadline that has passed ends a read that is held back, and the connection below is not asked.
func TestPassedDeadline(t *testing.T) {
	c, _, _, read := held(t)
	if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the read ended with %v", err)
	}
}

// A later deadline ends the hold, and then the read.
func TestLaterDeadline(t *testing.T) {
	c, _, _, read := held(t)
	if err := c.SetDeadline(time.Now().Add(Pause / 4)); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the read ended with %v", err)
	}
}

// Closing ends a read that is held back.
func TestClose(t *testing.T) {
	c, _, _, read := held(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the read ended with %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the next read ended with %v", err)
	}
}

// listener accepts connections that hold back reads.
type listener struct {
	net.Listener
	accepted chan *counted
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	below := &counted{TCPConn: c.(*net.TCPConn)}
	l.accepted <- below
	return New(below), nil
}

// serve returns a connection to a server with a handler, and the server's end.
func serve(t *testing.T, handler http.HandlerFunc) (client net.Conn, server *counted) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := listener{tcp, make(chan *counted, 1)}
	s := &http.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	client, err = net.Dial("tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, <-l.accepted
}

// A handler learns that its caller has left.
func TestCallerLeaves(t *testing.T) {
	running, cancelled := make(chan bool, 1), make(chan error, 1)
	client, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		running <- true
		<-r.Context().Done()
		cancelled <- r.Context().Err()
	})
	if _, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-running
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v", err)
	}
}

// Requests that arrive while a handler waits are answered in order, even if it waits for longer than
// the pause. A handler that ends sooner costs no read.
func TestPipeline(t *testing.T) {
	const requests = 50
	var slow atomic.Bool
	client, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() && r.URL.Path == "/7" {
			time.Sleep(3 * Pause) // longer than a read is held back
		}
		fmt.Fprint(w, r.URL.Path)
	})
	answers := bufio.NewReader(client)
	for _, is := range []bool{false, true} {
		slow.Store(is)
		for i := range requests {
			if _, err := fmt.Fprintf(client, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i); err != nil {
				t.Fatal(err)
			}
		}
		for i := range requests {
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if want := fmt.Sprint("/", i); err != nil || string(body) != want {
				t.Fatalf("the answer is %q, %v, want %q", body, err, want)
			}
		}
		// Half, because a busy machine can make any handler slow.
		if n := server.reads.Load(); is && n == 0 || !is && n > requests/2 {
			t.Errorf("slow handler %v: %d reads of one byte for %d requests", is, n, requests)
		}
	}
}
