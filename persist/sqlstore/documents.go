package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/seqd/seqd/persist"
)

// documents keeps each document as one row. A change selects the revision that it follows, so of
// concurrent changes one wins.
type documents struct {
	*link
	// statements
	read, list, due, insert, update, insertHeld, updateHeld string
}

var _ persist.Documents = (*documents)(nil)

// columns are those of a document.
const columns = "kind, name, version, revision, body, written_at, expires_at"

func newDocuments(l *link) documents {
	// An idempotency answer is read and then repeated to the caller. So if a failover loses
	// nothing, a read must return only what it does not lose.
	proof := "0"
	if l.opts.Lossless {
		proof = l.proof()
	}
	from := "SELECT " + columns + ", " + l.standby() + ", " + proof + " FROM seqd_documents WHERE kind = ? AND "
	update := "UPDATE seqd_documents SET revision = ?, body = ?, written_at = ?, expires_at = ? WHERE kind = ? AND name = ? AND version = ? AND revision = ?"
	insert := "INSERT INTO seqd_documents (" + columns + ") SELECT ?,?,?,?,?,?,? FROM (SELECT 1 AS one) f WHERE "
	return documents{
		link: l, read: from + "name = ?", list: from + "name > ? ORDER BY name LIMIT ?",
		due:        from + "expires_at > 0 AND expires_at < ? ORDER BY expires_at, name LIMIT ?",
		insert:     insert + l.mayWrite() + l.dialect.KeepFirst,
		update:     update + " AND " + l.mayWrite(),
		insertHeld: insert + l.dialect.Holds + l.dialect.KeepFirst,
		updateHeld: update + " AND " + l.dialect.Holds,
	}
}

// row returns the columns of a document as parameters.
func row(doc persist.Document) []any {
	return []any{doc.Kind, []byte(doc.Key), int64(persist.FormatVersion), doc.Revision, []byte(doc.Body), doc.Timestamp, doc.Expires}
}

// change returns the parameters of the statement update.
func change(doc persist.Document) []any {
	return []any{doc.Revision, []byte(doc.Body), doc.Timestamp, doc.Expires, doc.Kind, []byte(doc.Key), int64(persist.FormatVersion), doc.Revision - 1}
}

// scanDocument reads a row of one of the statements.
func scanDocument(scan Scan) (d persist.Document, err error) {
	var name, body []byte
	var version, standby, proof int64
	if err := scan(&d.Kind, &name, &version, &d.Revision, &body, &d.Timestamp, &d.Expires, &standby, &proof); err != nil {
		return d, err
	}
	if standby != 0 {
		return d, ErrStandby
	}
	d.Key, d.Body = string(name), string(body)
	if err := checkVersion(d.PersistID(), version); err != nil {
		return d, err
	}
	if d.Validate() != nil {
		return d, damaged(d.PersistID())
	}
	return d, nil
}

// Create implements [persist.Documents].
func (d *documents) Create(ctx context.Context, doc persist.Document) error {
	if err := doc.CheckNew(); err != nil {
		return err
	}
	err := d.whyNotWritten(ctx, one(d.exec(ctx, "create document", d.insert, row(doc)...)))
	if errors.Is(err, persist.ErrNotFound) {
		err = persist.ErrExists
	}
	return about(doc.PersistID(), err)
}

// Read implements [persist.Documents].
func (d *documents) Read(ctx context.Context, kind, key string) (doc persist.Document, err error) {
	if err := persist.CheckDocument(kind, key); err != nil {
		return doc, err
	}
	ctx, cancel, err := d.begin(ctx)
	defer cancel()
	if err != nil {
		return doc, err
	}
	found := false
	err = d.db.Query(ctx, "read document", d.read, func(scan Scan) (err error) {
		found = true
		doc, err = scanDocument(scan)
		return err
	}, kind, []byte(key))
	if err == nil && !found {
		err = about(persist.Document{Kind: kind, Key: key}.PersistID(), d.missing(ctx))
	}
	return doc, err
}

// Update implements [persist.Documents].
func (d *documents) Update(ctx context.Context, doc persist.Document) error {
	if err := doc.Validate(); err != nil {
		return err
	}
	err := d.whyNotWritten(ctx, one(d.exec(ctx, "update document", d.update, change(doc)...)))
	return persist.WhyNotRevision(ctx, d, doc.Kind, doc.Key, doc.Revision-1, about(doc.PersistID(), err))
}

// Delete implements [persist.Documents].
func (d *documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	if err := persist.CheckDocument(kind, key); err != nil {
		return err
	}
	err := one(d.exec(ctx, "delete document", "DELETE FROM seqd_documents WHERE kind = ? AND name = ? AND version = ? AND revision = ?",
		kind, []byte(key), int64(persist.FormatVersion), revision))
	return persist.WhyNotRevision(ctx, d, kind, key, revision, about(persist.Document{Kind: kind, Key: key}.PersistID(), err))
}

// List implements [persist.Documents].
func (d *documents) List(ctx context.Context, kind, after string, limit int) (page []persist.Document, err error) {
	if err := persist.CheckDocuments(kind, after); err != nil || limit <= 0 {
		return nil, err
	}
	err = d.query(ctx, "list documents", d.list, func(scan Scan) error {
		doc, err := scanDocument(scan)
		page = append(page, doc)
		return err
	}, kind, []byte(after), int64(limit))
	return page, err
}

// Due implements [persist.Documents].
func (d *documents) Due(ctx context.Context, kind string, before int64, limit int) (found []persist.Document, err error) {
	if err := persist.CheckDocuments(kind, ""); err != nil || limit <= 0 {
		return nil, err
	}
	err = d.query(ctx, "find due documents", d.due, func(scan Scan) error {
		switch doc, err := scanDocument(scan); {
		case err == nil:
			found = append(found, doc)
		case !errors.Is(err, persist.ErrInvalid) && !errors.Is(err, persist.ErrNewer):
			return err
		}
		return nil
	}, kind, before, int64(limit))
	return found, err
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
	ctx, cancel, err := d.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	// In the same order everywhere, so that of two statements none waits for the other's rows while
	// the other one waits for its own.
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b persist.Document) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key))
	})
	kept := false
	for _, piece := range pieces(list, func(doc persist.Document) int { return len(doc.Key) + len(doc.Body) }) {
		var params []any
		for _, doc := range piece {
			params = append(params, row(doc)...)
		}
		insert := "INSERT INTO seqd_documents (" + columns + ") VALUES " + rows(len(piece), 7) + d.dialect.KeepFirst
		stored, err := d.db.Exec(ctx, "keep documents", insert, params...)
		if err != nil {
			return err
		}
		kept = kept || stored < int64(len(piece))
	}
	if !kept {
		return nil
	}
	// This call has not stored all of them. Whoever stored the others may have been told that the
	// outcome is unknown.
	return d.await(ctx)
}

// Purge implements [persist.Documents].
func (d *documents) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	if err := persist.CheckPurge(kind); err != nil || limit <= 0 {
		return 0, err
	}
	purge := d.dialect.DeleteSome("seqd_documents", "kind = ? AND expires_at > 0 AND expires_at < ?", "expires_at")
	purged, err := d.exec(ctx, "purge documents", purge, kind, before, int64(limit))
	return int(purged), err
}

// await returns when all that is visible in the database is as durable as an acknowledged write.
func (d *documents) await(ctx context.Context) error {
	if !d.opts.Lossless {
		return nil
	}
	return d.db.Query(ctx, "await durability", "SELECT "+d.proof(), func(scan Scan) error {
		var proof int64
		return scan(&proof)
	})
}
