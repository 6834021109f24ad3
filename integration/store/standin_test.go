package store

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
)

// TestAbandonedQueries shows that the server tells the present after queries that ran out of time.
// The SQLite driver below the stand-in once left such a query open on a connection, which then read
// what the database had been at that moment, for ever.
func TestAbandonedQueries(t *testing.T) {
	server := testenv.StartMongo(t)
	c := server.Client().Database(server.Database()).Collection("c")
	// Such a document takes milliseconds to read, so the time ends in the middle.
	must.Get(c.InsertOne(t.Context(), bson.M{"_id": "large", "text": strings.Repeat("x", 8<<20)}))(t)
	must.Get(c.InsertOne(t.Context(), bson.M{"_id": "counter", "n": 0}))(t)
	for n := range 20 {
		var reply bson.M
		_ = server.Client().Database(server.Database()).RunCommand(t.Context(), bson.D{
			{Key: "find", Value: "c"}, {Key: "filter", Value: bson.M{"_id": "large"}}, {Key: "maxTimeMS", Value: 1 + n%5},
		}).Decode(&reply)
		must.Get(c.UpdateOne(t.Context(), bson.M{"_id": "counter"}, bson.M{"$inc": bson.M{"n": 1}}))(t)
		for range 3 {
			var got struct{ N int }
			must.Do(t, c.FindOne(t.Context(), bson.M{"_id": "counter"}).Decode(&got))
			if got.N != n+1 {
				t.Fatalf("after %d updates the server says %d", n+1, got.N)
			}
		}
	}
}
