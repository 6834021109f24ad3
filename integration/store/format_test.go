package store

import (
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
)

// TestMongoFormat checks that a database of another format is refused whoever opens it, and never
// taken for an empty one.
func TestMongoFormat(t *testing.T) {
	server := testenv.StartMongo(t)
	record := func(id string, v any, more ...bson.E) bson.D {
		return append(bson.D{{Key: "_id", Value: id}, {Key: "v", Value: v}, {Key: "bizTag", Value: id}}, more...)
	}
	shape := record("order", 1, bson.E{Key: "shape", Value: "segment"})
	upgraded := bson.E{Key: "upgraded", Value: true}
	for name, tt := range map[string]struct {
		clusters, shapes bson.D // one record each, or none
		document         bool   // there is one
		want             error
	}{
		"new":                         {},
		"of this format":              {clusters: record("cluster", 2, upgraded), shapes: shape},
		"begun by a node on its own":  {shapes: shape, document: true},
		"format 1":                    {clusters: record("cluster", 1, bson.E{Key: "cluster", Value: "0123456789abcdef0123456789abcdef"}), shapes: shape, want: persist.ErrOlder},
		"an upgrade that was cut off": {clusters: record("cluster", 2), shapes: shape, document: true, want: persist.ErrOlder},
		"of the first builds":         {shapes: shape, want: persist.ErrOlder},
		"newer":                       {clusters: record("cluster", 3, upgraded), want: persist.ErrNewer},
		"a format that is no number":  {clusters: record("cluster", "x", upgraded), want: persist.ErrInvalid},
		"a record of other fields":    {clusters: record("cluster", 2, bson.E{Key: "upgraded", Value: "x"}), want: persist.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			db := server.Client().Database("seqd_" + testenv.Unique())
			documents := map[bool]int{true: 1}[tt.want == nil] // that of the cluster
			for collection, d := range map[string]bson.D{"clusters": tt.clusters, "shapes": tt.shapes} {
				if d != nil {
					must.Get(db.Collection(collection).InsertOne(t.Context(), d))(t)
				}
			}
			if tt.document {
				must.Get(db.Collection("documents").InsertOne(t.Context(), record("token/a", 1)))(t)
				documents++
			}
			for _, change := range []func(*mongo.Options){
				func(o *mongo.Options) { o.ReadOnly = true }, func(o *mongo.Options) { o.Unreached = true }, func(*mongo.Options) {},
			} {
				o := mongo.Options{URI: server.URI(), Database: db.Name(), Timeout: patient, Now: time.Now}
				change(&o)
				s, err := mongo.Open(t.Context(), o)
				if err == nil {
					_, err = persist.ClusterID(t.Context(), s, time.Now)
					must.Do(t, s.Close())
				}
				if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
					t.Errorf("%+v: %v, want %v", o, err, tt.want)
				}
			}
			if n, err := db.Collection("documents").CountDocuments(t.Context(), bson.D{}); int(n) != documents || err != nil {
				t.Errorf("there are %d documents, %v, want %d", n, err, documents)
			}
		})
	}
}
