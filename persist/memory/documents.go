package memory

import (
	"context"
	"slices"
	"strings"

	"github.com/seqd/seqd/persist"
)

// documents keeps documents by their persist IDs.
type documents struct{ repository[persist.Document] }

var _ persist.Documents = (*documents)(nil)

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
	return d.repository.Read(ctx, id(kind, key))
}

// Delete implements [persist.Documents].
func (d *documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	if err := persist.CheckDocument(kind, key); err != nil {
		return err
	}
	return d.locked(ctx, func() error {
		old, err := d.get(id(kind, key))
		if err != nil {
			return err
		}
		if err := old.CheckRevision(revision); err != nil {
			return err
		}
		delete(d.records, old.PersistID())
		return nil
	})
}

// List implements [persist.Documents].
func (d *documents) List(ctx context.Context, kind, after string, limit int) (list []persist.Document, err error) {
	if err := persist.CheckDocuments(kind, after); err != nil {
		return nil, err
	}
	err = d.locked(ctx, func() error {
		for _, doc := range d.records {
			if doc.Kind == kind && doc.Key > after {
				list = append(list, doc)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b persist.Document) int { return strings.Compare(a.Key, b.Key) })
	return list[:min(max(limit, 0), len(list))], err
}

// Purge implements [persist.Documents].
func (d *documents) Purge(ctx context.Context, kind string, before int64, limit int) (purged int, err error) {
	if err := persist.CheckDocuments(kind, ""); err != nil {
		return 0, err
	}
	err = d.locked(ctx, func() error {
		for id, doc := range d.records {
			if purged >= limit {
				break
			}
			if doc.Kind == kind && doc.Expires != 0 && doc.Expires < before {
				delete(d.records, id)
				purged++
			}
		}
		return nil
	})
	return purged, err
}

func id(kind, key string) string { return persist.Document{Kind: kind, Key: key}.PersistID() }
