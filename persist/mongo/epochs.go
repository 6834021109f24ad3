package mongo

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/persist"
)

// storedEpoch is how the epoch of a counter is read.
type storedEpoch struct {
	ID      string        `bson:"_id"`
	Version bson.RawValue `bson:"v"`
	Shut    bson.RawValue `bson:"shutV"`
	// raw: one damaged record must not fail the query for all others
	BizTag bson.RawValue `bson:"bizTag"`
	Epoch  bson.RawValue `bson:"epoch"`
}

// found returns the epoch. Records of the first versions have none.
func (e storedEpoch) found() persist.FoundEpoch {
	bizTag, _ := e.BizTag.StringValueOK()
	epoch, ok := e.Epoch.StringValueOK()
	if !ok && !e.Epoch.IsZero() && e.Epoch.Type != bson.TypeNull {
		return persist.FoundEpoch{Err: damaged(e.ID)}
	}
	return persist.FoundEpoch{Epoch: epoch, Err: checkDocument(e.ID, bizTag, versionOf(e.Version, e.Shut))}
}

// findEpochs reads the epochs of some counters.
func (c *counters) findEpochs(ctx context.Context, bizTags []string) (map[string]persist.FoundEpoch, error) {
	ctx, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	fields := bson.D{{Key: "v", Value: 1}, {Key: shutVersion, Value: 1}, {Key: "bizTag", Value: 1}, {Key: "epoch", Value: 1}}
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bizTags}}}}
	cursor, err := c.collection.Find(ctx, filter, options.Find().SetProjection(fields))
	if err != nil {
		return nil, translate(err)
	}
	var documents []storedEpoch
	if err := cursor.All(ctx, &documents); err != nil {
		return nil, translate(err)
	}
	found := make(map[string]persist.FoundEpoch, len(documents))
	for _, d := range documents {
		found[d.ID] = d.found()
	}
	return found, nil
}
