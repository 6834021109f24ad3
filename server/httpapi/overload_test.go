package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
	"github.com/seqd/seqd/server/httpapi"
)

// bounded returns an API for order with strategy s that answers at most that many requests at once,
// and its log.
func bounded(tb testing.TB, most int, s seqd.Strategy) (*httpapi.API, *bytes.Buffer) {
	tb.Helper()
	log := new(bytes.Buffer)
	api := newStarting(tb, func(o *options) { o.MaxInFlight, o.Log = most, slog.New(slog.NewTextHandler(log, nil)) })
	issuer := newIssuer(tb, define("order", s))
	issuer.Init(tb.Context())
	ready(api, issuer)
	return api, log
}

// hanging returns a counter whose callers wait until the test releases them.
func hanging() (c *counter, entered, release chan struct{}) {
	c, entered, release = newCounter(100), make(chan struct{}), make(chan struct{})
	c.generate = func() error { entered <- struct{}{}; <-release; return nil }
	return c, entered, release
}

func TestMoreRequestsThanPlaces(t *testing.T) {
	s, entered, release := hanging()
	api, log := bounded(t, 2, s)
	var answers sync.WaitGroup
	for range 2 {
		answers.Go(func() {
			if w := do(t, api, "GET", "/seq/order"); w.Code != 200 {
				t.Errorf("a request with a place got %d: %s", w.Code, w.Body)
			}
		})
		<-entered
	}
	for _, target := range []string{"/seq/order", "/seq/order?count=5", "/seq/order/parse/1", "/biz-types/order/stats", "/nowhere"} {
		w := do(t, api, "GET", target)
		p := wantProblem(t, w, 503, seqd.CodeOverloaded)
		if w.Header().Get("Retry-After") != "1" || p.Detail != "2 requests are being answered already" {
			t.Errorf("%s: Retry-After %q, %q", target, w.Header().Get("Retry-After"), p.Detail)
		}
		// The answer is the same as that of any other error of its kind.
		p.RequestID = w.Header().Get("X-Request-Id")
		var known map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &known); err != nil || len(known) != 6 {
			t.Errorf("%s: %v, %v", target, known, err)
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		wantBody(t, do(t, api, method, "/healthz"), jsonType, `{"status":"ok"}`)
		wantBody(t, do(t, api, method, "/readyz"), jsonType, `{"status":"ready"}`)
	}
	close(release)
	answers.Wait()
	s.generate = nil
	wantBody(t, do(t, api, "GET", "/seq/order"), jsonType, `{"bizType":"order","id":"102"}`)
	if n := strings.Count(log.String(), "server.maxInFlight"); n != 1 {
		t.Errorf("it was logged %d times, want once: %s", n, log)
	}
}

// TestPlacesUnderConcurrency checks that no more requests than the limit are inside at once, and
// that every place is freed.
func TestPlacesUnderConcurrency(t *testing.T) {
	const most, callers, calls = 3, 16, 500
	var inside, highest, served, refused atomic.Int64
	s := newCounter(1)
	s.generate = func() error {
		n := inside.Add(1)
		defer inside.Add(-1)
		for h := highest.Load(); n > h && !highest.CompareAndSwap(h, n); h = highest.Load() {
		}
		if n%2 == 0 {
			panic("a strategy that fails")
		}
		return nil
	}
	api, _ := bounded(t, most, s)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range calls {
				switch w := do(t, api, "GET", "/seq/order"); w.Code {
				case 503:
					refused.Add(1)
				case 200, 500:
					served.Add(1)
				default:
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
			}
		})
	}
	all.Wait()
	if highest.Load() > most || served.Load()+refused.Load() != callers*calls || served.Load() == 0 {
		t.Errorf("%d were inside at once, want at most %d; %d served, %d refused", highest.Load(), most, served.Load(), refused.Load())
	}
	hang, entered, release := hanging()
	s.generate = hang.generate
	for range most {
		all.Go(func() { do(t, api, "GET", "/seq/order") })
		<-entered // this shows that each place is free
	}
	wantProblem(t, do(t, api, "GET", "/seq/order"), 503, seqd.CodeOverloaded)
	close(release)
	all.Wait()
}

