package mongo

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seqd/seqd/persist/driver"
)

// monitor returns a monitor that traces each command, or nil if nothing is traced.
func monitor(trace driver.Trace) *event.CommandMonitor {
	if trace == nil {
		return nil
	}
	m := &tracer{trace: trace}
	return &event.CommandMonitor{
		Started:   m.started,
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { m.ended(&e.CommandFinishedEvent, nil) },
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			m.ended(&e.CommandFinishedEvent, e.Failure)
		},
	}
}

// tracer finds the trace of a command when the command ends.
type tracer struct {
	trace   driver.Trace
	running sync.Map // func(error, string) by commandID
}

// commandID identifies a command in progress.
type commandID struct {
	connection string
	request    int64
}

func (t *tracer) started(ctx context.Context, e *event.CommandStartedEvent) {
	collection, _ := e.Command.Lookup(e.CommandName).StringValueOK()
	command := driver.Command{System: "mongodb", Operation: e.CommandName, Database: e.DatabaseName, Collection: collection}
	if done := t.trace(ctx, command); done != nil {
		t.running.Store(commandID{e.ConnectionID, e.RequestID}, done)
	}
}

func (t *tracer) ended(e *event.CommandFinishedEvent, err error) {
	if done, ok := t.running.LoadAndDelete(commandID{e.ConnectionID, e.RequestID}); ok {
		done.(func(error, string))(err, kindOf(err))
	}
}

// kindOf returns the number of a server's error, and for others that there was no answer.
func kindOf(err error) string {
	var answer mongo.CommandError
	if errors.As(err, &answer) && answer.Code != 0 {
		return strconv.Itoa(int(answer.Code))
	}
	return "connection"
}
