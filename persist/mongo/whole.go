package mongo

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/persist"
)

// Kinds implements [persist.Whole]. It reads one document of each kind.
func (s *Store) Kinds(ctx context.Context) (kinds []string, err error) {
	for above := ""; ; above = kinds[len(kinds)-1] + "0" { // the character after "/"
		next, err := s.documents.find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: above}}}}, 1)
		if err != nil || len(next) == 0 {
			return kinds, err
		}
		kinds = append(kinds, next[0].Kind)
	}
}

// Registries implements [persist.Whole].
func (s *Store) Registries(ctx context.Context) (names []string, err error) {
	ctx, cancel, err := s.slots.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	cursor, err := s.slots.collection.Find(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$ne", Value: guardID}}}}, options.Find().SetProjection(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		return nil, translate(err)
	}
	var found []struct {
		ID string `bson:"_id"`
	}
	if err := cursor.All(ctx, &found); err != nil {
		return nil, translate(err)
	}
	for _, f := range found {
		names = append(names, f.ID)
	}
	slices.Sort(names)
	return names, nil
}

// Refill implements [persist.Whole].
func (s *Store) Refill(ctx context.Context, list []persist.Document) error {
	if err := persist.CheckRefilled(list); err != nil {
		return err
	}
	return s.documents.refill(ctx, list)
}

// FillCounters implements [persist.CounterFiller].
func (s *Store) FillCounters(ctx context.Context, list []persist.Counter) error {
	written := make([]bson.D, len(list))
	for i, c := range list {
		if err := c.Validate(); err != nil {
			return err
		}
		written[i] = document(c)
	}
	ctx, cancel, err := s.counters.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	_, err = s.counters.collection.InsertMany(ctx, written, options.InsertMany().SetOrdered(false))
	return translate(err)
}
