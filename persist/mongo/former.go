package mongo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/seqd/seqd/persist"
)

// The first layout of a database keeps the cluster, the shapes and what is known of periods outside
// the documents; see [persist.FormerShape]. While nodes are upgraded one by one, nodes of both
// versions run on the same database, and each must see what the other records:
//
//   - a document that is missing is looked for in its former place, and copied from there;
//   - a change is made in both places, a creation in the former one first: so of two nodes that
//     create, of whatever version, one wins.
//
// Which periods were removed is read for every range of a period. So once the database is upgraded,
// its former place is not read each time, but only while an unknown period begins; see
// [documents.raisePurged].
type former struct {
	*link
	clusters, shapes, counters *mongo.Collection
	readOnly                   bool // copy nothing
	upgraded                   bool // by this process, or before it began
}

// layout is the format of the record of the cluster. The previous version knows format 1, so it
// refuses to start once the database is upgraded.
const layout = 2

// clusterID is the _id of the record of the cluster.
const clusterID = "cluster"

// storedCluster is how the record of the cluster is read. It has no ID in a database that was never
// of the former layout.
type storedCluster struct {
	ID        string        `bson:"_id"`
	Version   bson.RawValue `bson:"v"`
	BizTag    string        `bson:"bizTag"`
	Cluster   string        `bson:"cluster"`
	Timestamp int64         `bson:"timestamp"`
	// Upgraded is true once everything of the former layout was copied.
	Upgraded bool `bson:"upgraded"`
}

// layout returns the format of the record.
func (c storedCluster) layout() (int64, error) {
	v, ok := integer(c.Version)
	switch {
	case ok && v > layout:
		return 0, fmt.Errorf("%w: its layout is %d, this build knows %d", persist.ErrNewer, v, layout)
	case !ok || v < 1 || c.BizTag != c.ID || v == 1 && c.Cluster == "":
		return 0, damaged(c.ID)
	}
	return v, nil
}

// document returns the cluster as a document, or ErrNotFound.
func (c storedCluster) document() (persist.Document, error) {
	if _, err := c.layout(); err != nil {
		return persist.Document{}, err
	}
	if c.Cluster == "" {
		return persist.Document{}, persist.ErrNotFound
	}
	m := persist.Cluster{ID: c.Cluster, Timestamp: c.Timestamp}
	return m.Document(), m.Validate()
}

// storedShape is how a shape of the former layout is read.
type storedShape struct {
	ID        string        `bson:"_id"`
	Version   bson.RawValue `bson:"v"`
	BizTag    string        `bson:"bizTag"`
	Shape     string        `bson:"shape"`
	Timestamp int64         `bson:"timestamp"`
}

func (s storedShape) document() (persist.Document, error) {
	if err := checkDocument(s.ID, s.BizTag, s.Version); err != nil {
		return persist.Document{}, err
	}
	return persist.FormerShape(s.ID, s.Shape, s.Timestamp)
}

// place returns the former place of a document, nil if it has none.
func (f *former) place(kind, key string) (collection *mongo.Collection, id string) {
	if id, ok := persist.FormerShapeID(kind, key); ok {
		return f.shapes, id
	}
	switch kind {
	case persist.PurgedKind:
		return f.counters, persist.FormerPurgedID(key)
	case persist.ClusterKind:
		return f.clusters, clusterID
	}
	return nil, ""
}

// read returns a document from its former place, or ErrNotFound.
func (f *former) read(ctx context.Context, kind, key string) (d persist.Document, err error) {
	from, id := f.place(kind, key)
	if from == nil {
		return d, persist.ErrNotFound
	}
	ctx, cancel, err := f.begin(ctx)
	defer cancel()
	if err != nil {
		return d, err
	}
	found := from.FindOne(ctx, bson.D{{Key: "_id", Value: id}})
	switch from {
	case f.clusters:
		return decodeFormer[storedCluster](found, id)
	case f.shapes:
		return decodeFormer[storedShape](found, id)
	}
	c, err := decode[storedCounter](found, id)
	if err != nil {
		return d, err
	}
	counter, err := c.model()
	d, _ = persist.FormerPurged(counter)
	return d, err
}

func decodeFormer[D interface {
	document() (persist.Document, error)
}](found *mongo.SingleResult, id string) (persist.Document, error) {
	d, err := decode[D](found, id)
	if err != nil {
		return persist.Document{}, err
	}
	return d.document()
}

// decode reads a record. One that has fields of other types is damaged.
func decode[D any](found *mongo.SingleResult, id string) (d D, err error) {
	raw, err := found.Raw()
	if err != nil {
		return d, translate(err)
	}
	if bson.Unmarshal(raw, &d) != nil {
		return d, damaged(id)
	}
	return d, nil
}

