package mongo

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/driver"
)

// A trace has the names of a command and of its collection, and of an error the server's number.
func TestMonitor(t *testing.T) {
	var ended []string
	m := monitor(func(_ context.Context, c driver.Command) func(error, string) {
		if c.Operation == "hello" {
			return nil
		}
		return func(err error, kind string) {
			ended = append(ended, fmt.Sprint(c.System, " ", c.Operation, " ", c.Database, " ", c.Collection, " ", err != nil, " ", kind))
		}
	})
	for i, test := range []struct {
		name string
		err  error
		want string
	}{
		{"find", nil, "mongodb find seqd counters false connection"},
		{"find", mongo.CommandError{Code: 11000, Message: "secret"}, "mongodb find seqd counters true 11000"},
		{"find", errors.New("secret"), "mongodb find seqd counters true connection"},
		{"hello", nil, ""},
	} {
		ended = nil
		command := must.Get(bson.Marshal(bson.D{{Key: test.name, Value: "counters"}, {Key: "filter", Value: "secret"}}))(t)
		m.Started(t.Context(), &event.CommandStartedEvent{Command: command, DatabaseName: "seqd", CommandName: test.name, RequestID: int64(i), ConnectionID: "c"})
		done := event.CommandFinishedEvent{CommandName: test.name, RequestID: int64(i), ConnectionID: "c"}
		if test.err != nil {
			m.Failed(t.Context(), &event.CommandFailedEvent{CommandFinishedEvent: done, Failure: test.err})
		} else {
			m.Succeeded(t.Context(), &event.CommandSucceededEvent{CommandFinishedEvent: done})
		}
		must.Equal(t, fmt.Sprint(ended), "["+test.want+"]", "how %s ended", test.name)
	}
	must.Equal(t, monitor(nil), nil, "what watches commands, although nothing is traced,")
}
