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

// history keeps each record as one document whose _id is "<biz type>/<ID>". So the index on _id
// gives the records of a biz type in the order of time, refuses duplicates, and is the only one
// needed.
type history struct {
	*link
	collection *mongo.Collection
}

var _ persist.HistoryStore = (*history)(nil)

// storedHistory is a record as it is written and read. The biz type and the date are there for
// people with a shell.
type storedHistory struct {
	ID        string               `bson:"_id"`
	Version   int                  `bson:"v"`
	BizType   string               `bson:"bizType"`
	Key       string               `bson:"key,omitempty"`
	Time      bson.DateTime        `bson:"time"`
	First     int64                `bson:"first"`
	Last      int64                `bson:"last"`
	Count     int64                `bson:"count"`
	Runs      []persist.HistoryRun `bson:"runs,omitempty"`
	IDs       []string             `bson:"ids,omitempty"`
	Caller    string               `bson:"caller,omitempty"`
	Addr      string               `bson:"addr,omitempty"`
	RequestID string               `bson:"requestId,omitempty"`
}

func historyDocument(r persist.HistoryRecord) storedHistory {
	return storedHistory{
		ID: r.PersistID(), Version: persist.FormatVersion, BizType: r.BizType, Key: r.Key, Time: bson.DateTime(r.Time), First: r.First, Last: r.Last,
		Count: int64(r.Count), Runs: r.Runs, IDs: r.IDs, Caller: r.Caller, Addr: r.Addr, RequestID: r.RequestID,
	}
}

func (s storedHistory) model() (persist.HistoryRecord, error) {
	r := persist.HistoryRecord{
		ID: strings.TrimPrefix(s.ID, s.BizType+"/"), BizType: s.BizType, Key: s.Key, Time: int64(s.Time), First: s.First, Last: s.Last, Count: int(s.Count),
		Runs: s.Runs, IDs: s.IDs, Caller: s.Caller, Addr: s.Addr, RequestID: s.RequestID,
	}
	switch {
	case s.Version > persist.FormatVersion:
		return r, fmt.Errorf("%q: %w: document format %d, this build knows %d", s.ID, persist.ErrNewer, s.Version, persist.FormatVersion)
	case s.Version < 1 || r.PersistID() != s.ID || r.Validate() != nil:
		return r, damaged(s.ID)
	}
	return r, nil
}

// Append implements [persist.HistoryStore].
func (h *history) Append(ctx context.Context, records []persist.HistoryRecord) error {
	documents := make([]storedHistory, len(records))
	for i, r := range records {
		if err := r.Validate(); err != nil {
			return err
		}
		documents[i] = historyDocument(r)
	}
	if len(documents) == 0 {
		return ctx.Err()
	}
	return h.insert(ctx, h.collection, documents)
}

// insert stores those documents, of any type, that do not exist yet.
func (l *link) insert(ctx context.Context, collection *mongo.Collection, documents any) error {
	ctx, cancel, err := l.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	// Unordered: documents that exist do not keep the others from being inserted. Also for those
	// that exist the server waits until they are durable.
	_, err = collection.InsertMany(ctx, documents, options.InsertMany().SetOrdered(false))
	if onlyDuplicates(err) {
		return l.orShut(ctx, nil)
	}
	return translate(err)
}

// duplicateKey is the server's code for an _id that is taken.
const duplicateKey = 11000

// onlyDuplicates reports whether the only failures are documents that exist already.
func onlyDuplicates(err error) bool {
	bulk, ok := errors.AsType[mongo.BulkWriteException](err)
	if !ok || bulk.WriteConcernError != nil {
		return false
	}
	for _, e := range bulk.WriteErrors {
		if e.Code != duplicateKey {
			return false
		}
	}
	return len(bulk.WriteErrors) > 0
}

// idBetween selects the documents with low ≤ _id < high.
func idBetween(low, high string) bson.D {
	return bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: low}, {Key: "$lt", Value: high}}}}
}

// List implements [persist.HistoryStore].
func (h *history) List(ctx context.Context, query persist.HistoryQuery) (list []persist.HistoryRecord, err error) {
	low, high, err := query.Range()
	if err != nil || query.Limit <= 0 { // the server would take it for no limit
		return nil, err
	}
	ctx, cancel, err := h.begin(ctx)
	defer cancel()
	if err != nil {
		return nil, err
	}
	filter := idBetween(low, high)
	if query.Key != "" {
		filter = append(filter, bson.E{Key: "key", Value: query.Key})
	}
	cursor, err := h.collection.Find(ctx, filter, options.Find().SetSort(bson.D{{Key: "_id", Value: -1}}).SetLimit(int64(query.Limit)))
	if err != nil {
		return nil, translate(err)
	}
	var documents []storedHistory
	if err := cursor.All(ctx, &documents); err != nil {
		return nil, translate(err)
	}
	for _, d := range documents {
		r, err := d.model()
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// Remove implements [persist.HistoryStore].
func (h *history) Remove(ctx context.Context, bizType string, ids []string) error {
	ctx, cancel, err := h.begin(ctx)
	defer cancel()
	if err != nil || len(ids) == 0 {
		return err
	}
	whole := make([]string, len(ids))
	for i, id := range ids {
		whole[i] = persist.HistoryRecord{BizType: bizType, ID: id}.PersistID()
	}
	_, err = h.collection.DeleteMany(ctx, bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: whole}}}})
	return translate(err)
}

// Purge implements [persist.HistoryStore].
func (h *history) Purge(ctx context.Context, bizType string, before int64, limit int) (int, error) {
	low, high, err := persist.PurgeRange(bizType, before)
	if err != nil || limit <= 0 {
		return 0, err
	}
	ctx, cancel, err := h.begin(ctx)
	defer cancel()
	if err != nil {
		return 0, err
	}
	oldest := options.Find().SetSort(byIDAscending).SetLimit(int64(limit)).SetProjection(bson.D{{Key: "_id", Value: 1}})
	cursor, err := h.collection.Find(ctx, idBetween(low, high), oldest)
	if err != nil {
		return 0, translate(err)
	}
	var found []struct {
		ID string `bson:"_id"`
	}
	if err := cursor.All(ctx, &found); err != nil || len(found) == 0 {
		return 0, translate(err)
	}
	// Up to the last one found: another process may purge some of them meanwhile, and no record can
	// be added between them.
	filter := bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: low}, {Key: "$lte", Value: found[len(found)-1].ID}}}}
	if _, err := h.collection.DeleteMany(ctx, filter); err != nil {
		return 0, translate(err)
	}
	// Not how many this process removed: the caller continues while there were as many as wanted.
	return len(found), nil
}
