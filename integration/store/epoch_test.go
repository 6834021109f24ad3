package store

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
)

// One query reads the epochs of many counters. A damaged document does not affect the others.
func TestOneDamagedRecordAmongEpochs(t *testing.T) {
	server := testenv.StartMongo(t)
	var database string
	s := open(t, server.URI(), func(o *mongo.Options) { database = o.Database })
	create(t, s)
	documents := server.Client().Database(database).Collection("counters")
	must.Get(documents.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "bad"}, {Key: "v", Value: 1}, {Key: "bizTag", Value: "bad"},
		{Key: "max", Value: int64(1)}, {Key: "step", Value: int64(1)}, {Key: "timestamp", Value: int64(1)}, {Key: "epoch", Value: 5}}))(t)
	// While the first query is under way the other calls gather for the second.
	var failed int
	for range 50 {
		done := make(chan error, 40)
		for range 20 {
			go func() { _, err := s.Counters().Epoch(t.Context(), "order"); done <- err }()
			go func() { _, err := s.Counters().Epoch(t.Context(), "bad"); _ = err; done <- nil }()
		}
		for range 40 {
			if err := <-done; err != nil {
				if failed++; failed == 1 {
					t.Error(err)
				}
			}
		}
	}
	if failed > 0 {
		t.Errorf("%d of 1000 calls about the other counter failed", failed)
	}
}

// The filter of a new cursor treats a field that is missing, null or empty as no epoch, and no
// other value.
func TestRecordsWithoutEpoch(t *testing.T) {
	server := testenv.StartMongo(t)
	var database string
	s := open(t, server.URI(), func(o *mongo.Options) { database = o.Database })
	documents := server.Client().Database(database).Collection("counters")
	for name, epoch := range map[string]any{"missing": bson.D{}, "null": nil, "empty": ""} {
		d := bson.D{{Key: "_id", Value: name}, {Key: "v", Value: 1}, {Key: "bizTag", Value: name},
			{Key: "max", Value: int64(1)}, {Key: "step", Value: int64(1)}, {Key: "timestamp", Value: int64(1)}}
		if name != "missing" {
			d = append(d, bson.E{Key: "epoch", Value: epoch})
		}
		must.Get(documents.InsertOne(t.Context(), d))(t)
		must.Equal(t, must.Get(s.Counters().Epoch(t.Context(), name))(t), "", "%s", name)
		drawn := persist.NewEpoch()
		if _, err := s.Counters().Allocate(t.Context(), persist.Request{BizTag: name, Size: 1, Floor: 10, Gap: 5, To: persist.NewCursor("", drawn)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		must.Equal(t, must.Get(s.Counters().Epoch(t.Context(), name))(t), drawn, "%s", name)
	}
}
