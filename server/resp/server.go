package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/connections"
	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
)

// Options are the options of [New].
type Options struct {
	// Gate is what all protocols of the service share.
	Gate *gate.Gate
	// TLS encrypts connections. It may be nil.
	TLS *tls.Config
	// IdleTimeout is how long a connection is kept whose client sends nothing, ReadTimeout how long
	// one command may take to arrive, WriteTimeout how long a client may take to read an answer.
	// Each may end up to an eighth earlier.
	IdleTimeout, ReadTimeout, WriteTimeout time.Duration
	// Metrics counts commands. It may be nil.
	Metrics Metrics
	// Refused notes a command whose client has no right to it, such as AUTH with a wrong token: its
	// name, the name of the token, "" if that is not known, the client's IP address, the ID of the
	// request, and what it was refused with. It must be fast. It may be nil.
	Refused func(command, token, addr, requestID string, code seqd.Code)
	// Tracer decides what is traced; nil for nothing.
	Tracer Tracer
	// LargeIntegers allows INCR and INCRBY of biz types whose numbers may be above
	// [seqd.MaxNumber].
	LargeIntegers bool
	// Version is what INFO says.
	Version string
}

// Metrics counts commands. It is safe for concurrent use.
type Metrics interface {
	// Command returns the function that counts the answers to a command, such as INCR, or
	// "other". code is "" for a good answer. It is called for each command, so it must be
	// fast.
	Command(name string) (count func(code seqd.Code, n int))
}

// otherCommands is the name of all commands that the package does not know.
const otherCommands = "other"

// Server serves the Redis protocol: [New], [Server.Serve], [Server.Shutdown]. It is safe for
// concurrent use.
type Server struct {
	opts     Options
	gate     *gate.Gate
	table    *table
	counters []func(code seqd.Code, n int) // by the index of the command
	linger   time.Duration                 // how long a connection is read after the last answer
	ctx      context.Context               // ends when connections are cut off
	cancel   context.CancelFunc
	stopping atomic.Pointer[time.Time] // when connections stop reading; nil before

	mu       sync.Mutex // guards what follows
	listener net.Listener
	conns    map[*conn]struct{}
	lastID   int64
	done     chan struct{} // closed when the server stops and has no connection; nil before

	open atomic.Int64 // connections
}

// New returns a Server that does not listen yet.
func New(opts Options) *Server {
	s := &Server{opts: opts, gate: opts.Gate, table: newTable(), linger: lingerTime, conns: make(map[*conn]struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, name := range append(CommandNames(), otherCommands) {
		count := func(seqd.Code, int) {}
		if opts.Metrics != nil {
			count = opts.Metrics.Command(name)
		}
		s.counters = append(s.counters, count)
	}
	return s
}

// ErrClosed is returned by Serve after Shutdown.
var ErrClosed = errors.New("resp: the server was shut down")

// Serve accepts connections until Shutdown, and returns ErrClosed then, or why it cannot accept any
// more. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	s.listener = l
	stopped := s.done != nil
	s.mu.Unlock()
	if stopped {
		return ErrClosed
	}
	for pause := time.Duration(0); ; {
		accepted, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
			s.accept(accepted)
		case s.stopping.Load() != nil:
			return ErrClosed
		case !temporary(err):
			return err
		default:
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
		}
	}
}

// temporary reports whether accepting may succeed later: there are no files left, for example.
func temporary(err error) bool {
	t, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](err)
	return ok && t.Temporary()
}

// accept serves a connection in the background, unless there are too many.
func (s *Server) accept(accepted net.Conn) {
	place := s.gate.Connections.Enter(accepted)
	if place == nil {
		_ = accepted.Close()
		return
	}
	if tcp, ok := accepted.(*net.TCPConn); ok {
		gate.BoundUnsent(tcp)
	}
	if s.opts.TLS != nil {
		accepted = tls.Server(accepted, s.opts.TLS)
	}
	c := s.newConn(accepted, place)
	if !s.add(c) {
		_ = accepted.Close()
		place.Leave()
		return
	}
	go c.serve()
}

// newConn returns the connection of a client.
func (s *Server) newConn(accepted net.Conn, place *connections.Place) *conn {
	return &conn{server: s, net: accepted, place: place, addr: forwarded.Host(accepted.RemoteAddr().String()), requestID: s.gate.IDs.Next(), in: newInput(), proto: 2, now: time.Now()}
}

// add notes a connection, unless the server stops.
func (s *Server) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done != nil {
		return false
	}
	s.lastID++
	c.id = s.lastID
	s.conns[c] = struct{}{}
	s.open.Add(1)
	return true
}

// remove forgets a connection.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.open.Add(-1)
	if s.done != nil && len(s.conns) == 0 {
		close(s.done)
	}
}

// Connections returns how many connections are open.
func (s *Server) Connections() int64 { return s.open.Load() }

// grace is how long connections are still read when the server stops: what clients have sent until
// then is answered.
const grace = 100 * time.Millisecond

// Shutdown stops accepting connections, answers what clients have sent, and closes the connections.
// It cuts off those that are not done when ctx ends, and returns an error then.
func (s *Server) Shutdown(ctx context.Context) error {
	done := s.stop()
	defer s.cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == 0 {
		return nil
	}
	for c := range s.conns {
		_ = c.net.Close()
	}
	return fmt.Errorf("%d connections of the Redis protocol were still busy: %w", len(s.conns), ctx.Err())
}

// stop closes the listener and lets connections end. The channel is closed when all have ended.
func (s *Server) stop() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done != nil {
		return s.done
	}
	end := time.Now().Add(grace)
	s.stopping.Store(&end)
	s.done = make(chan struct{})
	if s.listener != nil {
		_ = s.listener.Close()
	}
	for c := range s.conns {
		c.wake(end)
	}
	if len(s.conns) == 0 {
		close(s.done)
	}
	return s.done
}
