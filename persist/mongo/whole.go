package mongo

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seqd/seqd/persist"
)

// Kinds implements [persist.Whole].
func (s *Store) Kinds(ctx context.Context) ([]string, error) {
	return s.distinct(ctx, s.documents.collection, "kind")
}

// Registries implements [persist.Whole].
func (s *Store) Registries(ctx context.Context) ([]string, error) {
	return s.distinct(ctx, s.slots.collection, "_id")
}

// distinct returns the texts that a field has, in byte order.
func (s *Store) distinct(ctx context.Context, in *mongo.Collection, field string) (list []string, err error) {
	ctx, cancel, err := s.slots.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	err = translate(in.Distinct(ctx, field, bson.D{}).Decode(&list))
	slices.Sort(list)
	return list, err
}

// Refill implements [persist.Whole].
func (s *Store) Refill(ctx context.Context, list []persist.Document) error {
	if err := persist.CheckRefilled(list); err != nil {
		return err
	}
	return s.documents.refill(ctx, list)
}
