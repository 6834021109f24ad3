// Package tracing records spans of requests and of the commands that they send to Redis and
// MongoDB, and sends them to a collector by OTLP over HTTP. Nothing here waits for the collector:
// spans that it does not take in time are dropped and counted.
package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// FollowedPerSecond is how many requests a second are traced because their callers trace them. More
// are not: else callers could make every request traced.
const FollowedPerSecond = 100

const (
	queueSize   = 4096            // spans that wait to be sent or are being sent
	sendEvery   = 2 * time.Second // the longest a span waits while all is well
	sendTimeout = 5 * time.Second // for one batch, of at most 512 spans
)

// Options are what is traced, and where to.
type Options struct {
	// Endpoint is the URL of the collector, http or https; without a path /v1/traces is meant.
	Endpoint string
	// Ratio is the share of the requests without a traceparent that is traced, 0 to 1.
	Ratio float64
	// Version and Instance describe the service: Instance is its address.
	Version, Instance string
	Log               *slog.Logger
}

// Tracing records spans. It is safe for concurrent use.
type Tracing struct {
	ratio    float64
	follow   *rate.Limiter
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	sender   *sender
}

// New returns a tracing that connects to nothing before there are spans. Close ends it.
func New(opts Options) (*Tracing, error) {
	if err := checkHeaders(); err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: sendTimeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute}}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(strings.TrimSuffix(opts.Endpoint, "/")), otlptracehttp.WithHTTPClient(client),
		// what is sent again keeps newer spans waiting
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	if err != nil {
		return nil, err
	}
	sender := newSender(exporter, client, opts.Log)
	batches := sdk.NewBatchSpanProcessor(sender, sdk.WithMaxQueueSize(queueSize), sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendTimeout))
	described := resource.NewSchemaless(attribute.String("service.name", "seqd"), attribute.String("service.version", opts.Version),
		attribute.String("service.instance.id", opts.Instance))
	// Begin decides what is recorded, and what it does not begin has no parent.
	provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(described), sdk.WithSpanProcessor(&queue{batches, sender}))
	return &Tracing{
		ratio: opts.Ratio, follow: rate.NewLimiter(FollowedPerSecond, FollowedPerSecond), sender: sender,
		provider: provider, tracer: provider.Tracer("github.com/seqd/seqd"),
	}, nil
}

// checkHeaders refuses headers for the collector that the exporter could not read: it would write
// them, with the secrets in them, to standard error, and go on without.
func checkHeaders() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		list := strings.TrimSpace(os.Getenv(name))
		if list == "" {
			continue
		}
		for header := range strings.SplitSeq(list, ",") {
			key, value, found := strings.Cut(header, "=")
			key = strings.TrimSpace(key)
			value, err := url.PathUnescape(value)
			if !found || err != nil || key == "" || strings.ContainsFunc(key, notInName) || strings.ContainsAny(value, "\r\n\x00") {
				return fmt.Errorf("%s is not name=value,name=value with values escaped as in a URL", name)
			}
		}
	}
	return nil
}

// notInName reports whether a rune cannot stand in the name of a header.
func notInName(r rune) bool {
	return r <= ' ' || r >= 127 || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// Begin starts the span of a request, and returns it with the context of what the request does;
// both are nil for a request that is not traced. One whose traceparent says that the caller traces
// it is traced, of those [FollowedPerSecond]; one whose traceparent says otherwise is not; of all
// others a share is.
func (t *Tracing) Begin(r *http.Request) (context.Context, trace.Span) {
	ctx := r.Context()
	if len(r.Header["Traceparent"]) == 1 {
		ctx = propagation.TraceContext{}.Extract(ctx, onlyParent{propagation.HeaderCarrier(r.Header)})
	}
	if caller := trace.SpanContextFromContext(ctx); caller.IsValid() {
		if !caller.IsSampled() || !t.follow.Allow() {
			return nil, nil
		}
	} else if rand.Float64() >= t.ratio {
		return nil, nil
	}
	return t.tracer.Start(ctx, "request", trace.WithSpanKind(trace.SpanKindServer))
}

// onlyParent shows the traceparent of a request and not its tracestate, in which callers write what
// they like: it would stand in each span.
type onlyParent struct{ propagation.HeaderCarrier }

// Get implements [propagation.TextMapCarrier].
func (c onlyParent) Get(key string) string {
	if key != "traceparent" {
		return ""
	}
	return c.HeaderCarrier.Get(key)
}

// child starts the span of a command, nil where it belongs to no span that is recorded.
func (t *Tracing) child(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
}

// Dropped is how many spans were not sent: the collector did not take them, or more came than could
// wait.
func (t *Tracing) Dropped() int64 { return t.sender.dropped.Load() }

// Close sends what waits, until ctx ends at most.
func (t *Tracing) Close(ctx context.Context) {
	_ = t.provider.Shutdown(ctx) // it fails when ctx ends: what was not sent then is counted
	t.sender.end()
}
