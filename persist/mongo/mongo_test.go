package mongo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seqd/seqd/persist"
)

// What waiting mends is ErrUnavailable; a server that cannot keep what it is told is not.
func TestTranslate(t *testing.T) {
	journal := mongo.CommandError{Code: 2, Message: "cannot use 'j' option when a host does not have journaling enabled"}
	canceled := fmt.Errorf("op: %w", context.Canceled)
	for _, test := range []struct {
		err, want error
		text      string
	}{
		{mongo.ErrNoDocuments, persist.ErrNotFound, ""},
		{mongo.ErrClientDisconnected, persist.ErrClosed, ""},
		{mongo.CommandError{Code: 11000}, persist.ErrExists, ""},
		{mongo.CommandError{Code: 91, Message: "shutting down"}, persist.ErrUnavailable, "shutting down"},
		{context.DeadlineExceeded, persist.ErrUnavailable, ""},
		{canceled, context.Canceled, ""},
		{journal, persist.ErrInvalid, "storage.journal.enabled"},
		{mongo.WriteException{WriteConcernError: &mongo.WriteConcernError{Code: 2, Message: journal.Message}}, persist.ErrInvalid, "store.mongo.uri"},
	} {
		got := translate(test.err)
		if !errors.Is(got, test.want) || !strings.Contains(got.Error(), test.text) {
			t.Errorf("%v became %v, want %v with %q", test.err, got, test.want, test.text)
		}
		if errors.Is(test.want, persist.ErrInvalid) && errors.Is(got, persist.ErrUnavailable) {
			t.Errorf("%v would be waited for", got)
		}
	}
}

// Connections are bounded, and closed when they are idle, unless the URI says otherwise.
func TestPool(t *testing.T) {
	for _, test := range []struct {
		query string
		most  uint64
		idle  time.Duration
	}{
		{"", mostConnections, idleTime},
		{"?maxPoolSize=7", 7, idleTime},
		{"?minPoolSize=100", 100, idleTime},
		{"?maxPoolSize=0&maxIdleTimeMS=0", 0, 0}, // without bounds
		{"?maxIdleTimeMS=5000", mostConnections, 5 * time.Second},
	} {
		o, err := clientOptions("mongodb://127.0.0.1:27017/" + test.query)
		switch {
		case err != nil:
			t.Error(err)
		case o.MaxPoolSize == nil || o.MaxConnIdleTime == nil:
			t.Errorf("%q leaves the pool to the driver: %v connections, idle for %v", test.query, o.MaxPoolSize, o.MaxConnIdleTime)
		case *o.MaxPoolSize != test.most || *o.MaxConnIdleTime != test.idle:
			t.Errorf("%q: %d connections, idle for %v", test.query, *o.MaxPoolSize, *o.MaxConnIdleTime)
		}
	}
}
