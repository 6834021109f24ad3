package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	service "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/server/tracing"
	"github.com/seqd/seqd/server/tracing/tracingtest"
)

// newTracing returns a Tracing with a collector, and a function that closes it and returns the
// spans that arrived. It is for tests with a fake clock.
func newTracing(t *testing.T, ratio float64) (*tracing.Tracing, func() []tracingtest.Span) {
	t.Helper()
	var collector tracingtest.Collector
	tr := newTracingTo(t, &collector, ratio, slog.New(slog.DiscardHandler))
	return tr, func() []tracingtest.Span {
		t.Helper()
		closeIn(tr, time.Second)
		must.Equal(t, tr.Dropped(), 0, "the spans dropped")
		return collector.Spans()
	}
}

// roundTrip is a collector without a port.
type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newTracingTo(t *testing.T, collector http.RoundTripper, ratio float64, log *slog.Logger) *tracing.Tracing {
	t.Helper()
	tr := must.Get(tracing.New(tracing.Options{Endpoint: "http://collector/", Ratio: ratio, Version: "v1", Instance: "127.0.0.1:1", Log: log, Transport: collector}))(t)
	t.Cleanup(func() { closeIn(tr, time.Second) })
	return tr
}

func closeIn(tr *tracing.Tracing, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tr.Close(ctx)
}

// begin begins and ends the span of a request, and reports whether the request is traced.
func begin(tr *tracing.Tracing, traceparent ...string) bool {
	r := httptest.NewRequest("GET", "/seq/order", nil)
	for _, value := range traceparent {
		r.Header.Add("Traceparent", value)
	}
	_, span := tr.Begin(r)
	if span == nil {
		return false
	}
	span.End()
	return true
}

const (
	callersTrace = "0af7651916cd43dd8448eb211c80319c"
	callersSpan  = "b7ad6b7169203331"
	sampled      = "00-" + callersTrace + "-" + callersSpan + "-01"
	unsampled    = "00-" + callersTrace + "-" + callersSpan + "-00"
)

func TestSampling(t *testing.T) {
	for _, tt := range []struct {
		name        string
		ratio       float64
		traceparent []string
		want        bool
	}{
		{"none of them", 0, nil, false},
		{"all of them", 1, nil, true},
		{"the caller traces it", 0, []string{sampled}, true},
		{"the caller does not", 1, []string{unsampled}, false},
		{"unreadable, as if there were none", 1, []string{"00-x-y-01"}, true},
		{"unreadable, and none without", 0, []string{"00-x-y-01"}, false},
		{"two, as if there were none", 0, []string{sampled, sampled}, false},
		{"an ID of zeros", 0, []string{"00-" + strings.Repeat("0", 32) + "-" + callersSpan + "-01"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr, spans := newTracing(t, tt.ratio)
				must.Equal(t, begin(tr, tt.traceparent...), tt.want, "traced")
				must.Equal(t, len(spans()) == 1, tt.want, "one span arrived")
			})
		})
	}
}

func TestRatio(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, _ := newTracing(t, 0.2)
		n := 0
		for range 10_000 {
			if begin(tr) {
				n++
			}
		}
		// The expected number is 2000, with a standard deviation of 40.
		if n < 1700 || n > 2300 {
			t.Errorf("%d of 10000 were traced, want about 2000", n)
		}
	})
}

func TestWhatASpanSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, spans := newTracing(t, 0)
		begin(tr, sampled)
		got := spans()[0]
		if got.TraceID != callersTrace || got.ParentID != callersSpan || got.Kind != "SPAN_KIND_SERVER" {
			t.Errorf("%+v is not a part of the caller's trace", got)
		}
		for key, want := range map[string]string{"service.name": "seqd", "service.version": "v1", "service.instance.id": "127.0.0.1:1"} {
			must.Equal(t, got.Resource[key], want, "%s", key)
		}
	})
}

// TestTracestateIsNotTold checks that spans do not contain the tracestate, in which a caller can
// write anything.
func TestTracestateIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, spans := newTracing(t, 0)
		r := httptest.NewRequest("GET", "/seq/order", nil)
		r.Header.Set("Traceparent", sampled)
		r.Header.Set("Tracestate", "vendor=secret")
		ctx, span := tr.Begin(r)
		_ = tr.RedisHook().ProcessHook(func(context.Context, redis.Cmder) error { return nil })(ctx, redis.NewCmd(ctx, "get", "x"))
		span.End()
		got := spans()
		if len(got) != 2 {
			t.Fatalf("%d spans came, want 2", len(got))
		}
		for _, s := range got {
			if s.TraceID != callersTrace || s.State != "" {
				t.Errorf("%+v is not in the caller's trace, or has its tracestate", s)
			}
		}
	})
}

// TestCallersCannotForceIt checks the limit on requests that are traced because their callers say
// so.
func TestCallersCannotForceIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTracingTo(t, &tracingtest.Collector{}, 0, slog.New(slog.DiscardHandler))
		for second := range 3 {
			n := 0
			for range 10 * tracing.FollowedPerSecond {
				if begin(tr, sampled) {
					n++
				}
			}
			must.Equal(t, n, tracing.FollowedPerSecond, "the calls traced in second %d", second)
			time.Sleep(time.Second)
		}
		closeIn(tr, time.Second)
	})
}

