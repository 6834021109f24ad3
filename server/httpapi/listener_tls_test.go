package httpapi_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// serveTLS serves h over TLS and returns the address.
func serveTLS(t *testing.T, h http.Handler, readHeaderTimeout time.Duration) string {
	t.Helper()
	borrowed := httptest.NewTLSServer(nil)
	borrowed.Close()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &http.Server{Handler: h, MaxHeaderBytes: 4096, ReadHeaderTimeout: readHeaderTimeout, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(httpapi.Listener(l, &tls.Config{Certificates: borrowed.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}, newGate(gate.Options{}).Connections))
	}()
	t.Cleanup(func() { _ = s.Close(); <-served })
	return l.Addr().String()
}

// exchangeTLS is exchange over TLS.
func exchangeTLS(t *testing.T, addr, raw string) []byte {
	t.Helper()
	c := must.Get(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}))(t)
	defer c.Close()
	must.Do(t, c.SetDeadline(time.Now().Add(await.Patience)))
	must.Get(io.WriteString(c, raw))(t)
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("the connection did not end well: %v; so far: %q", err, answer)
	}
	return answer
}

// TestListenerOverTLS checks that answers of handlers and errors of net/http are the same over TLS.
func TestListenerOverTLS(t *testing.T) {
	addr := serveTLS(t, newAPI(t), time.Hour)
	answer, body := answerIn(t, exchangeTLS(t, addr, "GET /seq/order HTTP/1.1\r\nHost: seqd\r\nConnection: close\r\n\r\n"))
	if answer.StatusCode != 200 || string(body) != one {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
	for raw, code := range map[string]string{
		"GET /seq/order HTTP/1.1\r\nHost: seqd\r\nX: " + strings.Repeat("x", 20_000) + "\r\n\r\n": "headers_too_large",
		"GET /seq/order HTTP/1.1\r\n\r\n":  "invalid_request",
		"GE(T /seq/order HTTP/1.1\r\n\r\n": "invalid_request",
		"hello\r\n\r\n":                    "invalid_request",
	} {
		answer, body := answerIn(t, exchangeTLS(t, addr, raw))
		p, err := problemIn(answer.StatusCode, answer.Header, body)
		if err != nil || p.Code != code || !answer.Close {
			t.Errorf("%.30q: %d %s, %v", raw, answer.StatusCode, body, err)
		}
	}
}

// TestNoHTTP2 checks that HTTP/2 is not offered, because net/http does not know of TLS.
func TestNoHTTP2(t *testing.T) {
	addr := serveTLS(t, newAPI(t), time.Hour)
	c := must.Get(tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}))(t)
	defer c.Close()
	must.Equal(t, c.ConnectionState().NegotiatedProtocol, "http/1.1", "agreed on")
	if c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}); err == nil {
		_ = c.Close()
		t.Error("a caller that speaks HTTP/2 alone was taken")
	}
}

// TestPlainHTTPToTLS checks the answer to a caller that speaks plain HTTP to an HTTPS port.
func TestPlainHTTPToTLS(t *testing.T) {
	addr := serveTLS(t, newAPI(t), time.Hour)
	for _, method := range []string{"GET", "POST", "DELETE", "OPTIONS"} {
		answer, body := answerIn(t, exchange(t, addr, method+" /seq/order HTTP/1.1\r\nHost: seqd\r\n\r\n"))
		p, err := problemIn(answer.StatusCode, answer.Header, body)
		if err != nil || answer.StatusCode != 400 || p.Code != "invalid_request" || !strings.Contains(p.Detail, "HTTPS") {
			t.Errorf("%s: %d %s, %v", method, answer.StatusCode, body, err)
		}
	}
}

// TestSlowHandshake checks that a caller that stops in the middle of a handshake is cut off.
func TestSlowHandshake(t *testing.T) {
	addr := serveTLS(t, newAPI(t), 100*time.Millisecond)
	for _, begin := range []string{"", "\x16", "\x16\x03\x01\x02\x00\x01", "GET /seq/order"} {
		c := must.Get(net.Dial("tcp", addr))(t)
		must.Do(t, c.SetDeadline(time.Now().Add(await.Patience)))
		must.Get(io.WriteString(c, begin))(t)
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("after %q the connection did not end: %v", begin, err)
		}
		_ = c.Close()
	}
}

// TestLargeBodyOfNobody checks that a caller without permission gets an answer and not a reset,
// however large its body is.
func TestLargeBodyOfNobody(t *testing.T) {
	api := newGuarded(t)
	addr := serve(t, api, true)
	for name, rest := range map[string]string{
		"with a length":         "Content-Length: 500000\r\n\r\n" + strings.Repeat("x", 500_000),
		"in chunks":             "Transfer-Encoding: chunked\r\n\r\n7a120\r\n" + strings.Repeat("x", 500_000) + "\r\n0\r\n\r\n",
		"waiting to be allowed": "Content-Length: 50000\r\nExpect: 100-continue\r\n\r\n",
		"in the wrong form":     auth("all") + "\r\nContent-Length: 500000\r\n\r\n" + strings.Repeat("x", 500_000),
	} {
		for _, path := range []string{"/seq/order", "/tokens"} {
			answer, body := answerIn(t, exchange(t, addr, "POST "+path+" HTTP/1.1\r\nHost: seqd\r\nConnection: close\r\n"+rest))
			p, err := problemIn(answer.StatusCode, answer.Header, body)
			want := seqd.CodeUnauthorized
			if strings.Contains(rest, "Bearer") {
				want = map[string]seqd.Code{"/tokens": seqd.CodeUnsupportedMediaType, "/seq/order": seqd.CodeBodyTooLarge}[path]
			}
			if err != nil || answer.StatusCode != statusOf(want) || p.Code != string(want) {
				t.Errorf("%s to %s: status %d, code %q, %v", name, path, answer.StatusCode, p.Code, err)
			}
		}
	}
}

// TestCallersThatLeave checks that the requests of callers that leave are cancelled, also if they
// are so many that this is noticed late.
func TestCallersThatLeave(t *testing.T) {
	const callers = 50
	running, cancelled := make(chan bool), make(chan error)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		running <- true
		<-r.Context().Done()
		cancelled <- r.Context().Err()
	})
	encrypt := func(c net.Conn) io.ReadWriteCloser {
		return tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	for name, test := range map[string]struct {
		addr string
		open func(net.Conn) io.ReadWriteCloser
	}{
		"plain": {serve(t, h, true), func(c net.Conn) io.ReadWriteCloser { return c }},
		"TLS":   {serveTLS(t, h, time.Hour), encrypt},
	} {
		t.Run(name, func(t *testing.T) {
			var open []io.Closer
			for range callers {
				c := test.open(dial(t, test.addr))
				must.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: seqd\r\n\r\n"))(t)
				open = append(open, c)
			}
			for range callers {
				<-running
			}
			for _, c := range open {
				must.Report(t, c.Close())
			}
			for range callers {
				must.Is(t, <-cancelled, context.Canceled, "a request ended with")
			}
		})
	}
}
