package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
)

// onCommand calls do before the first command with a name.
func onCommand(name string, do func()) func(*mongo.Options) {
	var once sync.Once
	return func(o *mongo.Options) {
		o.Monitor = &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.CommandName == name {
				once.Do(do)
			}
		}}
	}
}

// same opens the database of a test again.
func same(t *testing.T, uri, database string, change func(*mongo.Options)) *mongo.Store {
	return open(t, uri, func(o *mongo.Options) {
		if change != nil {
			change(o)
		}
		o.Database = database
	})
}

// movedBy is the document of the cluster of a store that a move has shut.
func movedBy(move string, revision int64) persist.Document {
	return persist.Moved{Move: move, Cluster: "c"}.Document(revision)
}

// A command that opens a store again is held up. Meanwhile another one has opened it, and the store was
// moved once more: it stays shut.
func TestLateUnshut(t *testing.T) {
	t.Parallel()
	uri, database := testenv.StartMongo(t).URI(), "seqd_"+testenv.Unique()
	s := same(t, uri, database, nil)
	create(t, s)
	first, second := movedBy("first", 1), movedBy("second", 2)
	must.Do(t, s.Documents().Create(t.Context(), first))
	must.Do(t, s.Shut(t.Context(), first))
	late := same(t, uri, database, onCommand("listIndexes", func() {
		must.Do(t, s.Unshut(t.Context(), first))
		must.Get(allocate(t.Context(), s))(t)
		must.Do(t, s.Documents().Update(t.Context(), second))
		must.Do(t, s.Shut(t.Context(), second))
	}))
	if err := late.Unshut(t.Context(), first); !errors.Is(err, persist.ErrConflict) {
		t.Errorf("the late command: %v", err)
	}
	if r, err := allocate(t.Context(), s); !errors.Is(err, persist.ErrShut) {
		t.Errorf("it gives %+v, %v", r, err)
	}
	if err := s.Counters().Create(t.Context(), persist.Counter{BizTag: "new", Step: 1}); !errors.Is(err, persist.ErrShut) {
		t.Errorf("it creates a counter: %v", err)
	}
	must.Do(t, s.Unshut(t.Context(), second))
	must.Equal(t, must.Get(allocate(t.Context(), s))(t), persist.Range{First: 11, Last: 20})
}

// Records that nodes create while a store is being shut are shut, too.
func TestCreatedWhileShut(t *testing.T) {
	t.Parallel()
	uri, database := testenv.StartMongo(t).URI(), "seqd_"+testenv.Unique()
	s := same(t, uri, database, nil)
	create(t, s)
	cluster := movedBy("m", 1)
	must.Do(t, s.Documents().Create(t.Context(), cluster))
	shutting := same(t, uri, database, onCommand("createIndexes", func() {
		for _, name := range []string{"a", "b"} {
			must.Do(t, s.Documents().Create(t.Context(), persist.Document{Kind: "answer", Key: name, Revision: 1}))
		}
	}))
	must.Do(t, shutting.Shut(t.Context(), cluster))
	err := s.Documents().Update(t.Context(), persist.Document{Kind: "answer", Key: "a", Revision: 2})
	if !errors.Is(err, persist.ErrShut) {
		t.Errorf("a document that came meanwhile is changed: %v", err)
	}
	if err := s.Documents().Keep(t.Context(), []persist.Document{{Kind: "answer", Key: "late", Revision: 1}}); !errors.Is(err, persist.ErrShut) {
		t.Errorf("a document is kept: %v", err)
	}
	must.Equal(t, len(must.Get(s.Documents().List(t.Context(), "answer", "", 9))(t)), 2)
	must.Equal(t, must.Get(s.Counters().List(t.Context(), "", 9))(t)[0].BizTag, "order")
}

// A million records are shut in some seconds on a server; here it is shown that none needs a round trip of
// its own.
func TestShutRoundTrips(t *testing.T) {
	t.Parallel()
	uri, database := testenv.StartMongo(t).URI(), "seqd_"+testenv.Unique()
	commands := map[string]int{}
	s := same(t, uri, database, func(o *mongo.Options) {
		o.Monitor = &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) { commands[e.CommandName]++ }}
	})
	for i := range 50 {
		must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: time.Duration(i).String(), Step: 1}))
	}
	must.Do(t, s.Documents().Create(t.Context(), movedBy("m", 1)))
	clear(commands)
	must.Do(t, s.Shut(t.Context(), movedBy("m", 1)))
	if commands["update"] > 20 || commands["find"] > 20 {
		t.Errorf("it needs %v", commands)
	}
}
