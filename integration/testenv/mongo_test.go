package testenv_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// counter is a document like that of a counter in seqd.
type counter struct {
	ID  string `bson:"_id"`
	Max int64  `bson:"max"`
}

// counters returns the collection of a test, with the guarantees that seqd needs.
func counters(m *testenv.Mongo, client *mongo.Client) *mongo.Collection {
	journal := true
	return client.Database(m.Database()).Collection("counters", options.Collection().
		SetWriteConcern(&writeconcern.WriteConcern{W: "majority", Journal: &journal}).SetReadPreference(readpref.Primary()))
}

// connect returns a new client.
func connect(t *testing.T, uri string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(20 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	return client
}

// insert inserts a counter.
func insert(t *testing.T, c *mongo.Collection, id string, start int64) {
	t.Helper()
	if _, err := c.InsertOne(t.Context(), counter{id, start}); err != nil {
		t.Fatal(err)
	}
}

// take adds n and returns the counter after it.
func take(ctx context.Context, c *mongo.Collection, id string, n int64) (got counter, err error) {
	after := options.FindOneAndUpdate().SetReturnDocument(options.After)
	err = c.FindOneAndUpdate(ctx, bson.M{"_id": id}, bson.M{"$inc": bson.M{"max": n}}, after).Decode(&got)
	return got, err
}

// hammer takes 32 × 200 numbers, through the clients in turn, and checks that all of them are
// distinct.
func hammer(t *testing.T, m *testenv.Mongo, clients []*mongo.Client) {
	t.Helper()
	const workers, each = 32, 200
	insert(t, counters(m, clients[0]), "a", 0)
	taken := make([][]int64, workers)
	var wait sync.WaitGroup
	for w := range workers {
		c := counters(m, clients[w%len(clients)])
		wait.Go(func() {
			for range each {
				got, err := take(t.Context(), c, "a", 1)
				if err != nil {
					t.Error(err)
					return
				}
				taken[w] = append(taken[w], got.Max)
			}
		})
	}
	wait.Wait()
	for w, own := range taken {
		if !slices.IsSorted(own) {
			t.Errorf("worker %d got %v", w, own)
		}
	}
	all := slices.Sorted(slices.Values(slices.Concat(taken...)))
	if len(all) != workers*each || all[0] != 1 || all[len(all)-1] != workers*each || len(slices.Compact(all)) != workers*each {
		t.Errorf("%d numbers from %d to %d", len(all), all[0], all[len(all)-1])
	}
}

func TestMongoCountsThroughOneClient(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	m := testenv.StartMongo(t)
	hammer(t, m, []*mongo.Client{m.Client()})
}

func TestMongoCountsThroughManyClients(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	m := testenv.StartMongo(t)
	var clients []*mongo.Client
	for range 16 {
		clients = append(clients, connect(t, m.URI()))
	}
	hammer(t, m, clients)
}

func TestMongoDoesWhatASequenceNeeds(t *testing.T) {
	t.Parallel()
	m := testenv.StartMongo(t)
	c := counters(m, m.Client())
	insert(t, c, "a", 99)
	if _, err := c.InsertOne(t.Context(), counter{"a", 1}); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("a second insert: %v", err)
	}
	if _, err := take(t.Context(), c, "b", 1); !errors.Is(err, mongo.ErrNoDocuments) {
		t.Errorf("a missing counter: %v", err)
	}
	if _, err := c.UpdateOne(t.Context(), bson.M{"_id": "a"}, bson.M{"$max": bson.M{"max": int64(1) << 52}}); err != nil {
		t.Errorf("$max: %v", err)
	}
	if got, err := take(t.Context(), c, "a", 1000); err != nil || got.Max != 1<<52+1000 {
		t.Errorf("%v, %v", got, err)
	}
	only := bson.M{"_id": "a", "max": int64(1)<<52 + 1000}
	if result, err := c.UpdateOne(t.Context(), only, bson.M{"$set": bson.M{"max": int64(7)}}); err != nil || result.ModifiedCount != 1 {
		t.Errorf("compare and set: %v, %v", result, err)
	}
	if result, err := c.UpdateOne(t.Context(), only, bson.M{"$set": bson.M{"max": int64(8)}}); err != nil || result.MatchedCount != 0 {
		t.Errorf("compare and set again: %v, %v", result, err)
	}
	unique := mongo.IndexModel{Keys: bson.D{{Key: "max", Value: 1}}, Options: options.Index().SetUnique(true)}
	if _, err := c.Indexes().CreateOne(t.Context(), unique); err != nil {
		t.Errorf("create an index: %v", err)
	}
	if _, err := c.InsertOne(t.Context(), counter{"c", 7}); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("a second 7: %v", err)
	}
}

func TestMongoConcurrentInserts(t *testing.T) {
	t.Parallel()
	m := testenv.StartMongo(t)
	c := counters(m, m.Client())
	results := make(chan error)
	for range 16 {
		go func() { _, err := c.InsertOne(t.Context(), counter{"a", 0}); results <- err }()
	}
	inserted := 0
	for range 16 {
		if err := <-results; err == nil {
			inserted++
		} else if !mongo.IsDuplicateKeyError(err) {
			t.Error(err)
		}
	}
	if inserted != 1 {
		t.Errorf("%d inserts of one key", inserted)
	}
}

