package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
)

// formerID is the cluster ID in the databases that these tests write.
const formerID = "0123456789abcdef0123456789abcdef"

// former is a database in the format of the previous version.
type former struct {
	*testing.T
	server *testenv.Mongo
	*driver.Database
}

// record is a document of the previous version.
func record(id string, fields bson.D) bson.D {
	return append(bson.D{{Key: "_id", Value: id}, {Key: "v", Value: 1}, {Key: "bizTag", Value: id}}, fields...)
}

func formerShape(id, shape string) bson.D {
	return record(id, bson.D{{Key: "shape", Value: shape}, {Key: "timestamp", Value: int64(1790000000003)}})
}

func formerCounter(id string, maximum int64) bson.D {
	return record(id, bson.D{{Key: "max", Value: maximum}, {Key: "step", Value: int64(1000)}, {Key: "timestamp", Value: int64(5)}, {Key: "epoch", Value: ""}})
}

// newFormer writes a database of the previous version.
func newFormer(t *testing.T, server *testenv.Mongo) former {
	t.Helper()
	f := former{t, server, server.Client().Database("seqd_" + testenv.Unique())}
	f.insert("clusters", record("cluster", bson.D{{Key: "cluster", Value: formerID}, {Key: "timestamp", Value: int64(1790000000006)}}))
	f.insert("counters", formerCounter("order", 4200), formerCounter("user@20261120", 7), formerCounter("user@", 20261001))
	f.insert("shapes", formerShape("order", "segment obfuscate(12)"), formerShape("user", "segment daily UTC"), formerShape("user@20261120", "segment"))
	return f
}

func (f former) insert(collection string, documents ...bson.D) {
	f.Helper()
	must.Get(f.Collection(collection).InsertMany(f.Context(), documents))(f)
}

// open opens the store as this version does.
func (f former) open(change ...func(*mongo.Options)) *mongo.Store {
	f.Helper()
	return open(f.T, f.server.URI(), func(o *mongo.Options) {
		o.Database = f.Name()
		for _, c := range change {
			c(o)
		}
	})
}

// version returns the format number of a record. The previous version refuses numbers above 1.
func (f former) version(collection, id string) int {
	f.Helper()
	var stored struct{ V int }
	must.Do(f, f.Collection(collection).FindOne(f.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&stored))
	return stored.V
}

// holds checks that a store has everything that the previous version wrote.
func (f former) holds(s persist.Store) {
	f.Helper()
	ctx, documents := f.Context(), s.Documents()
	if id, err := persist.ClusterID(ctx, s, time.Now); id != formerID || err != nil {
		f.Errorf("the cluster is %q, %v", id, err)
	}
	for bizType, want := range map[string]string{"order": "segment obfuscate(12)", "user": "segment daily UTC"} {
		if got, err := persist.ShapesIn(documents).Read(ctx, bizType); got.Shape != want || got.Timestamp != 1790000000003 || got.Revision != 1 || err != nil {
			f.Errorf("the shape of %s is %+v, %v", bizType, got, err)
		}
	}
	if d, err := documents.Read(ctx, persist.PeriodKind, "user@20261120"); d.Body != "segment" || err != nil {
		f.Errorf("the period is %+v, %v", d, err)
	}
	f.purged(s, 20261001)
	if c, err := s.Counters().Read(ctx, "order"); c.Max != 4200 || err != nil {
		f.Errorf("the counter is %+v, %v", c, err)
	}
}

func (f former) purged(s persist.Store, want int64) {
	f.Helper()
	gone, err := s.Documents().Read(f.Context(), persist.PurgedKind, "user")
	if period, failed := persist.PurgedPeriod(gone); period != want || err != nil || failed != nil {
		f.Errorf("purged up to %d, %v, %v; want %d", period, err, failed, want)
	}
}

// listed returns the keys of all documents of a kind.
func listed(t *testing.T, s persist.Store, kind string) (keys []string) {
	t.Helper()
	for d, err := range persist.EveryDocument(t.Context(), s.Documents(), kind) {
		must.Do(t, err)
		keys = append(keys, d.Key)
	}
	return keys
}

