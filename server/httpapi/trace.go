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

// Trace sets the tracer. Call it before the first request. Without it nothing is traced.
func (a *API) Trace(tracer Tracer) { a.tracer = tracer }

// beginSpan returns the span of a request, nil for none.
func (a *API) beginSpan(c *gin.Context) trace.Span {
	// probes and scrapes are frequent and say nothing about issuing
	if a.places(c) != a.inFlight {
		return nil
	}
	ctx, span := a.tracer.Begin(c.Request)
	if span != nil {
		c.Request = c.Request.WithContext(ctx)
	}
	return span
}

// endSpan records what a request was and how it was answered. It records nothing from the caller
// that could be a secret.
func (a *API) endSpan(c *gin.Context, span trace.Span, id string) {
	method, route, status := shownMethod(c.Request.Method), pattern(c.FullPath()), c.Writer.Status()
	span.SetName(strings.TrimSpace(method + " " + route))
	span.SetAttributes(attribute.String("http.request.method", method), attribute.Int("http.response.status_code", status),
		attribute.String("seqd.request_id", discreet(id)))
	for key, value := range map[string]string{"http.route": route, "seqd.token": callerName(c), "seqd.biz_type": shownBizType(c)} {
		if value != "" {
			span.SetAttributes(attribute.String(key, value))
		}
	}
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// traced returns the span of a request, nil if the request is not traced.
func (a *API) traced(c *gin.Context) trace.Span {
	if a.tracer == nil {
		return nil
	}
	if span := trace.SpanFromContext(c.Request.Context()); span.IsRecording() {
		return span
	}
	return nil
}

// traceCount records how many numbers were requested.
func (a *API) traceCount(c *gin.Context, count int) {
	if span := a.traced(c); span != nil {
		span.SetAttributes(attribute.Int("seqd.count", count))
	}
}

// traceCode records why a request was refused.
func (a *API) traceCode(c *gin.Context, code seqd.Code) {
	if span := a.traced(c); span != nil {
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
	return discreet(name)
}
