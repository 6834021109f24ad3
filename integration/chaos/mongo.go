package chaos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// mongoStore is the stand-in for MongoDB, or a server outside the laboratory.
type mongoStore struct {
	one *storeServer // nil if it is outside
	at  string
}

func newMongoStore(w *world, binary string) (*mongoStore, error) {
	s, err := newStoreServer(w, loneStore, 31, "256m")
	if err != nil {
		return nil, err
	}
	m := &mongoStore{one: s, at: s.addr(mongoPort)}
	s.command = func() *exec.Cmd { return s.host.command(binary, "-listen", m.at, "-dir", s.disk) }
	s.ready = func() error { // it listens when it is ready
		conn, err := net.DialTimeout("tcp", m.at, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	}
	return m, nil
}

func (m *mongoStore) start() error {
	if m.one == nil {
		return nil
	}
	return m.one.start()
}

func (m *mongoStore) addr() string               { return m.at }
func (m *mongoStore) server(string) *storeServer { return m.one }

func (m *mongoStore) env(addr string) []string {
	return []string{"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + storeURI(addr), "SEQD_STORE_MONGO_DATABASE=" + storeDatabase()}
}

// with calls a function with the database, without the faults of links.
func (m *mongoStore) with(ctx context.Context, do func(*mongo.Database) error) error {
	client, err := mongo.Connect(options.Client().ApplyURI(storeURI(m.at)))
	if err != nil {
		return err
	}
	return errors.Join(do(client.Database(storeDatabase())), client.Disconnect(ctx))
}

func (m *mongoStore) backup(ctx context.Context) (putBack func(context.Context) error, err error) {
	var documents map[string][]any // by collection
	err = m.with(ctx, func(db *mongo.Database) (err error) { documents, err = readAll(ctx, db); return err })
	return func(ctx context.Context) error {
		return m.with(ctx, func(db *mongo.Database) error { return replaceAll(ctx, db, documents) })
	}, err
}

func (m *mongoStore) counters(ctx context.Context) (all map[string]int64, err error) {
	err = m.with(ctx, func(db *mongo.Database) (err error) { all, err = readCounters(ctx, db); return err })
	return all, err
}

// readAll reads all collections.
func readAll(ctx context.Context, db *mongo.Database) (all map[string][]any, err error) {
	names, err := db.ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return nil, err
	}
	all = map[string][]any{}
	for _, name := range names {
		var documents []bson.D
		found, err := db.Collection(name).Find(ctx, bson.D{})
		if err == nil {
			err = found.All(ctx, &documents)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		for _, d := range documents {
			all[name] = append(all[name], d)
		}
	}
	return all, nil
}

// replaceAll makes a database what it was when its documents were read.
func replaceAll(ctx context.Context, db *mongo.Database, all map[string][]any) error {
	names, err := db.ListCollectionNames(ctx, bson.D{})
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := db.Collection(name).DeleteMany(ctx, bson.D{}); err != nil {
			return fmt.Errorf("empty %s: %w", name, err)
		}
	}
	for name, documents := range all {
		if len(documents) == 0 {
			continue
		}
		if _, err := db.Collection(name).InsertMany(ctx, documents); err != nil {
			return fmt.Errorf("put back %s: %w", name, err)
		}
	}
	return nil
}

// readCounters returns the maxima of all counters.
func readCounters(ctx context.Context, db *mongo.Database) (all map[string]int64, err error) {
	var counters []struct {
		Name string `bson:"_id"`
		Max  int64
	}
	found, err := db.Collection("counters").Find(ctx, bson.D{})
	if err == nil {
		err = found.All(ctx, &counters)
	}
	all = map[string]int64{}
	for _, c := range counters {
		all[c.Name] = c.Max
	}
	return all, named("read the counters", err)
}
