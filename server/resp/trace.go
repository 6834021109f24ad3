package resp

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/gate"
)

// Tracer decides which requests are traced. It is safe for concurrent use.
type Tracer interface {
	// BeginCommand returns the span of requests for numbers that share a take, which the caller
	// ends, and the context for their work. Both are nil if they are not traced.
	BeginCommand(ctx context.Context) (context.Context, trace.Span)
}

// record is what is recorded of a run: its span, and its line in the access log. The zero time and
// a nil span mean that there is none.
type record struct {
	began time.Time
	span  trace.Span
}

// begin begins to record a run, if anything is to be recorded, and returns the context for its
// work.
func (s *Server) begin() (ctx context.Context, rec record) {
	if s.gate.AccessLog.On() {
		rec.began = time.Now()
	}
	if s.opts.Tracer != nil {
		if ctx, span := s.opts.Tracer.BeginCommand(s.ctx); span != nil {
			rec.span = span
			return ctx, rec
		}
	}
	return s.ctx, rec
}

// end records how a run was answered.
func (rec record) end(c *conn, r *run) {
	if rec.span == nil && rec.began.IsZero() {
		return
	}
	name, bizType, code := c.server.table.list[r.takes[0].command].name, shownBizType(r.bizType), r.code()
	if rec.span != nil {
		rec.endSpan(c, r, name, bizType, code)
	}
	if !rec.began.IsZero() {
		about := append(make([]slog.Attr, 0, 5), slog.String("bizType", bizType), slog.Int("commands", len(r.takes)), slog.Int("count", r.numbers))
		if r.caller.Name != "" {
			about = append(about, slog.String("caller", r.caller.Name))
		}
		if rec.span != nil {
			about = append(about, slog.String("traceId", rec.span.SpanContext().TraceID().String()))
		}
		c.log(name, code, time.Since(rec.began), about...)
	}
}

// shownBizType returns the name of a biz type as it may be recorded, "" for what could be anything,
// a secret too.
func shownBizType(name string) string {
	if seqd.CheckName(name) != nil || strings.Contains(name, access.SecretPrefix) {
		return ""
	}
	return name
}

// code returns the first error code of a run, "" for none.
func (r *run) code() seqd.Code {
	for _, err := range r.errs {
		if err != nil {
			return seqd.CodeOf(err)
		}
	}
	return ""
}

// endSpan records the run in its span.
func (rec record) endSpan(c *conn, r *run, name, bizType string, code seqd.Code) {
	span := rec.span
	span.SetName(name)
	span.SetAttributes(attribute.String("network.protocol.name", "redis"), attribute.String("seqd.request_id", c.requestID),
		attribute.Int("seqd.commands", len(r.takes)), attribute.Int("seqd.count", r.numbers))
	for key, value := range map[string]string{"seqd.caller": r.caller.Name, "seqd.biz_type": bizType, "error.type": string(code)} {
		if value != "" {
			span.SetAttributes(attribute.String(key, value))
		}
	}
	if toBlame(code) {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// log writes a line to the access log, if it gets one.
func (c *conn) log(command string, code seqd.Code, took time.Duration, about ...slog.Attr) {
	g := c.server.gate
	skipped, ok := g.AccessLog.Takes(code != "", toBlame(code), time.Now())
	if !ok {
		return
	}
	if code == "" {
		code = "ok"
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("command", command))
	attrs = append(attrs, about...)
	attrs = append(attrs, slog.String("code", string(code)), slog.Float64("tookMs", float64(took.Microseconds())/1000),
		slog.String("addr", c.addr), slog.String("requestId", c.requestID))
	if skipped > 0 {
		attrs = append(attrs, slog.Int64("skipped", skipped))
	}
	g.Log.LogAttrs(c.server.ctx, slog.LevelInfo, "command", attrs...)
}

// toBlame reports whether a code means that the service failed and not the request.
func toBlame(code seqd.Code) bool {
	return code != "" && gate.StatusOf(code) >= 500
}
