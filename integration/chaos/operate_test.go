package chaos

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/config"
	_ "github.com/seqd/seqd/standard"
)

// Every wrong Redis is a valid configuration that differs from the correct one.
func TestOtherRedises(t *testing.T) {
	l := &laboratory{world: &world{second: &redisServer{host: &host{addr: "10.77.0.24"}, port: redisPort}}}
	n := &seqd{home: []string{"SEQD_REDIS_ADDRS=10.77.0.11:26379", "SEQD_REDIS_MASTERNAME=" + masterName}}
	read := func(env []string) config.Redis {
		cfg := must.Get(config.Load(config.Sources{Env: append(slices.Clone(env), "SEQD_STORE_DRIVER=mongo", `SEQD_BIZTYPES=[{"name":"order"}]`)}))(t)
		return cfg.Redis
	}
	home := read(n.home)
	for _, way := range otherRedises {
		r := read(l.otherEnv(n, way))
		if slices.Equal(r.Addrs, home.Addrs) && r.KeyPrefix == home.KeyPrefix && r.DB == home.DB {
			t.Errorf("%s is the same: %+v", way, r)
		}
	}
}

// A restore brings back the state of the backup: changed, deleted and new documents.
func TestBackup(t *testing.T) {
	m := testenv.StartMongo(t)
	client := must.Get(mongo.Connect(options.Client().ApplyURI(m.URI())))(t)
	ctx := t.Context()
	t.Cleanup(func() { _ = client.Disconnect(context.WithoutCancel(ctx)) })
	db := client.Database(m.Database())
	counters := db.Collection("counters")
	insert := func(collection, id string, number int64) {
		t.Helper()
		must.Get(db.Collection(collection).InsertOne(ctx, bson.D{{Key: "_id", Value: id}, {Key: "max", Value: number}}))(t)
	}
	insert("counters", "order", 100)
	insert("counters", "bill", 7)
	kept := must.Get(readAll(ctx, db))(t)
	insert("counters", "late", 50)
	insert("shapes", "late", 1)
	_, changed := counters.UpdateByID(ctx, "order", bson.D{{Key: "$set", Value: bson.D{{Key: "max", Value: 900}}}})
	_, deleted := counters.DeleteOne(ctx, bson.D{{Key: "_id", Value: "bill"}})
	must.Do(t, errors.Join(changed, deleted, replaceAll(ctx, db, kept)))
	got, err := readCounters(ctx, db)
	if want := map[string]int64{"order": 100, "bill": 7}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if n, err := db.Collection("shapes").CountDocuments(ctx, bson.D{}); n != 0 || err != nil {
		t.Errorf("%d shapes, %v", n, err)
	}
}
