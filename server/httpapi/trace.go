package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd"
)

// Tracer decides which requests are traced. It is safe for concurrent use.
type Tracer interface {
	// Begin returns the span of a request, which the API ends, and the context for the request's
	// work. Both are nil if the request is not traced.
	Begin(*http.Request) (context.Context, trace.Span)
}

// tracing records requests in spans.
type tracing struct{ tracer Tracer } // nil without tracing

// begin returns the span of a request, nil for none.
func (t *tracing) begin(c *gin.Context) trace.Span {
	ctx, span := t.tracer.Begin(c.Request)
	if span != nil {
		c.Request = c.Request.WithContext(ctx)
	}
	return span
}

// endSpan records what a request was and how it was answered. It records nothing from the caller
// that could be a secret.
func endSpan(c *gin.Context, span trace.Span, id string) {
	method, route, status := shownMethod(c.Request.Method), pattern(c.FullPath()), c.Writer.Status()
	span.SetName(strings.TrimSpace(method + " " + route))
	span.SetAttributes(attribute.String("http.request.method", method), attribute.Int("http.response.status_code", status),
		attribute.String("seqd.request_id", discreet(id)))
	for key, value := range map[string]string{"http.route": route, "seqd.caller": callerName(c), "seqd.biz_type": shownBizType(c)} {
		if value != "" {
			span.SetAttributes(attribute.String(key, value))
		}
	}
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// span returns the span of a request, nil if the request is not traced.
func (t *tracing) span(c *gin.Context) trace.Span {
	if t.tracer == nil {
		return nil
	}
	if span := trace.SpanFromContext(c.Request.Context()); span.IsRecording() {
		return span
	}
	return nil
}

// count records how many numbers were requested.
func (t *tracing) count(c *gin.Context, count int) {
	if span := t.span(c); span != nil {
		span.SetAttributes(attribute.Int("seqd.count", count))
	}
}

// code records why a request was refused.
func (t *tracing) code(c *gin.Context, code seqd.Code) {
	if span := t.span(c); span != nil {
		span.SetAttributes(attribute.String("error.type", string(code)))
	}
}

// shownMethod returns a method of HTTP as it is. Any other word could be anything.
func shownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return method
	}
	return "_OTHER"
}

// shownBizType returns the biz type in the path, "" if there is none or it is not a valid name.
func shownBizType(c *gin.Context) string {
	name := c.Param("bizType")
	if seqd.CheckName(name) != nil {
		return ""
	}
	switch seqd.Code(c.Writer.Header().Get("Seqd-Error")) {
	case seqd.CodeUnauthorized, seqd.CodeForbidden, seqd.CodeUnknownBizType:
		return "" // a drop-in reads it beside the token, and some callers mix them up
	}
	return discreet(name)
}
