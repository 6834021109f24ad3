package mongo

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/seqd/seqd/persist"
)

// format is the format of a database. A newer build that changes it raises v in the record cluster
// of the collection clusters. A database without that record has this format too.
const format = 2

// checkFormat returns ErrNewer or ErrOlder unless this build can read the database. Format 1 kept
// the cluster's ID in that record, and shapes and removed periods outside the documents. A database
// that was being upgraded from it has format 2, but not all of its documents.
func (d *documents) checkFormat(ctx context.Context) error {
	ctx, cancel, err := d.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	var record struct {
		Version  bson.RawValue `bson:"v"`
		Upgraded bool          `bson:"upgraded"`
	}
	const id = "cluster"
	raw, err := d.clusters.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Raw()
	if err = translate(err); errors.Is(err, persist.ErrNotFound) {
		return d.checkFirst(ctx)
	}
	if err != nil {
		return err
	}
	if bson.Unmarshal(raw, &record) != nil {
		return damaged(id)
	}
	switch v, ok := integer(record.Version); {
	case !ok || v < 1:
		return damaged(id)
	case v > format:
		return fmt.Errorf("%w: its format is %d, this build knows %d", persist.ErrNewer, v, format)
	case v < format || !record.Upgraded:
		return persist.ErrOlder
	}
	return nil
}

// checkFirst returns ErrOlder if the very first builds wrote the database: they kept shapes, and
// neither a record of the format nor documents.
func (d *documents) checkFirst(ctx context.Context) error {
	_, err := d.shapes.FindOne(ctx, bson.D{}).Raw()
	if err = translate(err); err == nil {
		if _, err = d.collection.FindOne(ctx, bson.D{}).Raw(); errors.Is(translate(err), persist.ErrNotFound) {
			return persist.ErrOlder
		}
		err = translate(err)
	}
	if errors.Is(err, persist.ErrNotFound) {
		return nil
	}
	return err
}
