package tracing

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// MongoMonitor records a span for each command of a request that is traced. A span tells the
// command's name and its collection, and nothing else of it.
func (t *Tracing) MongoMonitor() *event.CommandMonitor {
	m := mongoMonitor{Tracing: t, running: new(sync.Map)}
	return &event.CommandMonitor{
		Started:   m.started,
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { m.ended(&e.CommandFinishedEvent, nil) },
		Failed:    func(_ context.Context, e *event.CommandFailedEvent) { m.ended(&e.CommandFinishedEvent, e.Failure) },
	}
}

// mongoMonitor finds the span of a command again when the command ends.
type mongoMonitor struct {
	*Tracing
	running *sync.Map // trace.Span by commandID
}

// commandID names a command that is under way.
type commandID struct {
	connection string
	request    int64
}

func (m mongoMonitor) started(ctx context.Context, e *event.CommandStartedEvent) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	name := e.CommandName
	attrs := []attribute.KeyValue{
		attribute.String("db.system.name", "mongodb"), attribute.String("db.operation.name", e.CommandName), attribute.String("db.namespace", e.DatabaseName),
	}
	if collection, ok := e.Command.Lookup(e.CommandName).StringValueOK(); ok {
		name += " " + collection
		attrs = append(attrs, attribute.String("db.collection.name", collection))
	}
	_, span := m.child(ctx, name, attrs...)
	m.running.Store(commandID{e.ConnectionID, e.RequestID}, span)
}

func (m mongoMonitor) ended(e *event.CommandFinishedEvent, err error) {
	found, ok := m.running.LoadAndDelete(commandID{e.ConnectionID, e.RequestID})
	if !ok {
		return
	}
	span := found.(trace.Span)
	if err != nil {
		fail(span, mongoErrorType(err))
	}
	span.End()
}

// mongoErrorType is the number of an answer of the server. The rest of it may repeat what was
// written.
func mongoErrorType(err error) string {
	var answer mongo.CommandError
	if errors.As(err, &answer) && answer.Code != 0 {
		return strconv.Itoa(int(answer.Code))
	}
	return errorType(err)
}
