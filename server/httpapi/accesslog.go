package httpapi

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd/server/forwarded"
	"github.com/seqd/seqd/server/gate"
)

// accessLog writes the access log.
type accessLog struct {
	lines   *gate.AccessLog
	log     *slog.Logger
	proxies forwarded.Proxies
}

// write writes the line of a request, if it gets one. It makes the record itself, because a Logger
// would read the clock again, and find out its caller, which no line shows.
func (l accessLog) write(c *gin.Context, id string, start time.Time) {
	now, status := time.Now(), meantStatus(c)
	skipped, ok := l.lines.Takes(status >= http.StatusBadRequest, status >= http.StatusInternalServerError, now)
	ctx := c.Request.Context()
	if !ok || !l.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 13)
	attrs = append(attrs,
		slog.String("method", loggedMethod(c.Request.Method)), slog.String("path", discreet(c.Request.URL.Path)), slog.String("query", shownQuery(c.Request.URL.RawQuery)),
		slog.Int("status", c.Writer.Status()), slog.Int("bytes", c.Writer.Size()), slog.Float64("tookMs", milliseconds(now.Sub(start))),
		slog.String("addr", l.proxies.Text(c.Request.RemoteAddr, c.Request.Header)), slog.String("requestId", id))
	for _, about := range [...]slog.Attr{
		slog.String("caller", callerName(c)), slog.String("bizType", shownBizType(c)), slog.String("code", c.Writer.Header().Get("Seqd-Error")), slog.String("traceId", traceID(c.Request)),
	} {
		if about.Value.String() != "" {
			attrs = append(attrs, about)
		}
	}
	if skipped > 0 {
		attrs = append(attrs, slog.Int64("skipped", skipped))
	}
	line := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	line.AddAttrs(attrs...)
	_ = l.log.Handler().Handle(ctx, line) // as a Logger does, nobody could be told
}

// traceID returns the ID of a request's trace: that of its span or, if it has none, of its
// traceparent. It is "" without both.
func traceID(r *http.Request) string {
	ctx := r.Context()
	if r.Header["Traceparent"] != nil && !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return span.TraceID().String()
	}
	return ""
}

// milliseconds returns a duration in ms, to the microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
