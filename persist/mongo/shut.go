package mongo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/persist"
)

// A store is shut record by record. Each statement that changes a record selects v, so a record whose v
// was renamed can still be read, but not changed. A unique index on v keeps records from being added:
// those that have been renamed lack v, and there is one that has it, the guard.
//
// All of this has the number of the move, [persist.Moved.Marked], and a later move of a store has a higher
// one. A command changes only what has its own number or a lower one. So a command that was held up, while
// another one has ended its move and begun the next, neither opens the store nor takes it over. Records
// that it has shut too late stay as they are: they have no v either, and the index keeps it from giving
// them one.
const (
	shutVersion = "shutV"  // v of a record that is shut
	shutBy      = "shutBy" // the number of the move that has shut it
	shutIndex   = "shut_"  // and the number of the move
	guardID     = 0        // no record has a number as its _id
)

// hasVersion selects the records that can be changed. The document of the cluster always can, and is
// the guard of the documents.
func hasVersion() bson.D {
	return bson.D{{Key: "v", Value: bson.D{{Key: "$exists", Value: true}}}, {Key: "_id", Value: bson.D{{Key: "$nin", Value: bson.A{guardID, clusterID}}}}}
}

var clusterID = documentID(persist.ClusterKind, persist.ClusterKey)

// versionOf returns the format of a record, also of one that is shut.
func versionOf(v, shut bson.RawValue) bson.RawValue {
	if v.IsZero() {
		return shut
	}
	return v
}

// Shut implements [persist.Shutter]. The guard of the counters comes first, because it tells nodes why
// the store refuses them.
func (s *Store) Shut(ctx context.Context, cluster persist.Document) error {
	return s.eachToShut(ctx, cluster, shut, s.counters.collection, s.slots.collection, s.documents.collection)
}

// Unshut implements [persist.Shutter]. The guard of the counters goes last.
func (s *Store) Unshut(ctx context.Context, cluster persist.Document) error {
	return s.eachToShut(ctx, cluster, unshut, s.documents.collection, s.slots.collection, s.counters.collection)
}

// eachToShut changes each collection, if cluster is the document of the cluster. A change may take
// minutes, so it has no time-out of its own.
func (s *Store) eachToShut(ctx context.Context, cluster persist.Document, change func(context.Context, *mongo.Collection, int64) error, collections ...*mongo.Collection) error {
	m, _ := persist.MovedIn(cluster)
	for _, c := range collections {
		if has, err := s.documents.Read(ctx, cluster.Kind, cluster.Key); err != nil || has != cluster {
			return cmp.Or(err, errChanged)
		}
		if err := change(ctx, c, m.Marked); err != nil {
			return translate(err)
		}
	}
	return nil
}

var errChanged = fmt.Errorf("%w: the document of the cluster was changed meanwhile", persist.ErrConflict)

func shut(ctx context.Context, c *mongo.Collection, move int64) error {
	if c.Name() != documentsName {
		if err := setGuard(ctx, c, move); err != nil {
			return err
		}
	}
	renamed := bson.D{{Key: "$rename", Value: bson.D{{Key: "v", Value: shutVersion}}}, {Key: "$set", Value: bson.D{{Key: shutBy, Value: move}}}}
	index := mongo.IndexModel{Keys: bson.D{{Key: "v", Value: 1}}, Options: options.Index().SetName(indexOf(move)).SetUnique(true).SetSparse(true)}
	err := error(nil)
	for range rounds {
		if err := dropIndexes(ctx, c, move-1); err != nil {
			return err
		}
		if _, err := c.UpdateMany(ctx, hasVersion(), renamed); err != nil {
			return err
		}
		_, err = c.Indexes().CreateOne(ctx, index) // fails also if somebody has added a record
		rest := c.FindOne(ctx, hasVersion()).Err()
		if err == nil && errors.Is(rest, mongo.ErrNoDocuments) {
			return nil
		}
		if rest != nil && !errors.Is(rest, mongo.ErrNoDocuments) {
			return rest
		}
	}
	return errors.Join(err, fmt.Errorf("the collection %s does not become free of new records: end every seqd", c.Name()))
}

// setGuard adds the guard, or takes over that of an earlier move.
func setGuard(ctx context.Context, c *mongo.Collection, move int64) error {
	guard := bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: persist.FormatVersion}, {Key: shutBy, Value: move}}}}
	_, err := c.UpdateOne(ctx, bson.D{{Key: "_id", Value: guardID}, shutUpTo(move)}, guard, options.UpdateOne().SetUpsert(true))
	if mongo.IsDuplicateKeyError(err) { // that of a later move
		return errChanged
	}
	return err
}

// shutUpTo selects what a move or an earlier one has shut.
func shutUpTo(move int64) bson.E {
	return bson.E{Key: shutBy, Value: bson.D{{Key: "$lte", Value: move}}}
}

func indexOf(move int64) string { return shutIndex + strconv.FormatInt(move, 10) }

// dropIndexes drops the indexes of moves up to one.
func dropIndexes(ctx context.Context, c *mongo.Collection, last int64) error {
	list, err := c.Indexes().ListSpecifications(ctx)
	if err != nil {
		return err
	}
	for _, index := range list {
		number, ok := strings.CutPrefix(index.Name, shutIndex)
		if move, err := strconv.ParseInt(number, 10, 64); !ok || err != nil || move > last {
			continue
		}
		if err := c.Indexes().DropOne(ctx, index.Name); err != nil {
			return err
		}
	}
	return nil
}

func unshut(ctx context.Context, c *mongo.Collection, move int64) error {
	if err := dropIndexes(ctx, c, move); err != nil {
		return err
	}
	if _, err := c.DeleteOne(ctx, bson.D{{Key: "_id", Value: guardID}, shutUpTo(move)}); err != nil {
		return err
	}
	_, err := c.UpdateMany(ctx, bson.D{shutUpTo(move)}, bson.D{
		{Key: "$rename", Value: bson.D{{Key: shutVersion, Value: "v"}}}, {Key: "$unset", Value: bson.D{{Key: shutBy, Value: ""}}},
	})
	return err
}

// orShut returns ErrShut if the store is shut, and err otherwise. If that cannot be seen, it returns why.
func (l *link) orShut(ctx context.Context, err error) error {
	switch failed := l.guarded.FindOne(ctx, bson.D{{Key: "_id", Value: guardID}}).Err(); {
	case failed == nil:
		return persist.ErrShut
	case errors.Is(failed, mongo.ErrNoDocuments):
		return err
	default:
		return translate(failed)
	}
}
