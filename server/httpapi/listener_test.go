package httpapi_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

// serve serves h on a port of its own, through httpapi.Listener if wrapped, and returns the
// address.
func serve(t *testing.T, h http.Handler, wrapped bool) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	if wrapped {
		l = httpapi.Listener(l, nil, newGate(gate.Options{}).Connections)
	}
	s := &http.Server{
		Handler: h, MaxHeaderBytes: 4096, DisableGeneralOptionsHandler: true, ReadHeaderTimeout: time.Hour,
		ErrorLog: log.New(io.Discard, "", 0),
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		must.Report(t, s.Close())
		must.Equal(t, <-served, http.ErrServerClosed, "serving ended with")
	})
	return addr
}

// exchange sends raw bytes and returns everything that arrives until the server closes the
// connection.
func exchange(t *testing.T, addr, raw string) []byte {
	t.Helper()
	c := must.Get(net.Dial("tcp", addr))(t)
	defer c.Close()
	must.Do(t, c.SetDeadline(time.Now().Add(await.Patience)))
	must.Get(io.WriteString(c, raw))(t)
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("the connection did not end well: %v; so far: %q", err, answer)
	}
	return answer
}

// answerIn reads the only answer in what arrived on a connection.
func answerIn(t *testing.T, raw []byte) (*http.Response, []byte) {
	t.Helper()
	r := bufio.NewReader(bytes.NewReader(raw))
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("the answer cannot be read: %v: %q", err, raw)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("the body cannot be read: %v: %q", err, raw)
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		t.Fatalf("there is more after the answer: %q", rest)
	}
	return answer, cutLine(t, answer.Header, body)
}

func TestErrorsBeforeAnyHandler(t *testing.T) {
	addr := serve(t, newAPI(t), true)
	const get = "GET /seq/order HTTP/1.1\r\n"
	tests := []struct {
		name, raw string
		status    int
		code      string
	}{
		{"a huge header", get + "Host: seqd\r\nX: " + strings.Repeat("x", 20_000) + "\r\n\r\n", 431, "headers_too_large"},
		{"many headers", get + "Host: seqd\r\n" + strings.Repeat("X: 123456789\r\n", 1500) + "\r\n", 431, "headers_too_large"},
		{"a huge target", "GET /" + strings.Repeat("x", 20_000) + " HTTP/1.1\r\nHost: seqd\r\n\r\n", 431, "headers_too_large"},
		{"no request line", "hello\r\n\r\n", 400, "invalid_request"},
		{"no version", "GET /seq/order\r\nHost: seqd\r\n\r\n", 400, "invalid_request"},
		{"a bad method", "GE(T /seq/order HTTP/1.1\r\nHost: seqd\r\n\r\n", 400, "invalid_request"},
		{"a bad version", "GET /seq/order HTTP/x.y\r\nHost: seqd\r\n\r\n", 400, "invalid_request"},
		{"an unknown version", "GET /seq/order HTTP/3.0\r\nHost: seqd\r\n\r\n", 505, "invalid_request"},
		{"TLS on a plain port", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "invalid_request"},
		{"no Host", get + "\r\n", 400, "invalid_request"},
		{"a bad Host", get + "Host: a b\r\n\r\n", 400, "invalid_request"},
		{"two Hosts", get + "Host: a\r\nHost: b\r\n\r\n", 400, "invalid_request"},
		{"a NUL in the target", "GET /seq/or\x00der HTTP/1.1\r\nHost: seqd\r\n\r\n", 400, "invalid_request"},
		{"a broken escape in the target", "GET /seq/%zz HTTP/1.1\r\nHost: seqd\r\n\r\n", 400, "invalid_request"},
		{"a header without name", get + "Host: seqd\r\n: x\r\n\r\n", 400, "invalid_request"},
		{"a header with a blank in its name", get + "Host: seqd\r\nX Y: x\r\n\r\n", 400, "invalid_request"},
		{"a header with a NUL", get + "Host: seqd\r\nX: a\x00b\r\n\r\n", 400, "invalid_request"},
		{"an unsupported transfer encoding", "POST /seq/order HTTP/1.1\r\nHost: seqd\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "invalid_request"},
		{"a bad length", "POST /seq/order HTTP/1.1\r\nHost: seqd\r\nContent-Length: x\r\n\r\n", 400, "invalid_request"},
		{"two lengths", "POST /seq/order HTTP/1.1\r\nHost: seqd\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", 400, "invalid_request"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer, body := answerIn(t, exchange(t, addr, tt.raw))
			must.Equal(t, answer.StatusCode, tt.status, "status")
			if !answer.Close {
				t.Error("the answer does not say Connection: close")
			}
			p, err := problemIn(answer.StatusCode, answer.Header, body)
			if err != nil {
				t.Fatalf("%v; body: %s", err, body)
			}
			must.Equal(t, p.Code, tt.code, "code")
		})
	}
}

