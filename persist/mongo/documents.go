package mongo

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/seqd/seqd/persist"
)

// documents keeps each document under the _id "<kind>/<key>". A change selects the revision that it
// follows, so of concurrent changes one wins.
type documents struct {
	repository[persist.Document, storedDocument]
	clusters, shapes *mongo.Collection // of format 1; see checkFormat
	readOnly         bool              // make no index
	indexed          atomic.Bool
}

var _ persist.Documents = (*documents)(nil)

// storedDocument is how a document is read.
type storedDocument struct {
	ID        string        `bson:"_id"`
	Version   bson.RawValue `bson:"v"`
	Shut      bson.RawValue `bson:"shutV"`
	BizTag    string        `bson:"bizTag"`
	Kind      string        `bson:"kind"`
	Revision  bson.RawValue `bson:"revision"`
	Body      string        `bson:"body"`
	Timestamp bson.RawValue `bson:"timestamp"`
	Expires   bson.RawValue `bson:"expires"`
}

func (s storedDocument) model() (m persist.Document, err error) {
	if err := checkDocument(s.ID, s.BizTag, versionOf(s.Version, s.Shut)); err != nil {
		return m, err
	}
	m.Kind, m.Key, m.Body = s.Kind, strings.TrimPrefix(s.ID, s.Kind+"/"), s.Body
	for field, from := range map[*int64]bson.RawValue{&m.Revision: s.Revision, &m.Timestamp: s.Timestamp, &m.Expires: s.Expires} {
		var ok bool
		if *field, ok = integer(from); !ok {
			return m, damaged(s.ID)
		}
	}
	if m.PersistID() != s.ID {
		return m, damaged(s.ID)
	}
	return m, m.Validate()
}

// Create implements [persist.Documents].
func (d *documents) Create(ctx context.Context, doc persist.Document) error {
	if err := doc.CheckNew(); err != nil {
		return err
	}
	return d.repository.Create(ctx, doc)
}

// Read implements [persist.Documents].
func (d *documents) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if err := persist.CheckDocument(kind, key); err != nil {
		return persist.Document{}, err
	}
	if kind == persist.ClusterKind {
		// Open may not have looked, and whoever uses the store begins here.
		if err := d.checkFormat(ctx); err != nil {
			return persist.Document{}, err
		}
	}
	return d.repository.Read(ctx, documentID(kind, key))
}

// Update implements [persist.Documents].
func (d *documents) Update(ctx context.Context, doc persist.Document) error {
	if err := doc.Validate(); err != nil {
		return err
	}
	err := d.replace(ctx, doc, ofRevision(doc.Kind, doc.Key, doc.Revision-1))
	err = persist.WhyNotRevision(ctx, d, doc.Kind, doc.Key, doc.Revision-1, err)
	if errors.Is(err, persist.ErrConflict) {
		err = d.orShut(ctx, err)
	}
	return err
}

// Delete implements [persist.Documents].
func (d *documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	if err := persist.CheckDocument(kind, key); err != nil {
		return err
	}
	err := d.remove(ctx, documentID(kind, key), ofRevision(kind, key, revision))
	return persist.WhyNotRevision(ctx, d, kind, key, revision, err)
}

// List implements [persist.Documents].
func (d *documents) List(ctx context.Context, kind, after string, limit int) (list []persist.Document, err error) {
	if err := persist.CheckDocuments(kind, after); err != nil {
		return nil, err
	}
	if limit <= 0 { // the server would take it for no limit
		return nil, nil
	}
	// "0" is the character after "/".
	ids := bson.D{{Key: "$gt", Value: documentID(kind, after)}, {Key: "$lt", Value: kind + "0"}}
	return d.find(ctx, bson.D{{Key: "_id", Value: ids}}, limit)
}

// Due implements [persist.Documents].
func (d *documents) Due(ctx context.Context, kind string, before int64, limit int) (list []persist.Document, err error) {
	if err := persist.CheckDocuments(kind, ""); err != nil || limit <= 0 {
		return nil, err
	}
	ctx, cancel, err := d.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	if err := d.index(ctx); err != nil {
		return nil, err
	}
	// Within a kind _id orders as the key does.
	earliest := options.Find().SetSort(bson.D{{Key: "expires", Value: 1}, {Key: "_id", Value: 1}}).SetLimit(int64(limit))
	cursor, err := d.collection.Find(ctx, bson.D{{Key: "kind", Value: kind}, {Key: "expires", Value: expired(before)}}, earliest)
	if err != nil {
		return nil, translate(err)
	}
	defer func() { _ = cursor.Close(ctx) }() // Err says what failed
	for cursor.Next(ctx) {
		var stored storedDocument
		if cursor.Decode(&stored) != nil {
			continue
		}
		if doc, err := stored.model(); err == nil {
			list = append(list, doc)
		}
	}
	return list, translate(cursor.Err())
}

// Keep implements [persist.Documents].
func (d *documents) Keep(ctx context.Context, list []persist.Document) error {
	if err := persist.CheckKept(list); err != nil {
		return err
	}
	return d.refill(ctx, list)
}

// refill is Keep for documents of any revision.
func (d *documents) refill(ctx context.Context, list []persist.Document) error {
	if len(list) == 0 {
		return ctx.Err()
	}
	written := make([]bson.D, len(list))
	for i, doc := range list {
		written[i] = document(doc)
	}
	return d.insert(ctx, d.collection, written)
}

// expired selects documents that expired before a time.
func expired(before int64) bson.D {
	return bson.D{{Key: "$gt", Value: int64(0)}, {Key: "$lt", Value: before}}
}

// Purge implements [persist.Documents].
func (d *documents) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	if err := persist.CheckPurge(kind); err != nil || limit <= 0 {
		return 0, err
	}
	bounded, cancel, err := d.begin(ctx)
	defer cancel()
	if err != nil {
		return 0, err
	}
	if err := d.index(bounded); err != nil {
		return 0, err
	}
	due, err := d.find(ctx, bson.D{{Key: "kind", Value: kind}, {Key: "expires", Value: expired(before)}}, limit)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	ids := make(bson.A, len(due))
	for i, doc := range due {
		ids[i] = doc.PersistID()
	}
	// A document that was changed meanwhile and expires later by now stays.
	result, err := d.collection.DeleteMany(bounded, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: ids}}}, {Key: "expires", Value: expired(before)}})
	if err != nil {
		return 0, translate(err)
	}
	return int(result.DeletedCount), nil
}

// index creates the index that Due and Purge use, unless this process has done so. A store that is
// only looked at does without.
func (d *documents) index(ctx context.Context) error {
	if d.readOnly || d.indexed.Load() {
		return nil
	}
	_, err := d.collection.Indexes().CreateOne(ctx, mongo.IndexModel{
		Keys: bson.D{{Key: "kind", Value: 1}, {Key: "expires", Value: 1}}, Options: options.Index().SetName("expiry"),
	})
	if err == nil {
		d.indexed.Store(true)
	}
	return translate(err)
}

func ofRevision(kind, key string, revision int64) bson.D {
	return append(known(documentID(kind, key)), bson.E{Key: "revision", Value: revision})
}

func documentID(kind, key string) string { return persist.Document{Kind: kind, Key: key}.PersistID() }