// TestSlowBodyTakesNoPlace checks that a client takes no place while it sends its body byte by
// byte.
func TestSlowBodyTakesNoPlace(t *testing.T) {
	api, _ := bounded(t, 1, newCounter(100))
	next := 100
	for _, route := range []string{"POST /seq/order", "PUT /biz-types/order", "PATCH /biz-types/order"} {
		method, target, _ := strings.Cut(route, " ")
		body, send := io.Pipe()
		r := must.Get(newRequest(method, target, "Content-Type: application/json"))(t)
		r.Body, r.ContentLength = body, 2
		answered := make(chan int)
		go func() {
			w := serveOne(t, api, r)
			answered <- w.Code
		}()
		for _, part := range "{}" {
			// Write returns once the part was read, so the request is in progress.
			must.Get(send.Write([]byte(string(part))))(t)
			wantBody(t, do(t, api, "GET", "/seq/order"), jsonType, fmt.Sprintf(`{"bizType":"order","id":"%d"}`, next))
			next++
		}
		_ = send.Close()
		if status := <-answered; status > 201 && (status != 400 || method != "POST") { // which has no body
			t.Errorf("%s: the slow one got %d", route, status)
		}
	}
}

// TestImpatientClients checks that a connection that returns before Retry-After is answered late,
// unless there is a place, and that it does not delay others.
func TestImpatientClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, entered, release := hanging()
		api, _ := bounded(t, 1, s)
		var held sync.WaitGroup
		held.Go(func() { do(t, api, "GET", "/seq/order") })
		<-entered
		ask := func(conn context.Context, status int, wait time.Duration) {
			t.Helper()
			r := must.Get(newRequest("GET", "/seq/order"))(t)
			began, w := time.Now(), httptest.NewRecorder()
			api.ServeHTTP(w, r.WithContext(conn))
			if took := time.Since(began); w.Code != status || took != wait {
				t.Errorf("status %d after %s, want %d after %s", w.Code, took, status, wait)
			}
		}
		impatient, patient := httpapi.ConnContext(t.Context(), nil), httpapi.ConnContext(t.Context(), nil)
		const late = 100 * time.Millisecond
		ask(impatient, 503, 0)
		for range 20 {
			ask(impatient, 503, late)
		}
		for range 3 {
			ask(patient, 503, 0)
			time.Sleep(time.Second)
		}
		ask(impatient, 503, 0)
		for range 3 {
			ask(t.Context(), 503, 0) // of a server that does not tell connections apart
		}
		close(release)
		held.Wait()
		s.generate = nil
		ask(impatient, 200, 0)
	})
}

func TestRefusingAllocates(t *testing.T) {
	s, entered, release := hanging()
	api, _ := bounded(t, 1, s)
	var held sync.WaitGroup
	held.Go(func() { do(t, api, "GET", "/seq/order") })
	<-entered
	defer held.Wait()
	defer close(release)
	r := must.Get(newRequest("GET", "/seq/order"))(t)
	w := &reusable{header: make(http.Header)}
	per := must.Allocs(1000, func() { clear(w.header); api.ServeHTTP(w, r) })
	if w.status != 503 {
		t.Fatalf("status is %d", w.status)
	}
	if !racing.On && per > 2 {
		t.Errorf("a refusal costs %v allocations, want at most the 2 of the request ID", per)
	}
}