// TestCollectorFails uses a collector that refuses. Each span is counted, and the log says once
// that sending fails and once that it works again.
func TestCollectorFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var collector tracingtest.Collector
		var mu sync.Mutex
		broken := true
		unsteady := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if broken {
				http.Error(w, "not now", http.StatusServiceUnavailable)
				return
			}
			collector.ServeHTTP(w, r)
		})
		var log testlog.Text
		tr := newTracingTo(t, roundTrip(func(r *http.Request) (*http.Response, error) { return tracingtest.Handled(unsteady, r), nil }), 1, slog.New(slog.NewJSONHandler(&log, nil)))
		for range 1024 { // two full batches are sent at once
			begin(tr)
		}
		synctest.Wait()
		must.Equal(t, tr.Dropped(), 1024, "the spans dropped")
		mu.Lock()
		broken = false
		mu.Unlock()
		for range 512 {
			begin(tr)
		}
		synctest.Wait()
		must.Equal(t, len(collector.Spans()), 512, "the spans that arrived at once, the whole batch,")
		closeIn(tr, time.Second)
		if log.Count("traces cannot be sent") != 1 || log.Count("traces are sent again") != 1 || tr.Dropped() != 1024 {
			t.Errorf("%d were dropped; logged %s", tr.Dropped(), log.String())
		}
	})
}

// TestCollectorHangs uses a collector that never answers. The spans that find no room are counted,
// and Close returns in time.
func TestCollectorHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		tr := newTracingTo(t, hangs, 1, slog.New(slog.DiscardHandler))
		const most = 4096 // spans that wait
		for range 3 * most {
			begin(tr)
		}
		must.Equal(t, tr.Dropped(), 2*most, "the spans dropped")
		began := time.Now()
		closeIn(tr, 50*time.Millisecond)
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("the end took %s", took)
		}
		synctest.Wait()
		must.Equal(t, tr.Dropped(), 3*most, "the spans dropped, all of them as nothing is being sent any more,")
	})
}

// TestRedisHook checks that a span belongs to a request, contains only the name of the command, and
// is marked if the command fails.
func TestRedisHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, spans := newTracing(t, 1)
		secret := errors.New("secret")
		hook := tr.RedisHook()
		var answer error
		var sent []redis.Cmder
		process := hook.ProcessHook(func(_ context.Context, cmd redis.Cmder) error {
			sent = append(sent, cmd)
			return answer
		})
		pipeline := hook.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { return answer })
		untraced := context.Background()
		must.Do(t, process(untraced, redis.NewCmd(untraced, "get", "secret")))
		ctx, request := tr.Begin(httptest.NewRequest("GET", "/seq/order", nil))
		tests := []struct {
			err  error
			kind string
		}{{nil, ""}, {redis.Nil, ""}, {serverError("NOSCRIPT No secret"), ""}, {serverError("OOM secret"), "OOM"}, {serverError("secret"), "error"}, {secret, "connection"}, {context.DeadlineExceeded, "timeout"}, {context.Canceled, "canceled"}}
		for _, tt := range tests {
			answer, sent = tt.err, nil
			cmd := redis.NewCmd(ctx, "EVALSHA", "secret")
			must.Equal(t, process(ctx, cmd), tt.err, "the error")
			// a copy might lose the mark that forbids to repeat it
			if len(sent) != 1 || sent[0] != redis.Cmder(cmd) {
				t.Errorf("%v: sent %v, want the command itself, once", tt.err, sent)
			}
		}
		answer = nil
		must.Report(t, pipeline(ctx, []redis.Cmder{redis.NewCmd(ctx, "get", "secret"), redis.NewCmd(ctx, "get", "secret")}))
		request.End()
		got := spans()
		if len(got) != len(tests)+2 {
			t.Fatalf("%d spans arrived, want %d", len(got), len(tests)+2)
		}
		root := got[len(got)-1]
		for i, tt := range tests {
			s := got[i]
			if s.Name != "evalsha" || s.ParentID != root.ID || s.Attributes["db.system.name"] != "redis" || s.Attributes["error.type"] != tt.kind || s.Failed != (tt.kind != "") {
				t.Errorf("%v: %+v", tt.err, s)
			}
		}
		if s := got[len(tests)]; s.Name != "pipeline" || s.ParentID != root.ID || s.Attributes["db.operation.batch.size"] != "2" {
			t.Errorf("the pipeline: %+v", s)
		}
		mustNotTell(t, got, "secret")
	})
}

// serverError is an error of a Redis server.
type serverError string

func (r serverError) Error() string { return string(r) }
func (serverError) RedisError()     {}

