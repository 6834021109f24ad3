package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// These tests use a network, because faults below HTTP cannot be had without one.

// cutting answers the first request with a head that announces more than comes.
func cutting(h http.Handler, bytes int) http.Handler {
	var done atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if done.Swap(true) {
			h.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		body := rec.Body.Bytes()
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", rec.Header().Get("Content-Type"), len(body))
		_, _ = conn.Write(body[:min(bytes, len(body))])
		_ = conn.Close()
	})
}

// An answer that is cut anywhere is not used. With a key the next one has the same numbers.
func TestCutAnswers(t *testing.T) {
	noLeaks(t)
	ctx := context.Background()
	for at := range 40 {
		s := newService()
		node := httptest.NewServer(cutting(s, at))
		c := dial(t, Config{Addrs: []string{node.URL}})
		ids, err := c.NextN(ctx, "order", 3)
		if want := `{"bizType":"order","ids":["0","1","2"]}`; err != nil || at < len(want) && ids[0] != "3" {
			t.Errorf("cut at %d: got %q, %v", at, ids, err)
		}
		c.CloseIdleConnections()
		node.Close()
	}
	s := newService()
	node := httptest.NewServer(cutting(s, 20))
	c := dial(t, Config{Addrs: []string{node.URL}})
	if ids, err := c.NextN(ctx, "order", 3, IdempotencyKey("invoice-7")); err != nil || ids[0] != "0" || s.issued("order") != 3 {
		t.Errorf("got %q, %v, and %d issued", ids, err, s.issued("order"))
	}
	text := httptest.NewServer(cutting(newService(), 4))
	c2 := dial(t, Config{Addrs: []string{text.URL}})
	if got, err := c2.AppendText(ctx, nil, "order", 3); err != nil || string(got) != "3\n4\n5\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, close := range []func(){c.CloseIdleConnections, c2.CloseIdleConnections, node.Close, text.Close} {
		close()
	}
}

// One of three nodes dies, and takes the requests under way with it. No caller notices, and no number
// is given out twice.
func TestNodeDies(t *testing.T) {
	s := newService()
	nodes := []*httptest.Server{start(t, s), start(t, s), start(t, s)}
	c := dial(t, Config{Addrs: []string{nodes[0].URL, nodes[1].URL, nodes[2].URL}})
	b := must(c.Buffer("order", BufferOptions{Size: 64}))(t)
	defer b.Close()
	var taken atomic.Int64
	all := callers(t, 8, func(i, _ int) (string, error) {
		if taken.Add(1) == 3*perCaller {
			nodes[0].CloseClientConnections()
			go nodes[0].Close()
		}
		if i%2 == 0 {
			return b.Next(context.Background())
		}
		return c.Next(context.Background(), "order")
	})
	unique(t, all)
}

// perCaller is how often each of the callers calls.
const perCaller = 400

// callers calls next from each of n goroutines, and returns what each got.
func callers(t *testing.T, n int, next func(caller, call int) (string, error)) [][]string {
	t.Helper()
	all := make([][]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := range perCaller {
				id, err := next(i, k)
				if err != nil {
					t.Error(err)
					return
				}
				all[i] = append(all[i], id)
			}
		}()
	}
	wg.Wait()
	return all
}

// unique fails if an ID is there twice.
func unique(t *testing.T, all [][]string) {
	t.Helper()
	seen := map[string]bool{}
	for _, ids := range all {
		for _, id := range ids {
			if seen[id] {
				t.Errorf("%s was given out twice", id)
			}
			seen[id] = true
		}
	}
}

// The token goes to the addresses of the configuration, and nowhere else: not after a redirect, not
// into an error, an event or a log.
func TestTokenStaysHere(t *testing.T) {
	const token = "seqd_hidden"
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(io.Discard)
	elsewhere := start(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was asked for %s with %q", r.Host, r.URL, r.Header)
	}))
	var got []string
	var mirrors int
	node := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/seq/redirected":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/seq/mirrored": // shows what it was sent
			mirrors++
			refuse(w, 401, "unauthorized", "I do not like "+r.Header.Get("Authorization"))
		case "/seq/page":
			w.Header().Set("Content-Type", "text/html; x="+token)
			_, _ = io.WriteString(w, r.Header.Get("Authorization"))
		}
	}))
	var events []Event
	c := dial(t, Config{Addrs: []string{node.URL}, Token: token, Wait: -1, Observe: func(e Event) { events = append(events, e) }})
	for _, bizType := range []string{"redirected", "mirrored", "page"} {
		_, err := c.Next(context.Background(), bizType)
		if err == nil {
			t.Fatalf("%s: no error", bizType)
		}
		if text := fmt.Sprintf("%v %+v %#v", err, err, asError(err)); strings.Contains(text, "hidden") {
			t.Errorf("%s: %s", bizType, text)
		}
	}
	if strings.Join(got, ",") != "Bearer seqd_hidden,Bearer seqd_hidden,Bearer seqd_hidden" || mirrors != 1 {
		t.Errorf("the node got %q", got)
	}
	if text := fmt.Sprintf("%+v", events); strings.Contains(text, "hidden") {
		t.Error(text)
	}
	if strings.Contains(logged.String(), "hidden") {
		t.Error(logged.String())
	}
}

