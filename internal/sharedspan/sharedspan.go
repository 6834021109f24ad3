// Package sharedspan traces a command that is sent once for several callers.
package sharedspan

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// Span is the parent span of a shared command: the span of its first caller that is traced. The
// zero value has none. It is not safe for concurrent use.
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

// Context returns the context for the command. It has the span and no deadline, because the callers
// have different ones. Without a span it is [context.Background].
func (s *Span) Context() context.Context {
	if s.first == nil {
		return context.Background()
	}
	return trace.ContextWithSpan(context.Background(), s.first)
}
