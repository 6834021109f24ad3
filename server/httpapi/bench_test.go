package httpapi_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/server/httpapi"
)

// reusable is a ResponseWriter that allocates nothing and keeps what tests look at.
type reusable struct {
	header http.Header
	status int
	bytes  int
}

func (w *reusable) Header() http.Header         { return w.header }
func (w *reusable) WriteHeader(status int)      { w.status = status }
func (w *reusable) Write(p []byte) (int, error) { w.bytes = len(p); return len(p), nil }

// allocations returns how many allocations h makes for one successful request, and the size of its
// answer.
func allocations(t *testing.T, h http.Handler, target string) (perRun float64, bytes int) {
	t.Helper()
	r := must.Get(newRequest("GET", target))(t)
	w := &reusable{header: make(http.Header)}
	perRun = must.Allocs(1000, func() {
		clear(w.header)
		h.ServeHTTP(w, r)
	})
	if w.status != http.StatusOK {
		t.Fatalf("status is %d", w.status)
	}
	return perRun, w.bytes
}

func TestAllocations(t *testing.T) {
	// All numbers have the same length, so that the answers are as long as the constant one.
	ours, size := allocations(t, newAPI(t, define("order", newCounter(1_000_000))), "/seq/order")

	constant := []byte(`{"bizType":"order","id":"1000000"}` + "\n")
	contentType := []string{jsonType}
	bare := gin.New()
	bare.GET("/seq/:bizType", func(c *gin.Context) {
		c.Writer.Header()["Content-Type"] = contentType
		c.Writer.WriteHeader(http.StatusOK)
		_, _ = c.Writer.Write(constant)
	})
	base, baseSize := allocations(t, bare, "/seq/order")

	if size != baseSize {
		t.Errorf("the answers have %d and %d bytes, want the same", size, baseSize)
	}
	if !racing.On && ours > base+2 {
		t.Errorf("one ID costs %v allocations, a bare route %v: want at most 2 more", ours, base)
	}
}

func benchmarkIssue(b *testing.B, target string, definition issuer.Definition, change ...func(*httpapi.API)) {
	api := newAPI(b, definition)
	for _, f := range change {
		f(api)
	}
	r := must.Get(newRequest("GET", target))(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		w, r := &reusable{header: make(http.Header)}, r.Clone(b.Context())
		for pb.Next() {
			clear(w.header)
			api.ServeHTTP(w, r)
		}
		if w.status != http.StatusOK && w.status != 0 { // 0: this goroutine did not run
			b.Errorf("status is %d", w.status)
		}
	})
}

func BenchmarkIssue(b *testing.B) { benchmarkIssue(b, "/seq/order", define("order", newCounter(1))) }

func BenchmarkIssueBatch10000(b *testing.B) {
	benchmarkIssue(b, "/seq/order?count=10000", define("order", newCounter(1)))
}

// newLogged returns an API with an access log of so many lines a second, which go nowhere; 0 means
// a line for each request.
func newLogged(tb testing.TB, perSecond int, level slog.Level) *httpapi.API {
	tb.Helper()
	api := newStarting(tb, func(o *options) {
		o.AccessLog, o.AccessLogPerSecond = "on", perSecond
		o.Log = slog.New(slog.NewJSONHandler(io.Discard, &slog.HandlerOptions{Level: level}))
	})
	issuer := newIssuer(tb, define("order", newCounter(1_000_000)))
	issuer.Init(tb.Context())
	ready(api, issuer)
	return api
}

// A line allocates what has no room in a slog.Record, and its duration, unless that is below 1 µs.
func TestAllocationsOfALogLine(t *testing.T) {
	without, _ := allocations(t, newLogged(t, 0, slog.LevelWarn), "/seq/order")
	with, _ := allocations(t, newLogged(t, 0, slog.LevelInfo), "/seq/order")
	if !racing.On && with > without+2 {
		t.Errorf("a line of the access log costs %v allocations, want at most 2", with-without)
	}
}

// ExampleAPI requests one number and several, as JSON and as text.
func ExampleAPI() {
	issuer, err := issuer.New([]issuer.Definition{define("order", newCounter(100))}, issuer.Options{})
	if err != nil {
		panic(err)
	}
	api := newStarting(exampleTB{})
	ready(api, issuer)

	for _, request := range []struct{ target, accept string }{
		{"/seq/order", "*/*"}, {"/seq/order?count=3", "*/*"}, {"/seq/order?count=2", "text/plain"},
	} {
		r := httptest.NewRequest("GET", "http://localhost"+request.target, nil)
		r.Header.Set("Accept", request.accept)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Print(w.Body)
	}
	// Output:
	// {"bizType":"order","id":"100"}
	// {"bizType":"order","ids":["101","102","103"]}
	// 104
	// 105
}

// exampleTB is the part of testing.TB that the helpers need outside a test.
type exampleTB struct{ testing.TB }

func (exampleTB) Helper()           {}
func (exampleTB) Fatal(args ...any) { panic(fmt.Sprint(args...)) }
