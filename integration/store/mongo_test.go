// Package store tests the drivers for servers on real ones: MongoDB, PostgreSQL, MySQL and MariaDB.
package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
	"github.com/seqd/seqd/persist/persisttest"
)

// open opens a store in a new database on the server behind uri.
func open(t *testing.T, uri string, change func(*mongo.Options)) *mongo.Store {
	t.Helper()
	o := mongo.Options{URI: uri, Database: "seqd_" + testenv.Unique(), Timeout: patient, Now: time.Now}
	if change != nil {
		change(&o)
	}
	if o.Timeout < patient {
		prepare(t, o, mongo.Open, func(o *mongo.Options) { o.Timeout = patient })
	}
	s := must.Get(mongo.Open(t.Context(), o))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// patient is a time-out that is long enough for everything, on a loaded machine too.
const patient = time.Minute

// brief is the time-out of a store that meets a fault. What comes before and after the fault must fit
// into it too.
const brief = 2 * time.Second

// prepare creates what a store keeps its records in. A store with a short time-out might fail to.
func prepare[O any, S io.Closer](t testing.TB, o O, open func(context.Context, O) (S, error), change func(*O)) {
	t.Helper()
	change(&o)
	s, err := open(t.Context(), o)
	if err == nil {
		err = s.Close()
	}
	must.Do(t, err)
}

func create(t *testing.T, s persist.Store) {
	t.Helper()
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Step: 10}))
}

func allocate(ctx context.Context, s persist.Store) (persist.Range, error) {
	return s.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 10, Step: 10})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	server := testenv.StartMongo(t)
	persisttest.Run(t, func(t *testing.T, now func() time.Time) persist.Store {
		return open(t, server.URI(), func(o *mongo.Options) { o.Now = now })
	})
}

// A store tells how many connections it may have. After its operations none is in use.
func TestMongoPool(t *testing.T) {
	t.Parallel()
	s := open(t, testenv.StartMongo(t).URI()+"/?maxPoolSize=2", nil)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := s.Now(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	p := s.Pool()
	must.Equal(t, p.Most, 2, "connections there may be")
	must.Equal(t, p.InUse, 0, "connections in use")
	if p.Waits > 0 != (p.Waited > 0) {
		t.Errorf("%d operations waited for %s", p.Waits, p.Waited)
	}
}

// Connections that were opened for a burst of operations are closed when idle.
func TestIdleConnectionsAreClosed(t *testing.T) {
	longtest.Only(t)
	var opened, closed atomic.Int64
	s := open(t, testenv.StartMongo(t).URI()+"/?maxIdleTimeMS=100", func(o *mongo.Options) {
		o.Configure = func(c *options.ClientOptions) {
			c.SetPoolMonitor(&event.PoolMonitor{Event: func(e *event.PoolEvent) {
				switch e.Type {
				case event.ConnectionCreated:
					opened.Add(1)
				case event.ConnectionClosed:
					closed.Add(1)
				}
			}})
		}
	})
	create(t, s)
	var burst sync.WaitGroup
	for range 30 {
		burst.Go(func() {
			must.Report(t, must.Err(allocate(t.Context(), s)))
		})
	}
	burst.Wait()
	// the driver checks every 10 s
	await.True(t, "all connections are closed", func() bool { return opened.Load() <= closed.Load() })
	if opened.Load() < 2 {
		t.Errorf("only %d connections were opened", opened.Load())
	}
}

// commands collects the commands that a client sends.
type commands struct {
	mu   sync.Mutex
	sent []string
}

func (c *commands) monitor(o *options.ClientOptions) {
	o.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sent = append(c.sent, e.Command.String())
	}})
}

func (c *commands) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = nil
}

func (c *commands) with(name string) (found []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, command := range c.sent {
		if strings.HasPrefix(command, `{"`+name+`":`) {
			found = append(found, command)
		}
	}
	return found
}

