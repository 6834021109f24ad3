package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/server/metrics"
)

// tallied is a Metrics that counts requests by route, method and status.
type tallied struct {
	mu     sync.Mutex
	counts map[string]int
	fails  error
	// entered and release, if not nil, block every scrape.
	entered, release chan struct{}
}

func (m *tallied) Route(pattern string) func(string, int, time.Duration) {
	return func(method string, status int, took time.Duration) {
		if took < 0 {
			panic("no time")
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.counts == nil {
			m.counts = make(map[string]int)
		}
		m.counts[fmt.Sprintf("%s %s %d", method, pattern, status)]++
	}
}

func (m *tallied) Exposition(form string, compressed bool) ([]byte, string, error) {
	if m.entered != nil {
		m.entered <- struct{}{}
		<-m.release
	}
	body := fmt.Appendf(nil, "openMetrics=%v\n", form == httpapi.OpenMetrics)
	if compressed {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(body)
		_ = z.Close()
		body = b.Bytes()
	}
	return body, "text/plain; version=0.0.4", m.fails
}

// measuring returns a starting API with metrics.
func measuring(t *testing.T, m httpapi.Metrics, change ...func(*options)) *httpapi.API {
	t.Helper()
	return newStarting(t, append(change, func(o *options) { o.Metrics = m })...)
}

// TestRequestsAreCounted checks that each request is counted once, by its route and the status of
// its answer.
func TestRequestsAreCounted(t *testing.T) {
	m := &tallied{}
	api := measuring(t, m, func(o *options) { o.Guard = nil })
	want := make(map[string]int)
	send := func(method, target, counted string, headers ...string) {
		do(t, api, method, target, headers...)
		want[counted]++
	}
	send("GET", "/seq/order", "GET /seq/{bizType} 503")
	panics := newCounter(1)
	panics.generate = func() error { return nil }
	issuer := newIssuer(t, define("order", newCounter(1)), define("full", panics))
	issuer.Init(t.Context())
	panics.generate = func() error { return seqd.Errorf(seqd.CodeExhausted, "no") }
	ready(api, issuer)
	send("GET", "/seq/order", "GET /seq/{bizType} 200")
	send("GET", "/seq/order?count=3", "GET /seq/{bizType} 200")
	send("POST", "/seq/order", "POST /seq/{bizType} 200")
	send("GET", "/seq/full", "GET /seq/{bizType} 409")
	send("GET", "/seq/nobody", "GET /seq/{bizType} 404")
	send("GET", "/seq/order/parse/7", "GET /seq/{bizType}/parse/{id} 200")
	send("GET", "/seq/order/parse/x", "GET /seq/{bizType}/parse/{id} 400")
	send("DELETE", "/seq/order", "DELETE none 405")
	send("BREW", "/nowhere", "BREW none 404")
	send("HEAD", "/healthz", "HEAD /healthz 200")
	send("GET", "/readyz", "GET /readyz 200")
	send("GET", "/metrics", "GET /metrics 200")
	send("GET", "/seq/"+strings.Repeat("x", 5000), "GET /seq/{bizType} 414")
	if !maps.Equal(m.counts, want) {
		t.Errorf("counted %v, want %v", m.counts, want)
	}
}

// TestPanicsAreCounted checks that a request whose handler panics is counted with the status of its
// answer.
func TestPanicsAreCounted(t *testing.T) {
	m := &tallied{}
	do(t, measuring(t, &panicking{tallied: m}), "GET", "/metrics")
	if want := map[string]int{"GET /metrics 500": 1}; !maps.Equal(m.counts, want) {
		t.Errorf("counted %v, want %v", m.counts, want)
	}
}

type panicking struct{ *tallied }

func (*panicking) Exposition(string, bool) ([]byte, string, error) { panic("metrics") }

// TestMetricsForms checks which form a scrape gets.
func TestMetricsForms(t *testing.T) {
	const prometheus = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
	for _, tt := range []struct {
		headers    []string
		open, gzip bool
	}{
		{nil, false, false},
		{[]string{"Accept: */*"}, false, false},
		{[]string{prometheus, "Accept-Encoding: gzip"}, true, true},
		{[]string{"Accept: application/openmetrics-text;q=0.2, text/plain;q=0.3"}, false, false},
		{[]string{"Accept-Encoding: deflate, GZIP;q=0.1"}, false, true},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			w := do(t, measuring(t, &tallied{}), method, "/metrics", tt.headers...)
			var body io.Reader = w.Body
			if tt.gzip != (w.Header().Get("Content-Encoding") == "gzip") {
				t.Fatalf("%q: Content-Encoding is %q", tt.headers, w.Header().Get("Content-Encoding"))
			}
			if tt.gzip {
				z := must.Get(gzip.NewReader(body))(t)
				body = z
			}
			got, err := io.ReadAll(body)
			if want := fmt.Sprintf("openMetrics=%v\n", tt.open); err != nil || w.Code != 200 || string(got) != want {
				t.Errorf("%q: %d %q %v, want %q", tt.headers, w.Code, got, err, want)
			}
			if h := w.Header(); h.Get("Cache-Control") != "no-store" || h.Get("Vary") != "Accept, Accept-Encoding" {
				t.Errorf("headers %v", h)
			}
		}
	}
	wantProblem(t, do(t, measuring(t, &tallied{fails: errors.New("no")}), "GET", "/metrics"), 500, "internal")
	wantProblem(t, do(t, measuring(t, &tallied{}), "POST", "/metrics"), 405, "method_not_allowed")
	wantProblem(t, do(t, newStarting(t), "GET", "/metrics"), 404, "not_found")
}

