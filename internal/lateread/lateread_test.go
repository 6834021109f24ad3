package lateread

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/tcppair"
)

// A Conn does what every connection must.
func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		a, b := tcppair.New(t)
		k := busyClock()
		c1, c2 = k.Conn(a), k.Conn(b)
		return c1, c2, func() { c1.Close(); c2.Close() }, nil
	})
}

// busyClock returns a clock that holds back the first read.
func busyClock() *Clock { return &Clock{began: time.Now().Add(time.Hour), reads: few} }

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
	a, far := tcppair.New(t)
	below = &counted{TCPConn: a}
	c = busyClock().Conn(below)
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

// The read begins although nothing else happens.
func TestReadBegins(t *testing.T) {
	began := time.Now()
	_, below, far, read := held(t)
	if n := below.reads.Load(); n != 0 && time.Since(began) < pause {
		t.Errorf("%d reads while one is held back", n)
	}
	must.Get(far.Write([]byte("x")))(t)
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if n := below.reads.Load(); n != 1 {
		t.Errorf("%d reads, want 1", n)
	}
}

// instant is a connection whose reads end at once.
type instant struct{ *net.TCPConn }

func (instant) Read([]byte) (int, error)        { return 0, nil }
func (instant) SetReadDeadline(time.Time) error { return nil }

// requests begins and ends reads as net/http does for so many requests.
func requests(c *Conn, n int) {
	for range n {
		_ = c.SetReadDeadline(time.Time{})
		go func() { _, _ = c.Read(make([]byte, 1)) }()
		synctest.Wait()
		_ = c.SetReadDeadline(time.Unix(1, 0))
		synctest.Wait()
	}
	_ = c.SetReadDeadline(time.Time{})
}

// How long a read is held back depends on how many others were lately.
func TestHowLong(t *testing.T) {
	for _, test := range []struct {
		busy   bool // many reads before
		others int  // in the same pause
		want   time.Duration
	}{
		{false, 0, 0},
		{true, 0, pause},
		{true, few - 2, pause},
		{true, few - 1, 2 * pause},
		{true, 10 * few, 2 * pause},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := new(Clock)
			if test.busy {
				k = busyClock()
			}
			c := k.Conn(instant{})
			requests(c, test.others)
			begun := time.Now()
			must.Get(c.Read(make([]byte, 1)))(t)
			if took := time.Since(begun); took != test.want {
				t.Errorf("after many reads: %v, beside %d others: held back for %v, want %v", test.busy, test.others, took, test.want)
			}
			time.Sleep(2 * pause)
			if k.isTicking() || len(k.watched) > 0 {
				t.Error("the clock has not stopped")
			}
		})
	}
}

// A clock becomes busy when there are many reads in a pause.
func TestBecomesBusy(t *testing.T) {
	for name, tt := range map[string]struct {
		reads int // at once
		every time.Duration
		held  bool
	}{
		"one now and then":         {1, pause, false},
		"two, soon after another":  {2, pause / 2, false},
		"the most that are few":    {few - 1, pause, false},
		"the fewest that are many": {few, pause, true},
		"one after another":        {1, pause / few, true},
		"one, a little later":      {1, pause/(few-1) + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := new(Clock)
				c := k.Conn(instant{})
				held := false
				for range 5 * few {
					requests(c, tt.reads)
					held = held || k.isTicking()
					time.Sleep(tt.every)
				}
				if held != tt.held {
					t.Errorf("reads are held back: %v, want %v", held, tt.held)
				}
				_ = c.SetReadDeadline(time.Unix(1, 0))
				time.Sleep(3 * pause)
				if k.isTicking() {
					t.Error("the timer runs although there are no more reads")
				}
			})
		})
	}
}

// isTicking reports whether the clock holds back reads.
func (k *Clock) isTicking() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ticking
}

// A deadline that has passed ends a read that is held back.
func TestPassedDeadline(t *testing.T) {
	c, _, _, read := held(t)
	must.Do(t, c.SetReadDeadline(time.Unix(1, 0)))
	must.Is(t, <-read, os.ErrDeadlineExceeded, "the read ended with")
}

// A later deadline ends the hold, and then the read.
func TestLaterDeadline(t *testing.T) {
	c, _, _, read := held(t)
	must.Do(t, c.SetDeadline(time.Now().Add(pause/4)))
	must.Is(t, <-read, os.ErrDeadlineExceeded, "the read ended with")
}

// Closing ends a read that is held back.
func TestClose(t *testing.T) {
	c, _, _, read := held(t)
	must.Do(t, c.Close())
	must.Is(t, <-read, net.ErrClosed, "the read ended with")
	must.Is(t, must.Err(c.Read(make([]byte, 1))), net.ErrClosed, "the next read ended with")
}

// One timer serves all connections, and stops when nothing is held back.
func TestClockStops(t *testing.T) {
	k := busyClock()
	var wg sync.WaitGroup
	for i := range 50 {
		a, far := tcppair.New(t)
		c := k.Conn(a)
		must.Get(far.Write([]byte("x")))(t)
		wg.Go(func() {
			time.Sleep(time.Duration(i) * pause / 10) // not all at the same tick
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for k.isTicking() {
		time.Sleep(pause)
	}
	if n := len(k.watched); n > 0 {
		t.Errorf("the clock stopped and watches %d connections", n)
	}
}

// listener accepts connections that hold back every read of one byte.
type listener struct {
	net.Listener
	clock    *Clock
	accepted chan *counted
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	below := &counted{TCPConn: c.(*net.TCPConn)}
	l.accepted <- below
	return l.clock.Conn(below), nil
}

// serve returns a connection to a server with a handler, and the server's end.
func serve(t *testing.T, handler http.HandlerFunc) (client net.Conn, server *counted) {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	l := &listener{Listener: tcp, clock: busyClock(), accepted: make(chan *counted, 1)}
	s := &http.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		must.Report(t, s.Close())
		<-ended
	})
	client, err = net.Dial("tcp", tcp.Addr().String())
	must.Do(t, err)
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
	must.Get(io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	<-running
	must.Do(t, client.Close())
	must.Is(t, <-cancelled, context.Canceled, "the request ended with")
}

// Requests that arrive while a handler waits are answered in order, even if it waits for longer than
// the pause.
func TestPipeline(t *testing.T) {
	const most = 50
	var slow atomic.Bool
	begun := make(chan bool)
	client, server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if slow.Load() && r.URL.Path == "/7" {
			<-begun
		}
		fmt.Fprint(w, r.URL.Path)
	})
	answers := bufio.NewReader(client)
	for _, is := range []bool{false, true} {
		slow.Store(is)
		before := server.reads.Load()
		for i := range most {
			must.Get(fmt.Fprintf(client, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i))(t)
		}
		if is {
			await.True(t, "a read of one byte is released", func() bool { return server.reads.Load() > before })
			begun <- true
		}
		for i := range most {
			answer := must.Get(http.ReadResponse(answers, nil))(t)
			body, err := io.ReadAll(answer.Body)
			if want := fmt.Sprint("/", i); err != nil || string(body) != want {
				t.Fatalf("the answer is %q, %v, want %q", body, err, want)
			}
		}
	}
}
