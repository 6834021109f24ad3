package resp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/connections"
	"github.com/seqd/seqd/server/gate"
)

const (
	// flushAt is how many bytes of answers are collected before they are written.
	flushAt = 16 << 10
	// keepBytes is the largest buffer of answers that is kept for other connections.
	keepBytes = 64 << 10
	// lateBy is the share of a time-out by which a connection may end earlier: deadlines are not
	// set anew for each command.
	lateBy = 8
)

// conn is the connection of one client. Only its goroutine uses it, except wake and cut.
type conn struct {
	server    *Server
	net       net.Conn
	place     *connections.Place
	id        int64
	addr      string // the client's IP address
	requestID string // of all commands of the connection, for histories and the log

	in  *input
	out []byte // answers that were not written yet
	run *run   // requests for numbers that were not issued yet; nil if there are none

	proto    int           // 2 or 3
	secret   access.Digest // the digest of the client's token; zero if it sent none
	name     string        // as CLIENT SETNAME says
	names    names
	keys     names
	counters names
	refused  time.Time // when a command was last refused for lack of places or room
	delayed  bool      // a refusal of what is being answered was delayed
	answered bool      // of what is being answered, the client might ask something
	ends     bool      // nothing more is answered
	multi    bool      // MULTI was refused, and the client may send more of that transaction
	broken   bool      // nothing can be written any more

	lastName    []byte // the last command that there is, as the client wrote it
	lastCommand int    // its index

	now                 time.Time // when the connection last had something to do
	readFrom, writeFrom time.Time // when the deadlines were last set
	halfRead            bool      // the deadline is that of a command that began to arrive
	short               bool      // the same, or that command has been answered meanwhile
}

// outs holds buffers for answers.
var outs = sync.Pool{New: func() any { return new([]byte) }}

// serve answers a client until the connection ends.
func (c *conn) serve() {
	defer c.close()
	defer c.recover()
	if !c.handshake() {
		return
	}
	for !c.ends && c.read() {
		c.answer()
	}
	if !c.broken {
		c.server.hangUp(c.net)
	}
}

// handshake begins TLS, if the port speaks it.
func (c *conn) handshake() bool {
	encrypted, ok := c.net.(*tls.Conn)
	if !ok {
		return true
	}
	_ = c.net.SetDeadline(time.Now().Add(c.server.opts.ReadTimeout))
	err := encrypted.Handshake()
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil {
		_, _ = plain.Conn.Write(appendError(nil, protocolError("this port speaks TLS")))
		c.server.hangUp(plain.Conn)
	}
	return err == nil && c.net.SetDeadline(time.Time{}) == nil
}

// read waits for what the client sends next. It reports whether there is anything.
func (c *conn) read() bool {
	c.setReadDeadline()
	n, _ := c.net.Read(c.in.space())
	c.in.filled(n)
	return n > 0
}

// setReadDeadline sets when the connection ends because the client sends nothing, or does not
// finish a command.
func (c *conn) setReadDeadline() {
	opts := &c.server.opts
	switch {
	case !c.in.empty() && !c.halfRead:
		c.halfRead, c.short = true, true
		_ = c.net.SetReadDeadline(time.Now().Add(opts.ReadTimeout))
	case c.in.empty() && (c.short || c.now.Sub(c.readFrom) > opts.IdleTimeout/lateBy):
		c.halfRead, c.short, c.readFrom = false, false, c.now
		_ = c.net.SetReadDeadline(c.now.Add(opts.IdleTimeout))
	default:
		return
	}
	if end := c.server.stopping.Load(); end != nil {
		_ = c.net.SetReadDeadline(*end) // it may have been set before
	}
}

// answer answers all commands that have arrived.
func (c *conn) answer() {
	if !c.place.Begin() {
		c.gone()
		return
	}
	out := outs.Get().(*[]byte)
	c.out, c.delayed, c.answered = (*out)[:0], false, false
	for !c.ends {
		args, ok, err := c.in.command()
		if err != nil {
			c.refuse(err)
		}
		if !ok {
			break
		}
		c.halfRead = false
		c.do(args)
	}
	c.issue()
	c.flush()
	c.ends = c.ends || c.place.Spare()
	c.place.End(c.answered)
	if cap(c.out) <= keepBytes {
		*out = c.out
		outs.Put(out)
	}
	c.out = nil
}

// allow asks whether the client may do something for a counter. If it may, the connection is known.
func (c *conn) allow(scope, counter string) (access.Identity, error) {
	who, err := c.server.gate.AllowDigest(&c.secret, scope, counter)
	if err != nil {
		return who, err
	}
	return who, c.show()
}

// show says that the client has shown who it is. The error is that of a connection that has been
// closed.
func (c *conn) show() error {
	if !c.place.Show() {
		c.gone()
		return gate.NoPlace()
	}
	c.answered = true
	return nil
}

// gone notes that the connection has been closed to make room for others.
func (c *conn) gone() { c.ends, c.broken = true, true }

// refuse ends the connection of a client that sent no command.
func (c *conn) refuse(err error) {
	c.issue()
	if err == error(errHTTP) {
		c.out = append(c.out, httpAnswer...)
	} else {
		c.out = appendError(c.out, err)
	}
	c.server.counters[len(c.server.table.list)]("invalid_request", 1)
	c.ends = true
}

// httpAnswer is what a client gets that speaks HTTP.
const httpAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
	"This port speaks the Redis protocol. HTTP is at another port.\n"

// flush writes the answers that were collected.
func (c *conn) flush() {
	if len(c.out) == 0 || c.broken {
		c.out = c.out[:0]
		return
	}
	if c.now = time.Now(); c.now.Sub(c.writeFrom) > c.server.opts.WriteTimeout/lateBy {
		c.writeFrom = c.now
		_ = c.net.SetWriteDeadline(c.now.Add(c.server.opts.WriteTimeout))
	}
	if _, err := c.net.Write(c.out); err != nil {
		c.ends, c.broken = true, true
	}
	c.out = c.out[:0]
}

const (
	// lingerTime and lingerBytes bound what is read of a client after the last answer. Closing a
	// connection with unread data would reset it, and the client would not see the answer.
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 2 << 20
)

// hangUp ends a connection so that its client can read the last answer.
func (s *Server) hangUp(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(s.linger))
	_, _ = io.CopyN(io.Discard, c, lingerBytes)
}

// recover ends the connection after a panic.
func (c *conn) recover() {
	if p := recover(); p != nil {
		c.server.gate.Failures.Error("panic while answering a command", "requestId", c.requestID, "panic", p, "stack", string(debug.Stack()))
	}
}

// close frees what the connection holds.
func (c *conn) close() {
	c.in.release()
	_ = c.net.Close()
	c.place.Leave()
	c.server.remove(c)
}

// wake lets the connection end when its client has sent nothing until then.
func (c *conn) wake(end time.Time) { _ = c.net.SetReadDeadline(end) }
