package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	service "go.opentelemetry.io/proto/slim/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"
	wire "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// tracesPath is where a collector takes spans, as OTLP says.
const tracesPath = "/v1/traces"

// largestAnswer bounds what is read of a collector's answer, in bytes.
const largestAnswer = 64 << 10

// collector is where spans go: OTLP over HTTP, as protobuf. The exporter of the OpenTelemetry SDK
// does the same, and brings gRPC with 80 packages.
type collector struct {
	client *http.Client
	url    string
	header http.Header
}

// newCollector returns the collector at an endpoint, an http or https URL.
func newCollector(endpoint string, client *http.Client) (*collector, error) {
	u, err := url.Parse(strings.TrimSuffix(endpoint, "/"))
	if err != nil {
		return nil, err
	}
	if u.Path == "" {
		u.Path = tracesPath
	}
	header, err := headers()
	if err != nil {
		return nil, err
	}
	header.Set("Content-Type", "application/x-protobuf")
	return &collector{client: client, url: u.String(), header: header}, nil
}

// headers returns the headers for the collector from the environment. The variable for traces
// counts more than the one for all signals.
func headers() (http.Header, error) {
	header := make(http.Header)
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		list := strings.TrimSpace(os.Getenv(name))
		if list == "" {
			continue
		}
		for one := range strings.SplitSeq(list, ",") {
			key, value, found := strings.Cut(one, "=")
			key = strings.TrimSpace(key)
			value, err := url.PathUnescape(strings.TrimSpace(value))
			// The list is not shown: values are secrets.
			if !found || err != nil || key == "" || strings.ContainsFunc(key, notInName) || strings.ContainsAny(value, "\r\n\x00") {
				return nil, fmt.Errorf("%s is not name=value,name=value with values escaped as in a URL", name)
			}
			header.Set(key, value)
		}
	}
	return header, nil
}

// notInName reports whether a rune cannot stand in the name of a header.
func notInName(r rune) bool {
	return r <= ' ' || r >= 127 || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// post sends spans. It returns how many of them the collector did not take, and why. It tries once.
func (c *collector) post(ctx context.Context, spans []sdk.ReadOnlySpan) (refused int64, err error) {
	all := int64(len(spans))
	body, err := proto.Marshal(request(spans))
	if err != nil {
		return all, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return all, err
	}
	r.Header = c.header.Clone()
	answer, err := c.client.Do(r)
	if err != nil {
		return all, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, largestAnswer))
	if answer.StatusCode/100 != 2 {
		return all, fmt.Errorf("the collector answers %s", answer.Status)
	}
	var said service.ExportTraceServiceResponse
	if err == nil && proto.Unmarshal(body, &said) == nil {
		if refused = min(max(said.GetPartialSuccess().GetRejectedSpans(), 0), all); refused > 0 {
			return refused, fmt.Errorf("the collector refuses %d of %d spans: %q", refused, all, said.GetPartialSuccess().GetErrorMessage())
		}
	}
	return 0, nil
}

// request returns spans as OTLP has them. All spans of a process have one resource and one scope.
func request(spans []sdk.ReadOnlySpan) *service.ExportTraceServiceRequest {
	if len(spans) == 0 {
		return new(service.ExportTraceServiceRequest)
	}
	scope := &wire.ScopeSpans{Scope: &common.InstrumentationScope{Name: spans[0].InstrumentationScope().Name}}
	for _, s := range spans {
		scope.Spans = append(scope.Spans, span(s))
	}
	return &service.ExportTraceServiceRequest{ResourceSpans: []*wire.ResourceSpans{{
		Resource: &resource.Resource{Attributes: attributes(spans[0].Resource().Attributes())}, ScopeSpans: []*wire.ScopeSpans{scope},
	}}}
}

// span returns a span as OTLP has it. The spans of seqd have no events and no tracestate.
func span(s sdk.ReadOnlySpan) *wire.Span {
	traceID, spanID := s.SpanContext().TraceID(), s.SpanContext().SpanID()
	w := &wire.Span{
		TraceId: traceID[:], SpanId: spanID[:], Flags: flags(s.SpanContext(), s.Parent()),
		Name: s.Name(), Kind: wire.Span_SpanKind(s.SpanKind()), // the numbers are the same
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: attributes(s.Attributes()), Status: &wire.Status{Code: statuses[s.Status().Code], Message: s.Status().Description},
	}
	if parent := s.Parent().SpanID(); parent.IsValid() {
		w.ParentSpanId = parent[:]
	}
	for _, link := range s.Links() {
		traceID, spanID := link.SpanContext.TraceID(), link.SpanContext.SpanID()
		w.Links = append(w.Links, &wire.Span_Link{TraceId: traceID[:], SpanId: spanID[:], Flags: flags(link.SpanContext, link.SpanContext)})
	}
	return w
}

// statuses are the statuses of spans as OTLP numbers them.
var statuses = map[codes.Code]wire.Status_StatusCode{
	codes.Ok: wire.Status_STATUS_CODE_OK, codes.Error: wire.Status_STATUS_CODE_ERROR,
}

// flags returns the flags of a span, and whether its parent, or the span linked to, is of another
// process.
func flags(of, parent trace.SpanContext) uint32 {
	f := uint32(of.TraceFlags()) | uint32(wire.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if parent.IsRemote() {
		f |= uint32(wire.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return f
}

// attributes returns attributes as OTLP has them. A list is sent as a text.
func attributes(list []attribute.KeyValue) []*common.KeyValue {
	all := make([]*common.KeyValue, len(list))
	for i, a := range list {
		value := new(common.AnyValue)
		switch a.Value.Type() {
		case attribute.INT64:
			value.Value = &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		case attribute.BOOL:
			value.Value = &common.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
		default:
			value.Value = &common.AnyValue_StringValue{StringValue: a.Value.Emit()}
		}
		all[i] = &common.KeyValue{Key: string(a.Key), Value: value}
	}
	return all
}