// served serves an API with a bound of connections on a port of its own, and returns what asks on a
// connection: the status, and whether the answer ends the connection. The status is 0 if it was
// closed.
func served(t *testing.T, api *httpapi.API) (addr string, ask func(c net.Conn, path string) (status int, ends bool)) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	addr = l.Addr().String()
	s := &http.Server{Handler: api, ReadHeaderTimeout: time.Hour, ConnContext: httpapi.ConnContext}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Serve(httpapi.Listener(l, nil, api.Gate().Connections)) }()
	t.Cleanup(func() { _ = s.Close(); <-ended })
	return addr, func(c net.Conn, path string) (int, bool) {
		t.Helper()
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: seqd\r\n\r\n"); err != nil {
			return 0, true
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, true
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, answer.Close
	}
}

// TestSilentConnections checks that connections on which nothing is said make room for others, and
// never those on which requests are answered.
func TestSilentConnections(t *testing.T) {
	api := newStarting(t, func(o *options) { o.MaxConnections = 16 })
	addr, ask := served(t, api)
	kept := dial(t, addr)
	ask(kept, "/healthz")
	for range 5 {
		var silent []net.Conn
		for range 100 {
			silent = append(silent, dial(t, addr))
		}
		if status, ends := ask(dial(t, addr), "/healthz"); status != 200 || ends {
			t.Fatalf("a probe got %d, and its end: %t", status, ends)
		}
		if n, err := silent[0].Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("a silent connection got %d bytes, %v; want its end", n, err)
		}
		if status, ends := ask(kept, "/healthz"); status != 200 || ends {
			t.Fatalf("one that is kept got %d, and its end: %t", status, ends)
		}
	}
	if load := api.Load(); load.Connections != 16 || load.Displaced < 400 || load.Refused != 0 {
		t.Errorf("at the end the load is %+v", load)
	}
}

// TestRequestOnEndedConnection checks that a request that arrives after its connection was ended,
// and before the connection is closed, is refused as any other request.
func TestRequestOnEndedConnection(t *testing.T) {
	api := newStarting(t, func(o *options) { o.MaxConnections = 1 })
	table := api.Gate().Connections
	place := table.Enter(io.NopCloser(nil))
	table.Enter(io.NopCloser(nil))
	r := must.Get(newRequest("GET", "/healthz"))(t)
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r.WithContext(httpapi.WithPlace(r.Context(), place)))
	wantProblem(t, w, 503, seqd.CodeOverloaded)
	must.Equal(t, "close", w.Header().Get("Connection"), "the connection")
}

// TestSpareConnections checks that probes are answered, and nothing else, while requests are
// answered on as many connections as are possible.
func TestSpareConnections(t *testing.T) {
	s, entered, release := hanging()
	issuer := newIssuer(t, define("order", s))
	api := newStarting(t, func(o *options) { o.MaxConnections = 1 })
	ready(api, issuer)
	addr, ask := served(t, api)
	answered := make(chan int)
	go func() {
		status, _ := ask(dial(t, addr), "/seq/order")
		answered <- status
	}()
	<-entered
	for path, want := range map[string]int{"/healthz": 200, "/seq/order": 503, "/nowhere": 503} {
		if status, ends := ask(dial(t, addr), path); status != want || !ends {
			t.Errorf("%s got %d, and its end: %t", path, status, ends)
		}
	}
	close(release)
	must.Equal(t, <-answered, 200, "the request")
}

// TestIdleConnectionsKeepNobodyOut checks that answers end their connections when almost all places
// are taken.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	const most, kept = 32, 29
	addr, ask := served(t, newStarting(t, func(o *options) { o.MaxConnections = most }))
	for i := range most + 100 {
		status, ends := ask(dial(t, addr), "/healthz")
		// Later connections may find that they have driven out a kept one: the ends of those before
		// them may not have been seen yet.
		if status != 200 || i < most && ends != (i >= kept) {
			t.Fatalf("connection %d: %d, closed %t", i, status, ends)
		}
	}
}

// dial opens a connection that is closed when the test ends.
func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c := must.Get(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { _ = c.Close() })
	must.Do(t, c.SetDeadline(time.Now().Add(await.Patience)))
	return c
}
