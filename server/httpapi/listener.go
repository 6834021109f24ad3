package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"

	"github.com/seqd/seqd"
)

// Listener wraps a listener so that the errors net/http itself answers, before any handler runs (headers too large, malformed
// requests), are problem documents like all others. net/http offers no hook for them; it writes each in one piece, straight to
// the connection and with a header no other answer has.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return conn{tcp}, err
	}
	return c, err
}

// conn keeps the methods of a TCP connection: net/http closes the writing half after such an error, so that the caller can
// still read it.
type conn struct{ *net.TCPConn }

const plainError = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// Write implements [net.Conn].
func (c conn) Write(p []byte) (int, error) {
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