// Answers are read to their end, so that one connection serves one caller, whatever it is told.
func TestConnectionsAreKept(t *testing.T) {
	s := newService()
	var conns atomic.Int64
	node := httptest.NewUnstartedServer(s)
	node.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	node.Start()
	defer node.Close()
	c := dial(t, Config{Addrs: []string{node.URL}, Wait: -1})
	ctx := context.Background()
	for range 20 {
		_, _ = c.Next(ctx, "order")
		_, _ = c.NextN(ctx, "order", 1000)
		_, _ = c.NextN(ctx, "order", 20_000) // refused
		_, _ = c.AppendText(ctx, nil, "order", 5000)
		_, _ = c.Parse(ctx, "order", "7") // refused
	}
	// net/http gives a connection up if it learns late that the request was written, as on a busy machine
	if n := conns.Load(); n > 15 {
		t.Errorf("%d connections", n)
	}
}

// A slow node holds up the calls to it only until they time out.
func TestSlowNode(t *testing.T) {
	noLeaks(t)
	s := newService()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	quick := httptest.NewServer(s)
	defer quick.Close()
	defer slow.Close()
	c := dial(t, Config{Addrs: []string{slow.URL, quick.URL}, Timeout: 50 * time.Millisecond, Wait: patience})
	defer c.CloseIdleConnections()
	// the quick one may be late too, and is then asked again
	if id, err := c.Next(context.Background(), "order", IdempotencyKey("k")); err != nil || id != "0" {
		t.Errorf("got %q, %v", id, err)
	}
}

// late is a context whose deadline passes when over is closed.
type late struct {
	context.Context
	over chan struct{}
}

func (l late) Done() <-chan struct{} { return l.over }

func (l late) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Of connections that a network has swallowed only one is waited for.
func TestSwallowedConnections(t *testing.T) {
	noLeaks(t)
	given := newTransport(time.Hour)
	defer given.CloseIdleConnections()
	for name, test := range map[string]struct {
		transport http.RoundTripper
		caller    bool // has less time than the client
	}{
		"the client's transport": {}, "another transport": {transport: given}, "a caller with less time": {caller: true},
	} {
		t.Run(name, func(t *testing.T) {
			const callers = 8
			s := newService()
			var asked sync.WaitGroup
			var seen sync.Map // addresses of connections
			var swallows atomic.Bool
			var swallowed atomic.Int64
			patience := late{t.Context(), make(chan struct{})}
			over := sync.OnceFunc(func() { close(patience.over) })
			node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch _, old := seen.LoadOrStore(r.RemoteAddr, nil); {
				case !swallows.Load():
					asked.Done()
					asked.Wait()
				case old:
					swallowed.Add(1)
					over()
					<-r.Context().Done()
					return
				}
				s.ServeHTTP(w, r)
			}))
			defer node.Close()
			c := dial(t, Config{Addrs: []string{node.URL}, Timeout: time.Hour, Wait: time.Hour, Transport: test.transport})
			defer c.CloseIdleConnections()
			asked.Add(callers)
			var answered sync.WaitGroup
			answered.Add(callers)
			for range callers {
				go func() { defer answered.Done(); _, _ = c.Next(t.Context(), "order") }()
			}
			answered.Wait()
			swallows.Store(true)
			if test.caller {
				_, _ = c.Next(patience, "order")
			} else {
				c.timeout = 50 * time.Millisecond
			}
			if _, err := c.Next(t.Context(), "order", IdempotencyKey("k")); err != nil || swallowed.Load() > 1 {
				t.Errorf("%d requests on swallowed connections, then %v", swallowed.Load(), err)
			}
		})
	}
}

// All requests share a connection of HTTP/2, and net/http keeps it after a time-out.
func TestSwallowedHTTP2(t *testing.T) {
	node := httptest.NewUnstartedServer(newService())
	node.EnableHTTP2 = true
	node.StartTLS()
	defer node.Close()
	var era atomic.Int64 // connections of an earlier one are swallowed
	transport := newTransport(time.Second)
	transport.TLSClientConfig = node.Client().Transport.(*http.Transport).TLSClientConfig
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &mortal{c, &era, era.Load()}, err
	}
	c := dial(t, Config{Addrs: []string{node.URL}, Timeout: time.Second, Wait: patience, Transport: transport})
	defer transport.CloseIdleConnections()
	for range 2 {
		if _, err := c.Next(t.Context(), "order", IdempotencyKey(NewIdempotencyKey())); err != nil {
			t.Fatalf("after the connections were swallowed: %v", err)
		}
		era.Add(1)
	}
}

// mortal is a connection that is swallowed when its era ends.
type mortal struct {
	net.Conn
	era *atomic.Int64
	own int64
}

func (m *mortal) Read(p []byte) (int, error) {
	for {
		n, err := m.Conn.Read(p)
		if err != nil || m.era.Load() == m.own {
			return n, err
		}
	}
}

func (m *mortal) Write(p []byte) (int, error) {
	if m.era.Load() != m.own {
		return len(p), nil
	}
	return m.Conn.Write(p)
}

// A request without an answer because nothing listens was certainly not carried out.
func TestNothingListens(t *testing.T) {
	const addr = "http://127.0.0.1:1"
	c := dial(t, Config{Addrs: []string{addr}, Wait: -1})
	_, err := c.Do(context.Background(), Request{Method: "DELETE", Path: "/biz-types/order"})
	if e := asError(err); !errors.Is(err, ErrUnreachable) || e.Unknown || e.Addr != addr {
		t.Errorf("got %+v", e)
	}
}

func TestPathBeforeRoutes(t *testing.T) {
	s := newService()
	node := start(t, http.StripPrefix("/ids", s))
	c := dial(t, Config{Addrs: []string{node.URL + "/ids/"}})
	if id, err := c.Next(context.Background(), "order"); err != nil || id != "0" {
		t.Errorf("got %q, %v", id, err)
	}
}
