package httpapi

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lazydeadline"
	"github.com/seqd/seqd/server/connections"
	"github.com/seqd/seqd/server/gate"
)

// Listener wraps a listener so that the errors that net/http answers itself, before any handler
// runs (headers too large, malformed requests), are problem documents too. net/http offers no hook
// for them. It writes each with a single call, straight to the connection and with a header that no
// other answer has.
//
// The wrapper sees what net/http writes before it is encrypted, so TLS is done inside the wrapper.
// net/http does not know of TLS, and therefore speaks HTTP/1.1 only. The first read makes the
// handshake, within the timeout for headers.
//
// settings are nil if connections are not encrypted. table decides which connections stay open.
func Listener(l net.Listener, settings *tls.Config, table *connections.Table) net.Listener {
	if settings != nil {
		settings = settings.Clone()
		settings.NextProtos = []string{"http/1.1"}
	}
	return &listener{Listener: l, settings: settings, table: table}
}

type listener struct {
	net.Listener
	settings *tls.Config // nil without TLS
	table    *connections.Table
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		tcp, ok := c.(*net.TCPConn)
		if err != nil || !ok {
			return c, err
		}
		if place := l.table.Enter(tcp); place != nil {
			return l.wrap(tcp, place), nil
		}
		_ = tcp.Close() // nothing was written that could be lost
	}
}

// wrap returns a connection that is counted. From net/http down: problem documents, which TLS is to
// encrypt; TLS if there is any; cheap deadlines, below TLS because it ends for good after a write
// that timed out; TCP.
func (l *listener) wrap(tcp *net.TCPConn, place *connections.Place) net.Conn {
	gate.BoundUnsent(tcp)
	lazy := lazydeadline.New(tcp)
	var s stream = lazy
	if l.settings != nil {
		s = encrypted{tls.Server(lazy, l.settings), lazy}
	}
	return &conn{s, place}
}

// stream is a connection whose writing side can be closed.
type stream interface {
	net.Conn
	CloseWrite() error
}

// encrypted is a connection over TLS.
type encrypted struct {
	*tls.Conn
	tcp stream // below TLS
}

// mostPlain is how much of a plain HTTP request is read before the connection is closed. Closing a
// connection with unread data would reset it, and the caller would not see the answer.
const mostPlain = 64 << 10

// Read implements [net.Conn]. A caller that speaks plain HTTP gets an answer that says so.
func (c encrypted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if wrong, ok := errors.AsType[tls.RecordHeaderError](err); ok && wrong.Conn != nil && likeHTTP(wrong.RecordHeader[:]) {
		_, _ = c.tcp.Write(problemWith(http.StatusBadRequest, seqd.Errorf(seqd.CodeInvalidRequest, "the request is plain HTTP, and this port speaks HTTPS")))
		_ = c.tcp.CloseWrite()
		_, _ = io.CopyN(io.Discard, c.tcp, mostPlain) // until the deadline of the headers at most
	}
	return n, err
}

// likeHTTP reports whether the first bytes from a caller look like an HTTP request.
func likeHTTP(begin []byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO"} {
		if string(begin) == method {
			return true
		}
	}
	return false
}

// CloseWrite closes the writing side of TLS and of the connection below it, so that a caller
// without TLS sees the end too.
func (c encrypted) CloseWrite() error { return errors.Join(c.Conn.CloseWrite(), c.tcp.CloseWrite()) }

// conn is a connection whose writing side net/http can close. It does so after such an error, so
// that the caller can still read the answer.
type conn struct {
	stream
	place *connections.Place
}

// Close implements [net.Conn].
func (c *conn) Close() error {
	err := c.stream.Close()
	c.place.Leave()
	return err
}

const plainError = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write implements [net.Conn].
func (c *conn) Write(p []byte) (int, error) {
	if len(p) < 512 && (bytes.HasPrefix(p, []byte("HTTP/1.1 4")) || bytes.HasPrefix(p, []byte("HTTP/1.1 5"))) {
		if answer := problemFor(p); answer != nil {
			_, err := c.stream.Write(answer)
			return len(p), err // net/http counts what it wrote
		}
	}
	return c.stream.Write(p)
}

// problemFor returns the problem document for a plain error that net/http wrote, or nil if p is
// something else.
func problemFor(p []byte) []byte {
	statusLine, body, plain := bytes.Cut(p, []byte(plainError))
	if !plain || bytes.Contains(statusLine, []byte("\r\n")) {
		return nil
	}
	number, err := strconv.Atoi(string(statusLine[len("HTTP/1.1 "):min(len(statusLine), len("HTTP/1.1 400"))]))
	if err != nil {
		return nil
	}
	e := seqd.Errorf(seqd.CodeInvalidRequest, "the request cannot be read: %s", body)
	if number == http.StatusRequestHeaderFieldsTooLarge {
		e = seqd.Errorf(seqd.CodeHeadersTooLarge, "the request line and headers are too large")
	}
	return problemWith(number, e)
}

// problemWith returns a complete answer. The status may have no code of its own.
func problemWith(number int, e *seqd.Error) []byte {
	document := newProblem(e)
	document.Status, document.Title = number, http.StatusText(number)
	content, err := json.Marshal(document)
	if err != nil {
		return nil
	}
	content = append(content, '\n')
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		number, http.StatusText(number), len(content), content)
}
