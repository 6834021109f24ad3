package resp_test

import (
	"context"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/resp"
)

// TestPipelineInHand: what a client sent before the stop is answered, even if that takes a while;
// then the connection ends. A connection without a request ends at once.
func TestPipelineInHand(t *testing.T) {
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	slow := newCounter(1)
	slow.generate = func(context.Context) error {
		entered <- struct{}{}
		<-leave
		return nil
	}
	s := serve(t, nil, define("slow", slow), define("order", newCounter(1)))
	busy, idle, half := s.dial(t), s.dial(t), s.dial(t)
	if idle.ask("PING") != "+PONG" {
		t.Fatal("no answer")
	}
	// What the service has not read when it closes a connection would reset it.
	half.send(form("PING") + "*2\r\n$4\r\n")
	if line, err := half.r.ReadString('\n'); err != nil || line != "+PONG\r\n" {
		t.Fatal(line, err)
	}
	busy.send(strings.Repeat(form("INCR", "slow"), 3) + form("INCR", "order"))
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	must.Equal(t, idle.rest()+half.rest(), "")
	close(leave)
	must.Equal(t, busy.rest(), ":1\r\n:2\r\n:3\r\n:1\r\n")
	must.Report(t, <-stopped)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("again: %v", err)
	}
}

// TestCutOff: what is not done in time is cut off, and its context ends.
func TestCutOff(t *testing.T) {
	entered, over := make(chan struct{}), make(chan struct{})
	stuck := newCounter(1)
	stuck.generate = func(ctx context.Context) error {
		close(entered)
		<-ctx.Done()
		close(over)
		return ctx.Err()
	}
	s := serve(t, nil, define("stuck", stuck))
	p := s.dial(t)
	p.send(form("INCR", "stuck"))
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	must.Is(t, s.Shutdown(ctx), context.DeadlineExceeded)
	<-over
	if got, _ := io.ReadAll(p); strings.Contains(string(got), ":") && !strings.HasPrefix(string(got), "-ERR canceled") {
		t.Errorf("got %q", got)
	}
}

// TestStoppedBefore: a server that was stopped before it served serves nobody.
func TestStoppedBefore(t *testing.T) {
	s := resp.New(resp.Options{})
	must.Do(t, s.Shutdown(t.Context()))
	ended, end := context.WithCancel(t.Context())
	end()
	for range 20 { // whether it looks at the context or at the connections first
		must.Do(t, s.Shutdown(ended))
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	must.Is(t, s.Serve(l), resp.ErrClosed)
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the port is still open")
	}
}

// failing is a listener whose Accept fails a few times before it succeeds.
type failing struct {
	net.Listener
	times int
}

func (l *failing) Accept() (net.Conn, error) {
	if l.times--; l.times >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

// TestAcceptFails: a lack of files is waited out; anything else ends Serve.
func TestAcceptFails(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	set := serve(t, nil) // for its gate
	s := resp.New(resp.Options{Gate: set.gate, IdleTimeout: time.Hour, ReadTimeout: time.Hour, WriteTimeout: time.Hour})
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(&failing{l, 3}) }()
	must.Equal(t, (&service{connect: func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }}).dial(t).ask("PING"), "+PONG", "PING")
	_ = l.Close()
	must.Is(t, <-ended, net.ErrClosed)
	must.Report(t, s.Shutdown(t.Context()))
}

// TestAcceptPauses: the pauses between attempts to accept double, up to a second.
func TestAcceptPauses(t *testing.T) {
	set := serve(t, nil) // for its gate
	synctest.Test(t, func(t *testing.T) {
		l := &late{closed: make(chan struct{})}
		_ = l.Close()
		began := time.Now()
		must.Is(t, resp.New(resp.Options{Gate: set.gate}).Serve(&failing{l, 10}), net.ErrClosed)
		must.Equal(t, time.Since(began), 1275*time.Millisecond+2*time.Second, "ten failures took")
	})
}

// brittle panics when it counts one command.
type brittle struct{}

func (brittle) Command(name string) func(seqd.Code, int) {
	return func(seqd.Code, int) {
		if name == "ECHO" {
			panic("no")
		}
	}
}

// TestPanic: a panic ends one connection and nothing else.
func TestPanic(t *testing.T) {
	s := serve(t, func(set *settings) { set.resp.Metrics, set.gate.MaxInFlight = brittle{}, 1 }, define("order", newCounter(1)))
	p := s.dial(t)
	p.send(form("ECHO", "x"))
	must.Equal(t, p.rest(), "")
	must.Equal(t, s.dial(t).ask("INCR", "order"), ":1")
}
