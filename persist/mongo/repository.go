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

// link is what every operation passes before it uses the server.
type link struct {
	timeout time.Duration
	admit   func(context.Context) error // nil admits all
	guarded *mongo.Collection           // has a guard while the store is shut
}

// begin returns a context with the deadline of an operation, or why the operation is not admitted.
// The client library ignores its own time-out if the context has a deadline.
func (l *link) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if l.admit != nil {
		if err := l.admit(ctx); err != nil {
			return ctx, func() {}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	return ctx, cancel, nil
}

// repository keeps the records of one type in one collection; D is how they are read.
type repository[M persist.Record, D interface{ model() (M, error) }] struct {
	*link
	collection *mongo.Collection
}

// Create implements [persist.Counters].
func (r *repository[M, D]) Create(ctx context.Context, m M) error {
	if err := m.Validate(); err != nil {
		return err
	}
	ctx, cancel, err := r.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	_, err = r.collection.InsertOne(ctx, document(m))
	if err = translate(err); errors.Is(err, persist.ErrExists) {
		err = r.orShut(ctx, err)
	}
	return about(m.PersistID(), err)
}

// Read implements [persist.Counters].
func (r *repository[M, D]) Read(ctx context.Context, id string) (m M, err error) {
	ctx, cancel, err := r.begin(ctx)
	defer cancel()
	if err != nil {
		return m, err
	}
	var d D
	if err := r.collection.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Decode(&d); err != nil {
		return m, about(id, translate(err))
	}
	return d.model()
}

// replace stores m in place of the document that the filter selects, or returns ErrNotFound.
func (r *repository[M, D]) replace(ctx context.Context, m M, filter bson.D) error {
	if err := m.Validate(); err != nil {
		return err
	}
	ctx, cancel, err := r.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	result, err := r.collection.ReplaceOne(ctx, filter, document(m))
	if err == nil && result.MatchedCount == 0 {
		err = mongo.ErrNoDocuments
	}
	return about(m.PersistID(), translate(err))
}

// whyNot finds out why a filter selected nothing: reading the record says whether it is damaged or
// of another format.
func (r *repository[M, D]) whyNot(ctx context.Context, id string, err error) error {
	if !errors.Is(err, persist.ErrNotFound) {
		return err
	}
	if _, readErr := r.Read(ctx, id); readErr != nil {
		return readErr
	}
	return err
}

// Delete implements [persist.Counters].
func (r *repository[M, D]) Delete(ctx context.Context, id string) error {
	return r.whyNot(ctx, id, r.remove(ctx, id, known(id)))
}

// remove deletes the record that a filter selects, or returns ErrNotFound.
func (r *repository[M, D]) remove(ctx context.Context, id string, filter bson.D) error {
	ctx, cancel, err := r.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	result, err := r.collection.DeleteOne(ctx, filter)
	if err == nil && result.DeletedCount == 0 {
		err = mongo.ErrNoDocuments
	}
	return about(id, translate(err))
}

// List implements [persist.Counters].
func (r *repository[M, D]) List(ctx context.Context, after string, limit int) (list []M, err error) {
	if limit <= 0 { // the server would take it for no limit
		return nil, nil
	}
	return r.find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}}, limit)
}

// find returns at most limit records, more than 0, that a filter selects, in byte order of their
// persist IDs.
func (r *repository[M, D]) find(ctx context.Context, filter bson.D, limit int) (list []M, err error) {
	ctx, cancel, err := r.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
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

// about wraps an error with the name of the record.
func about(id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q: %w", id, err)
}
