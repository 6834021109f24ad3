package tracing

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"

	"github.com/seqd/seqd/persist/driver"
)

// Command begins the span of a command to the server of a store, as [driver.Trace] says. A span
// contains what the command says of itself, and of an error its kind.
func (t *Tracing) Command(ctx context.Context, c driver.Command) (done func(error)) {
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
	if span == nil {
		return nil
	}
	return func(err error) {
		if err != nil {
			fail(span, failureKind(err))
		}
		span.End()
	}
}

var _ driver.Trace = (*Tracing)(nil).Command

// failureKind classifies the error of a command.
func failureKind(err error) string {
	if kind := errorType(err); kind != "connection" {
		return kind
	}
	if failure, ok := errors.AsType[driver.Failure](err); ok {
		return failure.Kind
	}
	return "error"
}
