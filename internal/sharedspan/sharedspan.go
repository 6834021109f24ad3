// Package sharedspan gives a command that is sent once for several callers its place in their
// traces.
package sharedspan

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// Span is the span that a shared command is a part of: that of the first of its callers that is
// traced. The zero value has none. It is not safe for concurrent use.
type Span struct{ first trace.Span }

// Join adds a caller by its span, which may be one that records nothing. A span that is not the
// first is linked to the first.
func (s *Span) Join(caller trace.Span) {
	switch {
	case !caller.IsRecording():
	case s.first == nil:
		s.first = caller
	default:
		caller.AddLink(trace.Link{SpanContext: s.first.SpanContext()})
	}
}

// Context is what the command runs under: it has the span, and nobody's deadline, for its callers
// have several. Without a span it is [context.Background].
func (s *Span) Context() context.Context {
	if s.first == nil {
		return context.Background()
	}
	return trace.ContextWithSpan(context.Background(), s.first)
}
