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

// upgrade upgrades a database of the former layout. Several nodes may do so at once, and any of
// them may crash after any step: every step can be repeated, and none overwrites a document. The
// first step raises the layout, so that no node of the previous version starts afterwards. See
// [former] for those that run.
func (s *Store) upgrade(ctx context.Context) error {
	f := &s.documents.former
	record, err := f.raiseLayout(ctx)
	if err != nil {
		return err
	}
	if f.upgraded = record.Upgraded; f.upgraded {
		return nil
	}
	for _, step := range []func(context.Context, storedCluster) error{s.copyCluster, s.copyShapes, s.copyPurged} {
		if err := step(ctx, record); err != nil {
			return err
		}
	}
	f.upgraded = true
	return f.setCluster(ctx, bson.E{Key: "upgraded", Value: true})
}

// raiseLayout sets the layout in the record of the cluster, and returns the record.
func (f *former) raiseLayout(ctx context.Context) (record storedCluster, err error) {
	for range rounds {
		record, err = f.readCluster(ctx)
		if errors.Is(err, persist.ErrNotFound) {
			if err = f.insertCluster(ctx); err == nil || errors.Is(err, persist.ErrExists) {
				continue
			}
		}
		if err != nil {
			return record, err
		}
		v, err := record.layout()
		if err != nil || v == layout {
			return record, err
		}
		if err := f.setCluster(ctx, bson.E{Key: "v", Value: layout}); err != nil {
			return record, err
		}
	}
	return record, fmt.Errorf("%w: the record of the cluster changes too often", persist.ErrUnavailable)
}

func (f *former) readCluster(ctx context.Context) (record storedCluster, err error) {
	ctx, cancel, err := f.begin(ctx)
	defer cancel()
	if err != nil {
		return record, err
	}
	return decode[storedCluster](f.clusters.FindOne(ctx, bson.D{{Key: "_id", Value: clusterID}}), clusterID)
}

// checkLayout returns an error if the layout is newer than this build knows.
func (f *former) checkLayout(ctx context.Context) error {
	record, err := f.readCluster(ctx)
	if err == nil {
		_, err = record.layout()
	}
	if errors.Is(err, persist.ErrNotFound) {
		return nil
	}
	return err
}

// insertCluster creates the record in a database that has none.
func (f *former) insertCluster(ctx context.Context) error {
	ctx, cancel, err := f.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	_, err = f.clusters.InsertOne(ctx, bson.D{{Key: "_id", Value: clusterID}, {Key: "v", Value: layout}, {Key: "bizTag", Value: clusterID}})
	return translate(err)
}

// setCluster sets a field of the record, unless the record is of a newer layout.
func (f *former) setCluster(ctx context.Context, field bson.E) error {
	ctx, cancel, err := f.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	filter := bson.D{{Key: "_id", Value: clusterID}, between("v", 1, layout)}
	_, err = f.clusters.UpdateOne(ctx, filter, bson.D{{Key: "$set", Value: bson.D{field}}})
	return translate(err)
}

// copyCluster copies the ID, unless there is a document.
func (s *Store) copyCluster(ctx context.Context, record storedCluster) error {
	doc, err := record.document()
	if errors.Is(err, persist.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.documents.repository.Create(ctx, doc); !errors.Is(err, persist.ErrExists) {
		return err
	}
	there, err := persist.ReadCluster(ctx, &s.documents)
	if err == nil && there.ID != doc.Body {
		err = fmt.Errorf("%w: the database has two cluster IDs, %s and %s", persist.ErrInvalid, doc.Body, there.ID)
	}
	return err
}

// copied is how many records are read at a time.
const copied = 1000

// copyShapes copies the shapes. A damaged shape is not copied: reading its document finds it in its
// former place, and returns the error.
func (s *Store) copyShapes(ctx context.Context, _ storedCluster) error {
	f := s.documents.former
	return f.each(ctx, f.shapes, func(page []bson.Raw) error {
		var docs []any
		for _, raw := range page {
			var shape storedShape
			if bson.Unmarshal(raw, &shape) != nil {
				continue
			}
			if d, err := shape.document(); err == nil {
				docs = append(docs, document(d))
			}
		}
		return s.documents.insertMissing(ctx, docs)
	})
}

// insertMissing creates the documents that do not exist.
func (d *documents) insertMissing(ctx context.Context, docs []any) error {
	if len(docs) == 0 {
		return nil
	}
	ctx, cancel, err := d.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	_, err = d.collection.InsertMany(ctx, docs, options.InsertMany().SetOrdered(false))
	if onlyDuplicates(err) {
		return nil
	}
	return translate(err)
}

// copyPurged copies which periods were removed. Reading such a document copies it.
func (s *Store) copyPurged(ctx context.Context, _ storedCluster) error {
	return s.documents.former.each(ctx, s.counters.collection, func(page []bson.Raw) error {
		for _, raw := range page {
			bizType, ok := strings.CutSuffix(raw.Lookup("_id").StringValue(), "@")
			if !ok {
				continue
			}
			if _, err := s.documents.Read(ctx, persist.PurgedKind, bizType); errors.Is(err, persist.ErrUnavailable) {
				return err // any other error is returned to the reader of the document
			}
		}
		return ctx.Err()
	})
}

// each reads a collection page after page.
func (f *former) each(ctx context.Context, from *mongo.Collection, do func(page []bson.Raw) error) error {
	for after := ""; ; {
		page, err := f.page(ctx, from, after)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := do(page); err != nil {
			return err
		}
		if len(page) < copied {
			return nil
		}
		after = page[len(page)-1].Lookup("_id").StringValue()
	}
}

// page reads the records whose _id, a text, is greater than after.
func (f *former) page(ctx context.Context, from *mongo.Collection, after string) (page []bson.Raw, err error) {
	ctx, cancel, err := f.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$gt", Value: after}}}}
	cursor, err := from.Find(ctx, filter, options.Find().SetSort(byIDAscending).SetLimit(copied))
	if err != nil {
		return nil, translate(err)
	}
	err = cursor.All(ctx, &page)
	return page, translate(err)
}