// The stand-in ignores write concerns, so the test checks the commands: every write has majority
// and journal, whether or not the URI says so, and no write is retried.
func TestWriteConcern(t *testing.T) {
	server := testenv.StartMongo(t)
	var c commands
	s := open(t, server.URI(), func(o *mongo.Options) { o.Configure = c.monitor })
	c.forget() // ignore the commands that create the database
	create(t, s)
	r, err := allocate(t.Context(), s)
	must.Do(t, err)
	_, giveBack := s.Counters().GiveBack(t.Context(), "order", r)
	documents, token := s.Documents(), persist.Document{Kind: "token", Key: "a", Revision: 1}
	changed := token
	changed.Revision++
	err = errors.Join(giveBack,
		documents.Create(t.Context(), token),
		documents.Update(t.Context(), changed),
		documents.Delete(t.Context(), "token", "a", 2),
		s.Counters().Delete(t.Context(), "order"))
	must.Do(t, err)
	for name, want := range map[string]int{"insert": 2, "findAndModify": 1, "update": 2, "delete": 2} {
		sent := c.with(name)
		if len(sent) != want {
			t.Errorf("%d commands %s, want %d", len(sent), name, want)
		}
		for _, command := range sent {
			if !strings.Contains(command, `"writeConcern": {"w": "majority","j": true}`) {
				t.Errorf("not with majority and journal: %s", command)
			}
			if strings.Contains(command, "txnNumber") {
				t.Errorf("can be retried: %s", command)
			}
		}
	}
	if finds := c.with("find"); len(finds) != 0 {
		t.Errorf("the common path reads first: %s", finds)
	}
}

// If the answer to an allocation is lost, the range is skipped and the next one is above it.
func TestLostReply(t *testing.T) {
	server := testenv.StartMongo(t)
	link := testenv.NewLink(t, server.Addr())
	s := open(t, fmt.Sprintf("mongodb://%s/", link.Addr()), func(o *mongo.Options) { o.Timeout = brief })
	create(t, s)
	first := must.Get(allocate(t.Context(), s))(t)
	link.DropReplies()
	if r, err := allocate(t.Context(), s); err == nil {
		t.Fatalf("got %v without a reply", r)
	} else if !errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	link.Restore()
	second := awaitRange(t, s)
	if second.First <= first.Last {
		t.Errorf("after %v came %v", first, second)
	}
}

// awaitRange retries until the driver has found the server again.
func awaitRange(t *testing.T, s persist.Store) (r persist.Range) {
	t.Helper()
	await.Eventually(t, "a range comes", func() (err error) { r, err = allocate(t.Context(), s); return err })
	return r
}

// Every operation times out while the server hangs, and acknowledged writes survive kill -9.
func TestServerHangsDiesAndReturns(t *testing.T) {
	longtest.Only(t)
	server := testenv.StartMongo(t)
	s := open(t, server.URI(), func(o *mongo.Options) { o.Timeout = brief })
	create(t, s)
	first := must.Get(allocate(t.Context(), s))(t)
	server.Pause()
	began := time.Now()
	if r, err := allocate(t.Context(), s); err == nil {
		t.Errorf("got %v from a server that hangs", r)
	}
	must.Is(t, must.Err(s.Counters().Read(t.Context(), "order")), persist.ErrUnavailable, "read")
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("two operations of at most 2s took %s", took)
	}
	server.Resume()
	server.Kill()
	must.Is(t, must.Err(allocate(t.Context(), s)), persist.ErrUnavailable, "from a dead server")
	server.Restart()
	second := awaitRange(t, s)
	if second.First <= first.Last {
		t.Errorf("after %v came %v", first, second)
	}
}

// Two stores concurrently allocate from the same counter with different floors. No number is
// allocated twice, or below its floor.
func TestConcurrentFloors(t *testing.T) {
	server := testenv.StartMongo(t)
	database := "seqd_" + testenv.Unique()
	var ranges [4][]persist.Range
	var wg sync.WaitGroup
	for i := range ranges {
		s := open(t, server.URI(), func(o *mongo.Options) { o.Database = database })
		if i == 0 {
			create(t, s)
		}
		wg.Go(func() {
			for round := range 30 {
				floor := int64(round*100 + i*37)
				r, err := s.Counters().Allocate(context.Background(), persist.Request{BizTag: "order", Size: 3, Floor: floor})
				if err != nil || r.First <= floor {
					t.Errorf("above %d came %v, %v", floor, r, err)
				}
				ranges[i] = append(ranges[i], r)
			}
		})
	}
	wg.Wait()
	seen := make(map[int64]bool)
	for _, list := range ranges {
		for _, r := range list {
			for n := r.First; n <= r.Last; n++ {
				if seen[n] {
					t.Fatalf("%d was allocated twice", n)
				}
				seen[n] = true
			}
		}
	}
}

