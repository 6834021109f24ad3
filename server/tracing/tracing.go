// Package tracing records spans of requests and of the commands that requests send to Redis and to
// the server of the store. It sends them to a collector by OTLP over HTTP. Nothing waits for the
// collector: spans that it does not accept in time are dropped and counted.
//
// [Tracing] is the main type. Commands of stores come to [Tracing.Command], whichever store it is.
package tracing

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// FollowedPerSecond is how many requests per second are traced because their callers trace them.
// The limit keeps callers from making seqd trace every request.
const FollowedPerSecond = 100

const (
	queueSize   = 4096            // spans that wait or are being sent
	sendEvery   = 2 * time.Second // the longest a span waits if the collector works
	sendTimeout = 5 * time.Second // for one batch, of at most 512 spans
)

// Options are the options of [New].
type Options struct {
	// Endpoint is the http or https URL of the collector. If it has no path, /v1/traces is used.
	Endpoint string
	// Ratio is the share of requests without a traceparent that are traced, 0 to 1.
	Ratio float64
	// Version and Instance describe the service. Instance is its address.
	Version, Instance string
	Log               *slog.Logger
	// Transport sends to the collector; nil for the network. It is meant for tests.
	Transport http.RoundTripper
}

// Tracing records spans. It is safe for concurrent use.
type Tracing struct {
	ratio    float64
	follow   *rate.Limiter
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	sender   *sender
}

// New returns a Tracing. It connects to the collector when there are spans to send. Close ends it.
func New(opts Options) (*Tracing, error) {
	client := &http.Client{Timeout: sendTimeout, Transport: opts.Transport}
	if client.Transport == nil {
		client.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 1,
			// Exports share a connection of HTTP/2, also after one was not answered.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: 2 * time.Second},
		}
	}
	out, err := newCollector(opts.Endpoint, client)
	if err != nil {
		return nil, err
	}
	sender := newSender(out, opts.Log)
	batches := sdk.NewBatchSpanProcessor(sender, sdk.WithMaxQueueSize(queueSize), sdk.WithBatchTimeout(sendEvery), sdk.WithExportTimeout(sendTimeout))
	described := resource.NewSchemaless(attribute.String("service.name", "seqd"), attribute.String("service.version", opts.Version),
		attribute.String("service.instance.id", opts.Instance))
	// Begin decides what is recorded, so the sampler accepts everything
	provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(described), sdk.WithSpanProcessor(&queue{batches, sender}))
	return &Tracing{
		ratio: opts.Ratio, follow: rate.NewLimiter(FollowedPerSecond, FollowedPerSecond), sender: sender,
		provider: provider, tracer: provider.Tracer("github.com/seqd/seqd"),
	}, nil
}

// Begin starts the span of a request. It returns the span and the context for the request's work;
// both are nil if the request is not traced. A request is traced if its traceparent says so, up to
// [FollowedPerSecond]. It is not traced if its traceparent says so. Of the requests without a
// traceparent, the configured share is traced.
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

// BeginCommand starts the span of commands of the Redis protocol that share a take, for the
// configured share of them: the protocol has no traceparent. It returns the span and the context
// for their work; both are nil if they are not traced.
func (t *Tracing) BeginCommand(ctx context.Context) (context.Context, trace.Span) {
	if rand.Float64() >= t.ratio {
		return nil, nil
	}
	return t.tracer.Start(ctx, "command", trace.WithSpanKind(trace.SpanKindServer))
}

// onlyParent hides the tracestate of a request, because callers can write anything there, and it
// would appear in each span.
type onlyParent struct{ propagation.HeaderCarrier }

// Get implements [propagation.TextMapCarrier].
func (c onlyParent) Get(key string) string {
	if key != "traceparent" {
		return ""
	}
	return c.HeaderCarrier.Get(key)
}

// child starts the span of a command. It returns a nil span if the request is not traced.
func (t *Tracing) child(ctx context.Context, name string, attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	return t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
}

// Dropped returns how many spans were not sent, because the collector did not accept them or too
// many waited.
func (t *Tracing) Dropped() int64 { return t.sender.dropped.Load() }

// Close sends the spans that wait. It returns when that is done or ctx ends.
func (t *Tracing) Close(ctx context.Context) {
	_ = t.provider.Shutdown(ctx) // it fails if ctx ends: the spans that were not sent are counted
	t.sender.end()
}