// Nodes that start at the same time on a database of the previous version agree, and so do nodes
// that start later.
func TestUpgrade(t *testing.T) {
	f := newFormer(t, testenv.StartMongo(t))
	var nodes sync.WaitGroup
	for range 4 {
		nodes.Go(func() { f.holds(f.open()) })
	}
	nodes.Wait()
	s := f.open()
	f.holds(s)
	if got := listed(t, s, persist.ShapeKind); !slices.Equal(got, []string{"order", "user"}) {
		t.Errorf("the shapes are those of %q", got)
	}
	if got := listed(t, s, persist.PeriodKind); !slices.Equal(got, []string{"user@20261120"}) {
		t.Errorf("the periods are %q", got)
	}
	if v := f.version("clusters", "cluster"); v != 2 {
		t.Errorf("the record of the cluster has format %d: the previous version would start", v)
	}
	if v := f.version("counters", "order"); v != 1 {
		t.Errorf("a counter has format %d: the nodes of the previous version could not allocate", v)
	}
}

// The previous version refuses to start on a new database too.
func TestNewDatabaseIsRefusedByThePreviousVersion(t *testing.T) {
	f := former{t, testenv.StartMongo(t), nil}
	f.Database = f.server.Client().Database("seqd_" + testenv.Unique())
	first := must.Get(persist.ClusterID(t.Context(), f.open(), time.Now))(t)
	if again, err := persist.ClusterID(t.Context(), f.open(), time.Now); again != first || err != nil {
		t.Errorf("the cluster is %q, and then %q, %v", first, again, err)
	}
	if v := f.version("clusters", "cluster"); v != 2 {
		t.Errorf("the record of the cluster has format %d", v)
	}
}

// errCut ends an upgrade.
var errCut = errors.New("cut off")

// The next start completes an upgrade, wherever it was interrupted.
func TestUpgradeThatIsCutOff(t *testing.T) {
	server := testenv.StartMongo(t)
	for steps := range 100 {
		f := newFormer(t, server)
		left := steps
		s, err := mongo.Open(t.Context(), mongo.Options{
			URI: server.URI(), Database: f.Name(), Timeout: 10 * time.Second, Now: time.Now,
			Admit: func(context.Context) error {
				if left--; left < 0 {
					return errCut
				}
				return nil
			},
		})
		switch {
		case err == nil:
			_ = s.Close()
			if steps < 8 {
				t.Errorf("the upgrade took %d steps", steps)
			}
			return
		case !errors.Is(err, errCut):
			t.Fatal(err)
		}
		f.holds(f.open())
	}
	t.Error("the upgrade never ends")
}

// A database that cannot be upgraded now is read as it is. Either it is opened only for reading, or
// this node started without it.
func TestFormerDatabaseIsRead(t *testing.T) {
	server := testenv.StartMongo(t)
	for name, change := range map[string]func(*mongo.Options){
		"looked at": func(o *mongo.Options) { o.ReadOnly = true },
		"unreached": func(o *mongo.Options) { o.Unreached = true },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFormer(t, server)
			f.holds(f.open(change))
			if v := f.version("clusters", "cluster"); v != 1 {
				t.Errorf("the record of the cluster has format %d", v)
			}
			f.holds(f.open())
		})
	}
}

// Records that nodes of the previous version write after the upgrade are seen.
func TestNodesOfThePreviousVersionThatStillRun(t *testing.T) {
	f := newFormer(t, testenv.StartMongo(t))
	s := f.open()
	ctx, shapes := t.Context(), persist.ShapesIn(s.Documents())
	f.insert("shapes", formerShape("late", "snowflake"), formerShape("raced", "snowflake"), formerShape("user@20261121", "segment"))
	if got, err := shapes.Read(ctx, "late"); got.Shape != "snowflake" || err != nil {
		t.Errorf("the shape is %+v, %v", got, err)
	}
	// The shape was not there when this node read the database.
	must.Is(t, shapes.Create(ctx, "raced", "segment", time.Now()), persist.ErrExists, "a second shape")
	if got, err := shapes.Read(ctx, "raced"); got.Shape != "snowflake" || err != nil {
		t.Errorf("the shape is %+v, %v", got, err)
	}
	if d, err := s.Documents().Read(ctx, persist.PeriodKind, "user@20261121"); err != nil {
		t.Errorf("the period is %+v, %v", d, err)
	}
	if got, err := shapes.Read(ctx, "late"); err == nil {
		if _, err := shapes.Replace(ctx, got, "segment", time.Now()); err != nil {
			t.Error(err)
		}
	}
	f.former("shapes", "late", "shape", "segment")
}

