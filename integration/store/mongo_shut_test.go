package store

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
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

// everyCommand calls do before every command.
func everyCommand(do func(name string)) func(*mongo.Options) {
	return func(o *mongo.Options) {
		o.Monitor = &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) { do(e.CommandName) }}
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
	return persist.Moved{Move: move, Marked: revision, Cluster: "c"}.Document(revision)
}

// A command of a first move is held up before one of its commands to the server. Meanwhile another one has
// opened the store, and the store was moved once more: it stays shut all the time, and the second move can
// be undone.
func TestLateCommand(t *testing.T) {
	t.Parallel()
	server := testenv.StartMongo(t)
	uri := server.URI()
	first, second := movedBy("first", 2), movedBy("second", 5)
	for name, late := range map[string]func(context.Context, *mongo.Store) error{
		"shut":   func(ctx context.Context, s *mongo.Store) error { return s.Shut(ctx, first) },
		"unshut": func(ctx context.Context, s *mongo.Store) error { return s.Unshut(ctx, first) },
	} {
		t.Run(name, func(t *testing.T) {
			for at, reached := 1, true; reached; at++ {
				database := "seqd_" + testenv.Unique()
				s := same(t, uri, database, nil)
				create(t, s)
				must.Do(t, s.Documents().Create(t.Context(), persist.Document{Kind: persist.ClusterKind, Key: persist.ClusterKey, Revision: 1}))
				must.Do(t, s.Documents().Update(t.Context(), first))
				if name == "unshut" {
					must.Do(t, s.Shut(t.Context(), first))
				}
				commands, begun := 0, false
				held := same(t, uri, database, everyCommand(func(string) {
					if !begun { // it is being opened or closed
						return
					}
					switch commands++; {
					case commands == at:
						moveAgain(t, s, first, second)
					case commands > at:
						checkShut(t, s, at)
					}
				}))
				begun = true
				_ = late(t.Context(), held)
				begun = false
				reached = commands >= at
				if !reached {
					if at < 10 {
						t.Fatalf("it had only %d commands", commands)
					}
					break
				}
				checkShut(t, s, at)
				var guard struct {
					ShutBy int64 `bson:"shutBy"`
				}
				must.Do(t, server.Client().Database(database).Collection("counters").FindOne(t.Context(), bson.M{"_id": 0}).Decode(&guard))
				must.Equal(t, guard.ShutBy, second.Revision)
				must.Do(t, s.Unshut(t.Context(), second))
				must.Equal(t, must.Get(allocate(t.Context(), s))(t), persist.Range{First: 1, Last: 10})
			}
		})
	}
}

// moveAgain undoes a first move, and shuts the store for a second one.
func moveAgain(t *testing.T, s *mongo.Store, first, second persist.Document) {
	must.Do(t, s.Unshut(t.Context(), first))
	for revision := first.Revision + 1; revision < second.Revision; revision++ {
		must.Do(t, s.Documents().Update(t.Context(), persist.Document{Kind: persist.ClusterKind, Key: persist.ClusterKey, Revision: revision}))
	}
	must.Do(t, s.Documents().Update(t.Context(), second))
	must.Do(t, s.Shut(t.Context(), second))
}

// checkShut checks that a node takes no number.
func checkShut(t *testing.T, s *mongo.Store, at int) {
	t.Helper()
	if r, err := allocate(t.Context(), s); !errors.Is(err, persist.ErrShut) {
		t.Fatalf("held up before command %d: it gives %+v, %v", at, r, err)
	}
	if err := s.Counters().Create(t.Context(), persist.Counter{BizTag: testenv.Unique(), Step: 1}); !errors.Is(err, persist.ErrShut) {
		t.Fatalf("held up before command %d: it creates a counter: %v", at, err)
	}
}

// While a store is shut and opened again, what a node is told to be kept is there.
func TestKeptWhileShut(t *testing.T) {
	t.Parallel()
	uri, database := testenv.StartMongo(t).URI(), "seqd_"+testenv.Unique()
	s := same(t, uri, database, nil)
	create(t, s)
	cluster, refused := movedBy("m", 1), 0
	must.Do(t, s.Documents().Create(t.Context(), cluster))
	begun := false
	shutting := same(t, uri, database, everyCommand(func(name string) {
		if !begun || name == "createIndexes" { // it would begin again each time; see TestCreatedWhileShut
			return
		}
		doc := persist.Document{Kind: "answer", Key: testenv.Unique(), Revision: 1}
		if err := s.Documents().Keep(t.Context(), []persist.Document{doc}); err != nil {
			must.Is(t, err, persist.ErrShut)
			refused++
			return
		}
		must.Get(s.Documents().Read(t.Context(), doc.Kind, doc.Key))(t)
	}))
	begun = true
	must.Do(t, shutting.Shut(t.Context(), cluster))
	must.Do(t, shutting.Unshut(t.Context(), cluster))
	begun = false
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// A node that cannot look whether the store is shut does not say that a document is kept.
func TestKeepThatCannotLook(t *testing.T) {
	t.Parallel()
	server, database := testenv.StartMongo(t), "seqd_"+testenv.Unique()
	s := same(t, server.URI(), database, nil)
	create(t, s)
	cluster := movedBy("m", 1)
	must.Do(t, s.Documents().Create(t.Context(), cluster))
	must.Do(t, s.Shut(t.Context(), cluster))
	asked := false
	node := same(t, server.URI(), database, func(o *mongo.Options) {
		o.Timeout = brief
		everyCommand(func(name string) {
			if asked && name == "find" {
				server.Kill()
			}
		})(o)
	})
	asked = true
	if err := node.Documents().Keep(t.Context(), []persist.Document{{Kind: "answer", Key: "a", Revision: 1}}); err == nil {
		t.Error("it says that the document is kept")
	}
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