// mustNotTell checks that no span contains a text.
func mustNotTell(t *testing.T, spans []tracingtest.Span, text string) {
	t.Helper()
	for _, s := range spans {
		for key, value := range s.Attributes {
			if strings.Contains(value, text) || strings.Contains(s.Name, text) {
				t.Errorf("%s tells %s: %q", s.Name, key, value)
			}
		}
	}
}

// A command of a traced request gets a span with what it says of itself and the kind of its error,
// and nothing of what it contains.
func TestCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, spans := newTracing(t, 1)
		command := driver.Command{System: "mongodb", Operation: "find", Database: "seqd", Collection: "counters"}
		if tr.Command(context.Background(), command) != nil {
			t.Error("a command of no request is traced")
		}
		ctx, request := tr.Begin(httptest.NewRequest("GET", "/seq/order", nil))
		secret := errors.New("secret")
		for _, err := range []error{nil, secret, context.DeadlineExceeded} {
			tr.Command(ctx, command)(err, "11000")
		}
		tr.Command(ctx, driver.Command{System: "postgresql", Operation: "allocate"})(nil, "")
		request.End()
		got := spans()
		if len(got) != 5 {
			t.Fatalf("%d spans arrived, want 5", len(got))
		}
		for i, kind := range []string{"", "11000", "timeout"} {
			s := got[i]
			if s.Name != "find counters" || s.ParentID != got[4].ID || s.Attributes["db.system.name"] != "mongodb" || s.Attributes["db.namespace"] != "seqd" ||
				s.Attributes["error.type"] != kind || s.Failed != (kind != "") {
				t.Errorf("%+v, want the error type %q", s, kind)
			}
		}
		if _, named := got[3].Attributes["db.namespace"]; got[3].Name != "allocate" || named {
			t.Errorf("%+v", got[3])
		}
		mustNotTell(t, got, "secret")
	})
}

// TestWrongHeaders checks that unreadable headers are an error at the start, and that nothing shows
// the secrets in them.
func TestWrongHeaders(t *testing.T) {
	for name, list := range map[string]string{
		"an escape": "authorization=Bearer%zzsecret", "no value": "secret", "no name": "=secret", "a bad name": "my secret=x", "a second one": "a=b,secret",
		"two lines": "authorization=secret%0A",
	} {
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
			t.Run(name+" "+variable, func(t *testing.T) {
				t.Setenv(variable, list)
				_, err := tracing.New(tracing.Options{Endpoint: "http://127.0.0.1:1", Log: slog.New(slog.DiscardHandler)})
				if err == nil || !strings.Contains(err.Error(), variable) || strings.Contains(err.Error(), "secret") {
					t.Errorf("it ends with %v, want an error that names the variable and not the secret", err)
				}
			})
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", " authorization=Bearer%20secret%3D , x-tenant=a=b ")
	synctest.Test(t, headers)
}

func headers(t *testing.T) {
	var got http.Header
	noting := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() })
	tr := newTracingTo(t, roundTrip(func(r *http.Request) (*http.Response, error) { return tracingtest.Handled(noting, r), nil }), 1, slog.New(slog.DiscardHandler))
	begin(tr)
	closeIn(tr, time.Second)
	if got.Get("Authorization") != "Bearer secret=" || got.Get("X-Tenant") != "a=b" {
		t.Errorf("the collector got %v", got)
	}
}

// What a collector refuses of a batch is counted, and a path of the endpoint stays.
func TestPartOfABatchIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		partly := roundTrip(func(r *http.Request) (*http.Response, error) {
			answer := must.Get(proto.Marshal(&service.ExportTraceServiceResponse{PartialSuccess: &service.ExportTracePartialSuccess{RejectedSpans: 2}}))(t)
			must.Equal(t, r.URL.String(), "http://collector/by/path", "spans went to")
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(answer))}, nil
		})
		tr := must.Get(tracing.New(tracing.Options{Endpoint: "http://collector/by/path/", Ratio: 1, Log: slog.New(slog.DiscardHandler), Transport: partly}))(t)
		for range 5 {
			begin(tr)
		}
		if closeIn(tr, time.Second); tr.Dropped() != 2 {
			t.Errorf("%d of 5 spans count as lost, want the 2 that the collector refused", tr.Dropped())
		}
	})
}

// A pipeline has failed if any of its commands has; what the client or the caller does again is no
// failure.
func TestPipelineErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr, spans := newTracing(t, 1)
		pipeline := tr.RedisHook().ProcessPipelineHook(func(_ context.Context, cmds []redis.Cmder) error {
			cmds[0].SetErr(serverError("NOSCRIPT No script"))
			cmds[1].SetErr(serverError("OOM command not allowed"))
			return cmds[0].Err()
		})
		ctx, request := tr.Begin(httptest.NewRequest("GET", "/seq/order", nil))
		_ = pipeline(ctx, []redis.Cmder{redis.NewCmd(ctx, "get", "a"), redis.NewCmd(ctx, "get", "b")})
		request.End()
		if s := spans()[0]; s.Name != "pipeline" || !s.Failed {
			t.Errorf("a pipeline with an error: %+v", s)
		}
	})
}
