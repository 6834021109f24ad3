package mongo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/persist"
)

// repository keeps models of one kind in one collection, as documents of type D.
type repository[M persist.Record, D interface{ model() (M, error) }] struct {
	collection *mongo.Collection
	document   func(M) D
}

// Create implements [persist.Repository].
func (r *repository[M, D]) Create(ctx context.Context, m M) error {
	if err := m.Validate(); err != nil {
		return err
	}
	_, err := r.collection.InsertOne(ctx, r.document(m))
	return about(m.PersistID(), translate(err))
}

// Read implements [persist.Repository].
func (r *repository[M, D]) Read(ctx context.Context, id string) (m M, err error) {
	var d D
	if err := r.collection.FindOne(ctx, byID(id)).Decode(&d); err != nil {
		return m, about(id, translate(err))
	}
	return d.model()
}

// Update implements [persist.Repository].
func (r *repository[M, D]) Update(ctx context.Context, m M) error {
	return r.replace(ctx, m, byID(m.PersistID()))
}

// replace stores m in place of the document that the filter selects.
func (r *repository[M, D]) replace(ctx context.Context, m M, filter bson.D) error {
	if err := m.Validate(); err != nil {
		return err
	}
	result, err := r.collection.ReplaceOne(ctx, filter, r.document(m))
	if err == nil && result.MatchedCount == 0 {
		err = mongo.ErrNoDocuments
	}
	return about(m.PersistID(), translate(err))
}

// Delete implements [persist.Repository].
func (r *repository[M, D]) Delete(ctx context.Context, id string) error {
	result, err := r.collection.DeleteOne(ctx, byID(id))
	if err == nil && result.DeletedCount == 0 {
		err = mongo.ErrNoDocuments
	}
	return about(id, translate(err))
}

// List implements [persist.Repository].
func (r *repository[M, D]) List(ctx context.Context, after string, limit int) (list []M, err error) {
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}}
	cursor, err := r.collection.Find(ctx, filter, options.Find().SetSort(byIDAscending).SetLimit(int64(limit)))
	if err != nil {
		return nil, translate(err)
	}
	var documents []D
	if err := cursor.All(ctx, &documents); err != nil {
		return nil, translate(err)
	}
	for _, d := range documents {
		m, err := d.model()
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

var byIDAscending = bson.D{{Key: "_id", Value: 1}}

// about says which record an error is about.
func about(id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q: %w", id, err)
}

// counters adds the two operations that ranges move by.
type counters struct {
	repository[persist.Counter, counter]
	now func() time.Time
}

// Update implements [persist.Repository]; one filter makes the comparison and the replacement atomic.
func (c *counters) Update(ctx context.Context, m persist.Counter) error {
	err := c.replace(ctx, m, bson.D{{Key: "_id", Value: m.BizTag}, {Key: "max", Value: bson.D{{Key: "$lte", Value: m.Max}}}})
	if !errors.Is(err, persist.ErrNotFound) {
		return err
	}
	stored, err := c.Read(ctx, m.BizTag)
	if err != nil {
		return err
	}
	return stored.CheckUpdate(m)
}

// Allocate implements [persist.Allocator]: one findAndModify whose filter holds what must be true of the counter, so that the common
// case is one round trip. When nothing matches, the counter is read to see why; a maximum below the floor is raised first. Raising and
// taking are two steps, which is safe: a maximum never goes down but by a give-back, and then the filter fails once more.
func (c *counters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	if err := req.Validate(); err != nil {
		return persist.Range{}, err
	}
	for {
		r, err := c.take(ctx, req)
		if !errors.Is(err, persist.ErrNotFound) {
			return r, err
		}
		stored, err := c.Read(ctx, req.BizTag)
		if err != nil {
			return persist.Range{}, err
		}
		if _, _, err := stored.Allocated(req, 0); err != nil {
			return persist.Range{}, err
		}
		raise := bson.D{{Key: "$max", Value: bson.D{{Key: "max", Value: req.Floor}}}}
		if _, err := c.collection.UpdateOne(ctx, byID(req.BizTag), raise); err != nil {
			return persist.Range{}, about(req.BizTag, translate(err))
		}
	}
}

// take allocates above the maximum as it is, or returns ErrNotFound when that is below the floor or too near to the end.
func (c *counters) take(ctx context.Context, req persist.Request) (persist.Range, error) {
	filter := bson.D{
		{Key: "_id", Value: req.BizTag},
		{Key: "v", Value: persist.FormatVersion},
		{Key: "max", Value: bson.D{{Key: "$gte", Value: req.Floor}, {Key: "$lte", Value: persist.MaxNumber - req.Size}}},
	}
	change := bson.D{{Key: "$inc", Value: bson.D{{Key: "max", Value: req.Size}}}}
	if req.Step > 0 {
		change = append(change, bson.E{Key: "$set", Value: bson.D{{Key: "step", Value: req.Step}, {Key: "timestamp", Value: c.now().UnixMilli()}}})
	}
	var after counter
	err := c.collection.FindOneAndUpdate(ctx, filter, change, options.FindOneAndUpdate().SetReturnDocument(options.After)).Decode(&after)
	if err != nil {
		return persist.Range{}, about(req.BizTag, translate(err))
	}
	r := persist.Range{First: after.Max - req.Size + 1, Last: after.Max}
	return r, r.Validate()
}

// GiveBack implements [persist.Allocator].
func (c *counters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	filter := bson.D{{Key: "_id", Value: bizTag}, {Key: "max", Value: r.Last}}
	result, err := c.collection.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: bson.D{{Key: "max", Value: r.First - 1}}}})
	if err != nil {
		return false, about(bizTag, translate(err))
	}
	if result.MatchedCount == 0 {
		_, err := c.Read(ctx, bizTag) // a counter that is gone is worth an error
		return false, err
	}
	return true, nil
}
