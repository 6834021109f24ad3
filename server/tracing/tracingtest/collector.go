// Package tracingtest provides a trace collector for tests. It accepts OTLP over HTTP and keeps the
// spans.
package tracingtest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"

	collector "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is what tests look at in a span.
type Span struct {
	Name, TraceID, ID, ParentID string // IDs are in hex; ParentID is "" for a root
	Kind                        string // such as SPAN_KIND_SERVER
	Failed                      bool
	State                       string // the tracestate
	// Attributes belong to the span, Resource to the service. Numbers are formatted as text.
	Attributes, Resource map[string]string
	Links                []string // the IDs of spans
}

// Collector is an [http.Handler] that accepts traces at /v1/traces. It is safe for concurrent use.
type Collector struct {
	mu    sync.Mutex // guards spans
	spans []Span
}

var (
	_ http.Handler      = (*Collector)(nil)
	_ http.RoundTripper = (*Collector)(nil)
)

// ServeHTTP implements [http.Handler].
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
		http.Error(w, "this is no trace", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spans = append(c.spans, spansOf(&request)...)
}

// RoundTrip implements [http.RoundTripper], for a collector without a port.
func (c *Collector) RoundTrip(r *http.Request) (*http.Response, error) { return Handled(c, r), nil }

// Handled returns what a handler answers to a request.
func Handled(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// Spans returns the spans that have arrived.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

func spansOf(request *collector.ExportTraceServiceRequest) (spans []Span) {
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			for _, s := range scope.Spans {
				span := Span{
					Name: s.Name, TraceID: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), ParentID: hex.EncodeToString(s.ParentSpanId),
					Kind: s.Kind.String(), State: s.TraceState, Failed: s.Status.GetCode() == 2, Attributes: texts(s.Attributes), Resource: texts(of.Resource.GetAttributes()),
				}
				for _, link := range s.Links {
					span.Links = append(span.Links, hex.EncodeToString(link.SpanId))
				}
				spans = append(spans, span)
			}
		}
	}
	return spans
}

func texts(attributes []*common.KeyValue) map[string]string {
	m := make(map[string]string, len(attributes))
	for _, a := range attributes {
		switch v := a.Value.GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.Key] = strconv.FormatInt(v.IntValue, 10)
		default:
			m[a.Key] = a.Value.String()
		}
	}
	return m
}
