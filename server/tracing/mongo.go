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

// MongoMonitor returns a monitor that records a span for each command of a traced request. A span
// contains the names of the command and its collection, and nothing else of the command.
func (t *Tracing) MongoMonitor() *event.CommandMonitor {
	m := mongoMonitor{Tracing: t, running: new(sync.Map)}
	return &event.CommandMonitor{
		Started:   m.started,
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { m.ended(&e.CommandFinishedEvent, nil) },
		Failed:    func(_ context.Context, e *event.CommandFailedEvent) { m.ended(&e.CommandFinishedEvent, e.Failure) },
	}
}

// mongoMonitor finds the span of a command when the command ends.
type mongoMonitor struct {
	*Tracing
	running *sync.Map // trace.Span by commandID
}

// commandID identifies a command in progress.
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

// mongoErrorType returns the number of a server's error. The rest of the error may contain what was
// written.
func mongoErrorType(err error) string {
	var answer mongo.CommandError
	if errors.As(err, &answer) && answer.Code != 0 {
		return strconv.Itoa(int(answer.Code))
	}
	return errorType(err)
}