// TestMetricsUnderLoad checks that metrics are shown under overload and while the service stops,
// and that scrapes take no places from requests and have a limit of their own.
func TestMetricsUnderLoad(t *testing.T) {
	const most = 64
	m := &tallied{entered: make(chan struct{}, most), release: make(chan struct{})}
	held := newCounter(1)
	entered, release := make(chan struct{}), make(chan struct{})
	api := measuring(t, m, func(o *options) { o.MaxInFlight = 1 })
	issuer := newIssuer(t, define("order", held))
	issuer.Init(t.Context())
	held.generate = func() error { entered <- struct{}{}; <-release; return nil }
	ready(api, issuer)
	api.Gate().Drain()

	var all sync.WaitGroup
	all.Go(func() { do(t, api, "GET", "/seq/order") })
	<-entered
	wantProblem(t, do(t, api, "GET", "/seq/order"), 503, "overloaded")
	for range most {
		all.Go(func() {
			must.Equal(t, do(t, api, "GET", "/metrics").Code, 200, "a scrape under load gets")
		})
	}
	for range most {
		<-m.entered
	}
	wantProblem(t, do(t, api, "GET", "/metrics"), 503, "overloaded")
	must.Equal(t, api.Load(), (httpapi.Load{InFlight: 1, Shed: 1}), "the load")
	close(m.release)
	close(release)
	all.Wait()
	must.Equal(t, api.Load(), (httpapi.Load{Shed: 1}), "at the end the load")
}

// TestAllocationsWithMetrics checks that counting costs no allocation.
func TestAllocationsWithMetrics(t *testing.T) {
	m := metrics.New(metrics.Options{MaxBizTypes: 1})
	issuer := must.Get(issuer.New([]issuer.Definition{define("order", newCounter(1_000_000))}, issuer.Options{Observer: m}))(t)
	issuer.Init(t.Context())
	api := measuring(t, m)
	ready(api, issuer)
	with, _ := allocations(t, api, "/seq/order")
	without, _ := allocations(t, newAPI(t, define("order", newCounter(1_000_000))), "/seq/order")
	if !racing.On && with > without {
		t.Errorf("one ID costs %v allocations with metrics, %v without", with, without)
	}
}

// TestCountedRoutes checks that every route is counted under a path of the description.
func TestCountedRoutes(t *testing.T) {
	m := &routes{}
	api := measuring(t, m)
	var served []string
	for _, r := range api.Routes() {
		served = append(served, r.Path)
	}
	slices.Sort(served)
	slices.Sort(m.patterns)
	if want := slices.Compact(append(served, httpapi.NoRoute)); !slices.Equal(sorted(m.patterns), sorted(want)) {
		t.Errorf("counted by %q, want %q", m.patterns, want)
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

type routes struct {
	tallied
	patterns []string
}

func (r *routes) Route(pattern string) func(string, int, time.Duration) {
	r.patterns = append(r.patterns, pattern)
	return func(string, int, time.Duration) {}
}

var _ http.Handler = (*httpapi.API)(nil)
