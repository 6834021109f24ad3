package mongo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/persist"
)

// A store is shut record by record. Each statement that changes a record selects v, so a record whose v
// was renamed can still be read, but not changed. A unique index on v keeps records from being added:
// those that have been renamed lack v, and there is one that has it, the guard. All of this names the
// move, so nobody undoes it for another one.
const (
	shutVersion = "shutV"  // v of a record that is shut
	shutBy      = "shutBy" // the move that has shut it
	shutIndex   = "shut_"  // and the move
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

// Shut implements [persist.Shutter].
func (s *Store) Shut(ctx context.Context, cluster persist.Document) error {
	return s.eachToShut(ctx, cluster, shut)
}

// Unshut implements [persist.Shutter].
func (s *Store) Unshut(ctx context.Context, cluster persist.Document) error {
	return s.eachToShut(ctx, cluster, unshut)
}

// eachToShut changes each collection, if cluster is the document of the cluster. A change may take
// minutes, so it has no time-out of its own.
func (s *Store) eachToShut(ctx context.Context, cluster persist.Document, change func(context.Context, *mongo.Collection, string) error) error {
	m, _ := persist.MovedIn(cluster)
	for _, c := range []*mongo.Collection{s.documents.collection, s.counters.collection, s.slots.collection} {
		if has, err := s.documents.Read(ctx, cluster.Kind, cluster.Key); err != nil || has != cluster {
			if err == nil {
				err = fmt.Errorf("%w: the document of the cluster was changed meanwhile", persist.ErrConflict)
			}
			return err
		}
		if err := change(ctx, c, m.Move); err != nil {
			return translate(err)
		}
	}
	return nil
}

func shut(ctx context.Context, c *mongo.Collection, move string) error {
	if c.Name() != documentsName {
		guard := bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: persist.FormatVersion}, {Key: shutBy, Value: move}}}}
		if _, err := c.UpdateOne(ctx, bson.D{{Key: "_id", Value: guardID}}, guard, options.UpdateOne().SetUpsert(true)); err != nil {
			return err
		}
	}
	if err := dropOthers(ctx, c, move); err != nil {
		return err
	}
	others := bson.D{{Key: shutBy, Value: bson.D{{Key: "$exists", Value: true}, {Key: "$ne", Value: move}}}}
	if _, err := c.UpdateMany(ctx, others, bson.D{{Key: "$set", Value: bson.D{{Key: shutBy, Value: move}}}}); err != nil {
		return err
	}
	index := mongo.IndexModel{Keys: bson.D{{Key: "v", Value: 1}}, Options: options.Index().SetName(shutIndex + move).SetUnique(true).SetSparse(true)}
	renamed := bson.D{{Key: "$rename", Value: bson.D{{Key: "v", Value: shutVersion}}}, {Key: "$set", Value: bson.D{{Key: shutBy, Value: move}}}}
	err := error(nil)
	for range rounds {
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

// dropOthers drops the indexes of other moves.
func dropOthers(ctx context.Context, c *mongo.Collection, move string) error {
	list, err := c.Indexes().ListSpecifications(ctx)
	if err != nil {
		return err
	}
	for _, index := range list {
		if strings.HasPrefix(index.Name, shutIndex) && index.Name != shutIndex+move {
			if err := c.Indexes().DropOne(ctx, index.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func unshut(ctx context.Context, c *mongo.Collection, move string) error {
	list, err := c.Indexes().ListSpecifications(ctx)
	if err != nil {
		return err
	}
	for _, index := range list {
		if index.Name == shutIndex+move {
			if err := c.Indexes().DropOne(ctx, index.Name); err != nil {
				return err
			}
		}
	}
	mine := bson.E{Key: shutBy, Value: move}
	if _, err := c.DeleteOne(ctx, bson.D{{Key: "_id", Value: guardID}, mine}); err != nil {
		return err
	}
	_, err = c.UpdateMany(ctx, bson.D{mine}, bson.D{
		{Key: "$rename", Value: bson.D{{Key: shutVersion, Value: "v"}}}, {Key: "$unset", Value: bson.D{{Key: shutBy, Value: ""}}},
	})
	return err
}

// orShut returns ErrShut if the store is shut, and err otherwise.
func (l *link) orShut(ctx context.Context, err error) error {
	if l.guarded.FindOne(ctx, bson.D{{Key: "_id", Value: guardID}}).Err() == nil {
		return persist.ErrShut
	}
	return err
}