// create writes a new document to its former place too. It returns ErrExists if there is a shape.
func (f *former) create(ctx context.Context, d persist.Document) error {
	if d.Kind == persist.PurgedKind {
		return f.raise(ctx, d)
	}
	to, id := f.place(d.Kind, d.Key)
	if to != f.shapes {
		return nil
	}
	ctx, cancel, err := f.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	_, err = to.InsertOne(ctx, append(known(id), shapeFields(d)...))
	return about(d.PersistID(), translate(err))
}

func shapeFields(d persist.Document) bson.D {
	return bson.D{{Key: "shape", Value: d.Body}, {Key: "timestamp", Value: d.Timestamp}}
}

// update writes a change of a document to its former place too, unless that comes first: see raise.
func (f *former) update(ctx context.Context, d persist.Document) error {
	to, id := f.place(d.Kind, d.Key)
	if to != f.shapes {
		return nil
	}
	ctx, cancel, err := f.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	_, err = to.UpdateOne(ctx, known(id), bson.D{{Key: "$set", Value: shapeFields(d)}})
	return about(d.PersistID(), translate(err))
}

// raise writes which periods were removed to the counter that said so in the former layout.
func (f *former) raise(ctx context.Context, d persist.Document) error {
	period, err := persist.PurgedPeriod(d)
	if err != nil {
		return err
	}
	ctx, cancel, err := f.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	id := persist.FormerPurgedID(d.Key)
	_, err = f.counters.InsertOne(ctx, document(persist.Counter{BizTag: id, Max: period, Step: 1, Timestamp: d.Timestamp}))
	if err = translate(err); errors.Is(err, persist.ErrExists) {
		_, err = f.counters.UpdateOne(ctx, known(id), bson.D{{Key: "$max", Value: bson.D{{Key: "max", Value: period}}}})
		err = translate(err)
	}
	return about(d.PersistID(), err)
}

// delete removes a document from its former place too.
func (f *former) delete(ctx context.Context, kind, key string) error {
	from, id := f.place(kind, key)
	if from == nil || from == f.clusters {
		return nil
	}
	ctx, cancel, err := f.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	_, err = from.DeleteOne(ctx, known(id))
	return translate(err)
}

// readFormer returns a document from its former place, and copies it. missing is the error if it is
// not there either.
func (d *documents) readFormer(ctx context.Context, kind, key string, missing error) (persist.Document, error) {
	if kind == persist.PurgedKind && d.former.upgraded {
		return persist.Document{}, missing
	}
	doc, err := d.former.read(ctx, kind, key)
	switch {
	case errors.Is(err, persist.ErrNotFound) && kind == persist.PeriodKind:
		return doc, cmp.Or(d.raisePurged(ctx, key), missing)
	case errors.Is(err, persist.ErrNotFound):
		return doc, missing
	case err != nil:
		return doc, about(documentID(kind, key), err)
	case d.former.readOnly || kind == persist.ClusterKind: // the cluster is copied by upgrade
		return doc, nil
	}
	err = d.repository.Create(ctx, doc)
	if errors.Is(err, persist.ErrExists) {
		return d.repository.Read(ctx, doc.PersistID())
	}
	return doc, err
}

// raisePurged copies which periods nodes of the previous version removed. It runs before a caller
// learns that a period is unknown, because such a node may have removed it, and before the period
// is created, because it may have done so since. After each the caller checks whether the period
// was removed before it uses the period's counter.
func (d *documents) raisePurged(ctx context.Context, counter string) error {
	bizType, _, _ := strings.Cut(counter, "@")
	there, err := d.former.read(ctx, persist.PurgedKind, bizType)
	if errors.Is(err, persist.ErrNotFound) || d.former.readOnly {
		return nil
	}
	if err != nil {
		return err
	}
	known, err := d.repository.Read(ctx, there.PersistID())
	switch {
	case errors.Is(err, persist.ErrNotFound):
		err = d.repository.Create(ctx, there)
	case err == nil:
		err = d.raisePurgedTo(ctx, known, there)
	}
	if errors.Is(err, persist.ErrExists) || errors.Is(err, persist.ErrNotFound) {
		return fmt.Errorf("%w: %s changes now", persist.ErrUnavailable, there.PersistID())
	}
	return err
}

// raisePurgedTo replaces a document by one that names a later period.
func (d *documents) raisePurgedTo(ctx context.Context, known, later persist.Document) error {
	from, err := persist.PurgedPeriod(known)
	if err != nil {
		return err
	}
	to, err := persist.PurgedPeriod(later)
	if err != nil || to <= from {
		return err
	}
	later.Revision = known.Revision + 1
	return d.replace(ctx, later, ofRevision(known.Kind, known.Key, known.Revision))
}

// takeOver copies the former document that prevented a creation, and returns the error of that.
func (d *documents) takeOver(ctx context.Context, doc persist.Document, why error) error {
	if !errors.Is(why, persist.ErrExists) {
		return why
	}
	if _, err := d.readFormer(ctx, doc.Kind, doc.Key, nil); err != nil {
		return err
	}
	return why
}
