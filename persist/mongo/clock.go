package mongo

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seqd/seqd/persist"
)

// clock is the clock of the primary.
type clock struct {
	*link
	admin *mongo.Database
}

// now returns the time in ms since the Unix epoch.
func (c clock) now(ctx context.Context) (int64, error) {
	ctx, cancel, err := c.begin(ctx)
	defer cancel()
	if err != nil {
		return 0, err
	}
	raw, err := c.admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
	if err != nil {
		return 0, translate(err)
	}
	now, ok := raw.Lookup("localTime").DateTimeOK()
	if !ok || now < 0 || now > persist.MaxNumber {
		return 0, fmt.Errorf("%w: the MongoDB server does not tell its clock", persist.ErrInvalid)
	}
	return now, nil
}