func TestMongoLargeMessages(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	m := testenv.StartMongo(t)
	c := counters(m, m.Client())
	var documents []any
	for i := range 3 {
		documents = append(documents, bson.M{"_id": i, "blob": bytes.Repeat([]byte{byte(i)}, 10<<20)})
	}
	if _, err := c.InsertMany(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	var got struct{ Blob []byte }
	if err := c.FindOne(t.Context(), bson.M{"_id": 2}).Decode(&got); err != nil || len(got.Blob) != 10<<20 || got.Blob[9] != 2 {
		t.Errorf("%d bytes, %v", len(got.Blob), err)
	}
}

func TestMongoUnacknowledged(t *testing.T) {
	t.Parallel()
	m := testenv.StartMongo(t)
	c := counters(m, m.Client())
	insert(t, c, "a", 0)
	careless := m.Client().Database(m.Database()).Collection("counters", options.Collection().SetWriteConcern(writeconcern.Unacknowledged()))
	for range 50 {
		if _, err := careless.UpdateOne(t.Context(), bson.M{"_id": "a"}, bson.M{"$inc": bson.M{"max": int64(1)}}); err != nil {
			t.Fatal(err)
		}
	}
	await.Eventually(t, "all of them arrive", func() error {
		got, err := take(t.Context(), c, "a", 0)
		if err == nil && got.Max != 50 {
			err = fmt.Errorf("%d", got.Max)
		}
		return err
	})
}

func TestMongoKillKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	m := testenv.StartMongo(t)
	c := counters(m, connect(t, m.URI()))
	insert(t, c, "a", 0)
	acknowledged := int64(0)
	for range 3 {
		started, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for n := 0; ; n++ {
				ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
				got, err := take(ctx, c, "a", 1)
				cancel()
				if err != nil {
					return
				}
				acknowledged = got.Max
				if n == 50 {
					close(started)
				}
			}
		}()
		select {
		case <-started:
		case <-stopped:
			t.Fatal("a call failed before the kill")
		}
		m.Kill()
		<-stopped
		m.Restart()
		await.Eventually(t, "the counter is there again", func() error {
			got, err := take(t.Context(), c, "a", 0)
			// one under way, and one retry at most
			if err == nil && (got.Max < acknowledged || got.Max > acknowledged+2) {
				t.Fatalf("%d after %d was acknowledged", got.Max, acknowledged)
			}
			return err
		})
	}
}

func TestMongoPause(t *testing.T) {
	t.Parallel()
	m := testenv.StartMongo(t)
	c := counters(m, m.Client())
	insert(t, c, "a", 0)
	m.Pause()
	brief, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if _, err := take(brief, c, "a", 1); err == nil {
		t.Error("a paused server answers")
	}
	m.Resume()
	await.Eventually(t, "it resumes", func() error { _, err := take(t.Context(), c, "a", 0); return err })
}

func TestMongoSnapshot(t *testing.T) {
	t.Parallel()
	m := testenv.StartMongo(t)
	c := counters(m, m.Client())
	insert(t, c, "a", 1)
	m.Kill()
	old := m.Snapshot()
	m.Restart()
	await.Eventually(t, "count on", func() error { _, err := take(t.Context(), c, "a", 100); return err })
	m.Kill()
	m.RestoreSnapshot(old)
	m.Restart()
	var got counter
	await.Eventually(t, "read", func() error { return c.FindOne(t.Context(), bson.M{"_id": "a"}).Decode(&got) })
	if got.Max != 1 {
		t.Errorf("restored %v", got)
	}
}

func TestMongoLinkDropsReplies(t *testing.T) {
	t.Parallel()
	m := testenv.StartMongo(t)
	l := testenv.NewLink(t, m.Addr())
	c := counters(m, connect(t, "mongodb://"+l.Addr()+"/?retryWrites=false"))
	insert(t, c, "a", 0)
	l.DropReplies()
	ctx, cancel := context.WithCancel(t.Context())
	reply := make(chan error)
	go func() { _, err := take(ctx, c, "a", 1); reply <- err }()
	direct := counters(m, m.Client())
	await.Eventually(t, "the update was made", func() error {
		got, err := take(t.Context(), direct, "a", 0)
		if err == nil && got.Max != 1 {
			err = fmt.Errorf("max is %d", got.Max)
		}
		return err
	})
	cancel()
	if err := <-reply; err == nil {
		t.Error("a reply came through")
	}
	l.Restore()
	await.Eventually(t, "the link works again", func() error { _, err := take(t.Context(), c, "a", 0); return err })
}

func TestForeignMongo(t *testing.T) {
	theirs := testenv.StartMongo(t)
	t.Setenv(testenv.MongoEnv, theirs.URI())
	var database string
	t.Run("use", func(t *testing.T) {
		m := testenv.StartMongo(t)
		database = m.Database()
		if m.URI() != theirs.URI() || database == theirs.Database() {
			t.Errorf("%s, %s", m.URI(), database)
		}
		insert(t, counters(m, m.Client()), "a", 1)
	})
	names, err := theirs.Client().ListDatabaseNames(t.Context(), bson.M{})
	if err != nil || slices.Contains(names, database) {
		t.Errorf("left behind: %v, %v", names, err)
	}
}