// TestErrorOnAKeptConnection checks that an error in the second request of a connection is answered
// like one in the first.
func TestErrorOnAKeptConnection(t *testing.T) {
	addr := serve(t, newAPI(t), true)
	raw := exchange(t, addr, "GET /seq/order HTTP/1.1\r\nHost: seqd\r\n\r\nGET /seq/order HTTP/1.1\r\nHost: a b\r\n\r\n")
	first, second, found := bytes.Cut(raw, []byte(one+"\n"))
	if !found {
		t.Fatalf("the first answer is missing: %q", first)
	}
	answer, body := answerIn(t, second)
	if _, err := problemIn(answer.StatusCode, answer.Header, body); err != nil || answer.StatusCode != 400 {
		t.Errorf("the second answer has status %d: %v", answer.StatusCode, err)
	}
}

var dateLine = regexp.MustCompile(`Date: [^\r]*\r\n`)

// TestListenerLeavesAnswersAlone checks that the listener does not change answers of handlers, even
// if they look like errors of net/http.
func TestListenerLeavesAnswersAlone(t *testing.T) {
	mux := http.NewServeMux()
	plain := func(status int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	mux.Handle("/good", plain(200, "100\n101\n"))
	mux.Handle("/bad", plain(400, "400 Bad Request"))
	mux.Handle("/closing", plain(431, "431 Request Header Fields Too Large", "Connection", "close"))
	mux.Handle("/dateless", plain(503, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request", "Connection", "close"))
	mux.Handle("/long", plain(400, strings.Repeat("HTTP/1.1 400 Bad Request\r\n", 1000)))
	mux.HandleFunc("/pieces", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		for i := range 3 {
			fmt.Fprintf(w, "HTTP/1.1 50%d piece\r\n", i)
			w.(http.Flusher).Flush()
		}
	})
	wrapped, bare := serve(t, mux, true), serve(t, mux, false)
	for _, path := range []string{"/good", "/bad", "/closing", "/dateless", "/long", "/pieces", "/missing"} {
		for _, request := range []string{
			"GET " + path + " HTTP/1.1\r\nHost: seqd\r\nConnection: close\r\n\r\n",
			"GET " + path + " HTTP/1.0\r\n\r\n",
			"HEAD " + path + " HTTP/1.1\r\nHost: seqd\r\nConnection: close\r\n\r\n",
			"GET " + path + " HTTP/1.1\r\nHost: seqd\r\n\r\nGET " + path + " HTTP/1.1\r\nHost: seqd\r\nConnection: close\r\n\r\n",
		} {
			t.Run(fmt.Sprintf("%.25q", request), func(t *testing.T) {
				got := dateLine.ReplaceAll(exchange(t, wrapped, request), nil)
				want := dateLine.ReplaceAll(exchange(t, bare, request), nil)
				if !bytes.Equal(got, want) || len(want) == 0 {
					t.Errorf("got  %.600q\nwant %.600q", got, want)
				}
			})
		}
	}
}

// TestOverTCP checks complete answers as a caller sees them.
func TestOverTCP(t *testing.T) {
	addr := serve(t, newAPI(t), true)
	for i, want := range []struct{ header, contentType, body string }{
		{"Accept: */*", jsonType, `{"bizType":"order","ids":["100","101"]}`},
		{"Accept: text/plain", textType, "102\n103\n"},
	} {
		raw := exchange(t, addr, "GET /seq/order?count=2 HTTP/1.1\r\nHost: seqd\r\nConnection: close\r\n"+want.header+"\r\n\r\n")
		answer, body := answerIn(t, raw)
		if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != want.contentType || string(body) != want.body {
			t.Errorf("request %d: %d %s %q, want 200 %s %q", i, answer.StatusCode, answer.Header.Get("Content-Type"), body, want.contentType, want.body)
		}
		if answer.ContentLength != int64(len(raw)-bytes.Index(raw, []byte("\r\n\r\n"))-4) {
			t.Errorf("request %d: Content-Length is %d, want %d", i, answer.ContentLength, len(want.body))
		}
	}

	// A batch larger than the buffers of net/http is not chunked.
	answer, body := answerIn(t, exchange(t, addr, "GET /seq/order?count=10000 HTTP/1.1\r\nHost: seqd\r\nConnection: close\r\n\r\n"))
	if answer.ContentLength != int64(len(body)+len("\n")) || len(answer.TransferEncoding) > 0 {
		t.Errorf("Content-Length is %d of %d bytes, Transfer-Encoding %q", answer.ContentLength, len(body), answer.TransferEncoding)
	}
}

// TestTooLargeBodyOverTCP checks that a body that is too large gets an answer and not a reset, with
// and without a Content-Length.
func TestTooLargeBodyOverTCP(t *testing.T) {
	addr := serve(t, newAPI(t), true)
	for name, rest := range map[string]string{
		"with a length":         "Content-Length: 50000\r\n\r\n" + strings.Repeat("x", 50_000),
		"in chunks":             "Transfer-Encoding: chunked\r\n\r\nc350\r\n" + strings.Repeat("x", 50_000) + "\r\n0\r\n\r\n",
		"waiting to be allowed": "Content-Length: 50000\r\nExpect: 100-continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			answer, body := answerIn(t, exchange(t, addr, "POST /seq/order HTTP/1.1\r\nHost: seqd\r\nConnection: close\r\n"+rest))
			p, err := problemIn(answer.StatusCode, answer.Header, body)
			if err != nil || answer.StatusCode != 413 || p.Code != "body_too_large" {
				t.Errorf("status %d, code %q, %v; want 413 body_too_large", answer.StatusCode, p.Code, err)
			}
		})
	}
}
