package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/seqd/seqd"
)

// Listener wraps a listener so that the errors net/http itself answers, before any handler runs (headers too large, malformed
// requests), are problem documents like all others. net/http offers no hook for them; it writes each in one piece, straight to
// the connection and with a header no other answer has.
//
// Connections above the most are closed as soon as they are accepted, without an answer: reading what the client sends, so that closing does not reset the
// connection and take the answer with it, would hold the very descriptor that is to be freed.
func Listener(l net.Listener, opts ListenerOptions) net.Listener {
	return &listener{Listener: l, most: orNone(opts.MaxConnections), refused: episodes{log: opts.Log, message: "connections were closed at once: server.maxConnections are open"}}
}

// ListenerOptions are what a [Listener] is built from.
type ListenerOptions struct {
	// MaxConnections is how many connections are open at once, 0 for no bound.
	MaxConnections int
	// Log is told, now and then, of connections that were closed at once.
	Log *slog.Logger
}

type listener struct {
	net.Listener
	most    int64
	open    atomic.Int64
	refused episodes
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		tcp, ok := c.(*net.TCPConn)
		if err != nil || !ok {
			return c, err
		}
		if l.open.Add(1) <= l.most {
			return &conn{TCPConn: tcp, listener: l}, nil
		}
		l.open.Add(-1)
		_ = tcp.Close() // nothing was written that could be lost
		l.refused.count()
	}
}

// conn keeps the methods of a TCP connection: net/http closes the writing half after such an error, so that the caller can
// still read it.
type conn struct {
	*net.TCPConn
	listener *listener
	closed   sync.Once
}

// Close implements [net.Conn]. net/http closes some connections twice.
func (c *conn) Close() error {
	err := c.TCPConn.Close()
	c.closed.Do(func() { c.listener.open.Add(-1) })
	return err
}

const plainError = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	if len(p) < 512 && (bytes.HasPrefix(p, []byte("HTTP/1.1 4")) || bytes.HasPrefix(p, []byte("HTTP/1.1 5"))) {
		if answer := problemFor(p); answer != nil {
			if _, err := c.TCPConn.Write(answer); err != nil {
				return 0, err
			}
			return len(p), nil
		}
	}
	return c.TCPConn.Write(p)
}

// problemFor returns the problem document for a plain error that net/http wrote, nil when p is something else.
func problemFor(p []byte) []byte {
	statusLine, body, plain := bytes.Cut(p, []byte(plainError))
	if !plain || bytes.Contains(statusLine, []byte("\r\n")) {
		return nil
	}
	number, err := strconv.Atoi(string(statusLine[len("HTTP/1.1 "):min(len(statusLine), len("HTTP/1.1 400"))]))
	if err != nil {
		return nil
	}
	refusal := seqd.Errorf(seqd.CodeInvalidRequest, "the request cannot be read: %s", body)
	if number == http.StatusRequestHeaderFieldsTooLarge {
		refusal = seqd.Errorf(seqd.CodeHeadersTooLarge, "the request line and headers are too large")
	}
	document := newProblem(refusal)
	document.Status, document.Title = number, http.StatusText(number)
	content, err := json.Marshal(document)
	if err != nil {
		return nil
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nCache-Control: no-store\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		number, http.StatusText(number), len(content), content)
}
