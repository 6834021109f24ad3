package store

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/mongo"
)

func historyBatch(from, to int64) (batch []persist.HistoryRecord) {
	for n := from; n <= to; n++ {
		batch = append(batch, persist.HistoryRecord{ID: persist.HistoryID(n, 1, uint64(n)), BizType: "order", Time: n, First: n, Last: n, Count: 1})
	}
	return batch
}

// Inserts use majority and journal, are not retried by the driver, and do not stop at a record that
// exists already.
func TestHistoryCommands(t *testing.T) {
	server := testenv.StartMongo(t)
	var c commands
	s := open(t, server.URI(), func(o *mongo.Options) { o.Configure = c.monitor })
	c.forget() // ignore the commands that create the database
	for range 2 {
		must.Do(t, s.History().Append(t.Context(), historyBatch(1, 3)))
	}
	inserts := c.with("insert")
	if len(inserts) != 2 {
		t.Errorf("%d inserts", len(inserts))
	}
	for _, command := range inserts {
		if !strings.Contains(command, `"writeConcern": {"w": "majority","j": true}`) || strings.Contains(command, "txnNumber") ||
			!strings.Contains(command, `"ordered": false`) {
			t.Errorf("not unordered, once, with majority and journal: %s", command)
		}
	}
}

// A document of a newer version, or a damaged one, is an error.
func TestHistoryDocumentsThatAreNotOurs(t *testing.T) {
	server := testenv.StartMongo(t)
	database := "seqd_" + testenv.Unique()
	s := open(t, server.URI(), func(o *mongo.Options) { o.Database = database })
	c := server.Client().Database(database).Collection("history")
	for name, test := range map[string]struct {
		change bson.M
		want   error
	}{
		"newer":            {bson.M{"v": persist.FormatVersion + 1}, persist.ErrNewer},
		"no version":       {bson.M{"v": 0}, persist.ErrInvalid},
		"another biz type": {bson.M{"bizType": "other"}, persist.ErrInvalid},
		"no count":         {bson.M{"count": int64(0)}, persist.ErrInvalid},
		"another time":     {bson.M{"time": bson.DateTime(9)}, persist.ErrInvalid},
	} {
		must.Get(c.DeleteMany(t.Context(), bson.M{}))(t)
		must.Do(t, s.History().Append(t.Context(), historyBatch(1, 1)))
		must.Get(c.UpdateMany(t.Context(), bson.M{}, bson.M{"$set": test.change}))(t)
		must.Is(t, must.Err(s.History().List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: 5})), test.want, "%s", name)
	}
}