// Nodes of the previous version remove a period. A node of this version whose clock was set back
// notices it when it does not find the period.
func TestPeriodsThatThePreviousVersionRemoves(t *testing.T) {
	f := newFormer(t, testenv.StartMongo(t))
	f.insert("counters", formerCounter("late@", 20261010))
	s := f.open()
	raise := func(bizType string, period int64) {
		t.Helper()
		change := bson.D{{Key: "$set", Value: bson.D{{Key: "max", Value: period}}}}
		must.Get(f.Collection("counters").UpdateByID(t.Context(), bizType+"@", change))(t)
		if d, err := s.Documents().Read(t.Context(), persist.PeriodKind, fmt.Sprint(bizType, "@", period)); !errors.Is(err, persist.ErrNotFound) {
			t.Errorf("the period is %+v, %v", d, err)
		}
		gone, err := s.Documents().Read(t.Context(), persist.PurgedKind, bizType)
		if gone.Body != fmt.Sprint(period) || err != nil {
			t.Errorf("purged is %+v, %v; want %d", gone, err, period)
		}
	}
	raise("user", 20261122)
	raise("user", 20261123)
	raise("late", 20261123)
	f.insert("counters", formerCounter("new@", 1))
	raise("new", 20261123)
	must.Report(t, s.Documents().Update(t.Context(), persist.PurgedDocument("user", 20261201, 4, 8)))
	f.former("counters", "user@", "max", 20261201)
}

// A node of the previous version, whose clock was set back too, begins a period and removes it
// while a node of this version begins it.
func TestPeriodThatIsRemovedWhileItBegins(t *testing.T) {
	f := newFormer(t, testenv.StartMongo(t))
	s := f.open()
	period := persist.Document{Kind: persist.PeriodKind, Key: "user@20261002", Revision: 1, Body: "segment", Timestamp: 1}
	if d, err := s.Documents().Read(t.Context(), period.Kind, period.Key); !errors.Is(err, persist.ErrNotFound) {
		t.Fatalf("the period is %+v, %v", d, err)
	}
	must.Get(f.Collection("counters").UpdateByID(t.Context(), "user@", bson.D{{Key: "$set", Value: bson.D{{Key: "max", Value: 20261003}}}}))(t)
	must.Do(t, s.Documents().Create(t.Context(), period))
	f.purged(s, 20261003)
}

// former checks a field of a record where the previous version reads it. nil means no record.
func (f former) former(collection, id, field string, want any) {
	f.Helper()
	var got bson.M
	err := f.Collection(collection).FindOne(f.Context(), bson.D{{Key: "_id", Value: id}}).Decode(&got)
	switch {
	case want == nil && errors.Is(err, driver.ErrNoDocuments):
	case err != nil || fmt.Sprint(got[field]) != fmt.Sprint(want) || fmt.Sprint(got["v"]) != "1" || got["bizTag"] != id:
		f.Errorf("%s %s is %v, %v; want %s %v", collection, id, got, err, field, want)
	}
}

// Running nodes of the previous version see the records of this version.
func TestThePreviousVersionSeesWhatIsRecorded(t *testing.T) {
	f := newFormer(t, testenv.StartMongo(t))
	s := f.open()
	ctx, documents := t.Context(), s.Documents()
	period := persist.Document{Kind: persist.PeriodKind, Key: "user@20261122", Revision: 1, Body: "segment", Timestamp: 1}
	must.Do(t, errors.Join(persist.ShapesIn(documents).Create(ctx, "new", "segment", time.UnixMilli(7)), documents.Create(ctx, period),
		documents.Update(ctx, persist.PurgedDocument("user", 20261015, 2, 8)), documents.Create(ctx, persist.PurgedDocument("other", 20261016, 1, 8))))
	f.former("shapes", "new", "shape", "segment")
	f.former("shapes", "user@20261122", "shape", "segment")
	f.former("counters", "user@", "max", 20261015)
	f.former("counters", "other@", "max", 20261016)
	f.purged(s, 20261015)
	must.Do(t, documents.Delete(ctx, persist.PeriodKind, period.Key, 1))
	f.former("shapes", period.Key, "", nil)
	if d, err := documents.Read(ctx, persist.PeriodKind, period.Key); !errors.Is(err, persist.ErrNotFound) {
		t.Errorf("the period is %+v, %v", d, err)
	}
}