// A document of a newer version, or a damaged one, is an error and is not changed.
func TestDocumentsThatAreNotOurs(t *testing.T) {
	server := testenv.StartMongo(t)
	for name, test := range map[string]struct {
		change bson.M
		want   error
	}{
		"newer":          {bson.M{"$set": bson.M{"v": persist.FormatVersion + 1, "new": "x"}}, persist.ErrNewer},
		"no version":     {bson.M{"$unset": bson.M{"v": ""}}, persist.ErrInvalid},
		"no max":         {bson.M{"$unset": bson.M{"max": ""}}, persist.ErrInvalid},
		"null max":       {bson.M{"$set": bson.M{"max": nil}}, persist.ErrInvalid},
		"true max":       {bson.M{"$set": bson.M{"max": true}}, persist.ErrInvalid},
		"text max":       {bson.M{"$set": bson.M{"max": "5"}}, persist.ErrInvalid},
		"another bizTag": {bson.M{"$set": bson.M{"bizTag": "other"}}, persist.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			database := "seqd_" + testenv.Unique()
			s := open(t, server.URI(), func(o *mongo.Options) { o.Database = database })
			must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 100, Step: 10}))
			c := server.Client().Database(database).Collection("counters")
			must.Get(c.UpdateOne(t.Context(), bson.M{"_id": "order"}, test.change))(t)
			before := c.FindOne(t.Context(), bson.M{"_id": "order"})
			_, read := s.Counters().Read(t.Context(), "order")
			_, allocated := s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, Floor: 500})
			given, giveBack := s.Counters().GiveBack(t.Context(), "order", persist.Range{First: 51, Last: 100})
			_, raise := s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Floor: 200})
			for what, err := range map[string]error{"read": read, "allocate": allocated, "give back": giveBack, "raise": raise} {
				must.Is(t, err, test.want, "%s", what)
			}
			if given {
				t.Error("numbers were returned")
			}
			old, err1 := before.Raw()
			now, err2 := c.FindOne(t.Context(), bson.M{"_id": "order"}).Raw()
			if err1 != nil || err2 != nil || !bytes.Equal(old, now) {
				t.Errorf("%v became %v, %v, %v", old, now, err1, err2)
			}
		})
	}
}

// Damaged documents, and those of a newer version, do not hide what else is due.
func TestDueLeavesOutWhatIsNotOurs(t *testing.T) {
	server := testenv.StartMongo(t)
	database := "seqd_" + testenv.Unique()
	s := open(t, server.URI(), func(o *mongo.Options) { o.Database = database })
	for i, key := range []string{"newer", "damaged", "odd", "fine"} {
		must.Do(t, s.Documents().Create(t.Context(), persist.Document{Kind: "ledger", Key: key, Revision: 1, Expires: int64(1 + i)}))
	}
	c := server.Client().Database(database).Collection("documents")
	for id, change := range map[string]bson.M{
		"ledger/newer": {"v": persist.FormatVersion + 1}, "ledger/damaged": {"revision": "x"}, "ledger/odd": {"body": 5},
	} {
		must.Get(c.UpdateOne(t.Context(), bson.M{"_id": id}, bson.M{"$set": change}))(t)
	}
	due, err := s.Documents().Due(t.Context(), "ledger", 100, 10)
	if err != nil || len(due) != 1 || due[0].Key != "fine" {
		t.Errorf("%+v, %v", due, err)
	}
}

// An operation ends after the store's time-out, even if its context allows more time.
func TestTimeoutIsABound(t *testing.T) {
	server := testenv.StartMongo(t)
	link := testenv.NewLink(t, server.Addr())
	s := open(t, fmt.Sprintf("mongodb://%s/", link.Addr()), func(o *mongo.Options) { o.Timeout = brief })
	create(t, s)
	link.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	began := time.Now()
	_, err := allocate(ctx, s)
	if took := time.Since(began); !errors.Is(err, persist.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) || took > 2*time.Minute {
		t.Errorf("after %s: %v", took, err)
	}
	link.Resume()
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for uri, want := range map[string]string{
		"mongodb://127.0.0.1:1/":     "127.0.0.1:1",
		"mongodb://127.0.0.1:1/?w=1": "w or journal",
		"nonsense":                   "connection string",
		"mongodb+srv://no.invalid/":  "name service",
	} {
		_, err := mongo.Open(t.Context(), mongo.Options{URI: uri, Database: "seqd", Timeout: 300 * time.Millisecond, Now: time.Now})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "store.mongo.uri") {
			t.Errorf("%s: %v", uri, err)
		}
	}
}
