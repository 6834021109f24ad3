package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/seqd/seqd/persist/driver"
)

// Command begins the span of a command to the server of a store, as [driver.Trace] says. A span
// contains what the command says of itself, and of an error its kind.
func (t *Tracing) Command(ctx context.Context, c driver.Command) (done func(err error, kind string)) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return nil // most requests are not traced
	}
	name := c.Operation
	attrs := []attribute.KeyValue{attribute.String("db.system.name", c.System), attribute.String("db.operation.name", c.Operation)}
	if c.Database != "" {
		attrs = append(attrs, attribute.String("db.namespace", c.Database))
	}
	if c.Collection != "" {
		name += " " + c.Collection
		attrs = append(attrs, attribute.String("db.collection.name", c.Collection))
	}
	_, span := t.child(ctx, name, attrs...)
	return func(err error, kind string) {
		if err != nil {
			if known := errorType(err); known != "connection" {
				kind = known
			}
			fail(span, kind)
		}
		span.End()
	}
}

var _ driver.Trace = (*Tracing)(nil).Command