// A layout that is newer than this version is refused, and is not changed.
func TestNewerLayoutIsRefused(t *testing.T) {
	f := newFormer(t, testenv.StartMongo(t))
	must.Get(f.Collection("clusters").UpdateByID(t.Context(), "cluster", bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 3}}}}))(t)
	_, err := mongo.Open(t.Context(), mongo.Options{URI: f.server.URI(), Database: f.Name(), Timeout: 10 * time.Second, Now: time.Now})
	must.Is(t, err, persist.ErrNewer)
	if v := f.version("clusters", "cluster"); v != 3 {
		t.Errorf("the format became %d", v)
	}
}

// Unreadable shapes do not stop other records from being copied, and are not treated as missing.
func TestUpgradeOfDamagedShapes(t *testing.T) {
	f := newFormer(t, testenv.StartMongo(t))
	f.insert("shapes", record("empty", bson.D{{Key: "shape", Value: ""}}), record("number", bson.D{{Key: "shape", Value: 5}}))
	s := f.open()
	f.holds(s)
	for _, name := range []string{"empty", "number"} {
		if got, err := persist.ShapesIn(s.Documents()).Read(t.Context(), name); err == nil || errors.Is(err, persist.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if err := persist.ShapesIn(s.Documents()).Create(t.Context(), name, "segment", time.Now()); err == nil {
			t.Errorf("%s was created", name)
		}
	}
}

// What this version removes is known to the previous version before anything is removed, even if
// the change is cut off, and even if another node goes on with what it finds.
func TestRemovedPeriodsAreKnownToThePreviousVersionFirst(t *testing.T) {
	server := testenv.StartMongo(t)
	for steps := range 100 {
		f := newFormer(t, server)
		f.open()
		left := steps
		cut := f.open(func(o *mongo.Options) {
			o.Unreached = true // so that only the change is cut off
			o.Admit = func(context.Context) error {
				if left--; left < 0 {
					return errCut
				}
				return nil
			}
		})
		err := cut.Documents().Update(t.Context(), persist.PurgedDocument("user", 20261120, 2, 8))
		gone := must.Get(f.open().Documents().Read(t.Context(), persist.PurgedKind, "user"))(t)
		if gone.Body == "20261120" {
			f.former("counters", "user@", "max", 20261120)
		}
		if err == nil {
			return
		}
	}
	t.Error("the change never ends")
}

// A node that began without its store refuses a newer layout too, and so does a command that only
// looks.
func TestNewerLayoutIsRefusedLater(t *testing.T) {
	server := testenv.StartMongo(t)
	for name, change := range map[string]func(*mongo.Options){
		"looked at": func(o *mongo.Options) { o.ReadOnly = true },
		"unreached": func(o *mongo.Options) { o.Unreached = true },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFormer(t, server)
			f.open()
			must.Get(f.Collection("clusters").UpdateByID(t.Context(), "cluster", bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: 3}}}}))(t)
			if c, err := persist.ReadCluster(t.Context(), f.open(change).Documents()); !errors.Is(err, persist.ErrNewer) {
				t.Errorf("the cluster is %+v, %v", c, err)
			}
		})
	}
}

// A damaged record of removed periods keeps only its own biz type from issuing.
func TestUpgradeOfDamagedTombstones(t *testing.T) {
	f := newFormer(t, testenv.StartMongo(t))
	f.insert("counters", record("number@", bson.D{{Key: "max", Value: "x"}}), append(formerCounter("epoch@", 20261001)[:6], bson.E{Key: "epoch", Value: 5}))
	s := f.open()
	f.holds(s)
	for _, name := range []string{"number", "epoch"} {
		if d, err := s.Documents().Read(t.Context(), persist.PeriodKind, name+"@20261001"); err == nil || errors.Is(err, persist.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
}

// A damaged record of the cluster is an error that does not pass: the start must not wait for ever.
func TestUpgradeOfDamagedCluster(t *testing.T) {
	f := newFormer(t, testenv.StartMongo(t))
	must.Get(f.Collection("clusters").UpdateByID(t.Context(), "cluster", bson.D{{Key: "$set", Value: bson.D{{Key: "cluster", Value: 5}}}}))(t)
	_, err := mongo.Open(t.Context(), mongo.Options{URI: f.server.URI(), Database: f.Name(), Timeout: 10 * time.Second, Now: time.Now})
	if !errors.Is(err, persist.ErrInvalid) || errors.Is(err, persist.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
