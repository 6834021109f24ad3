package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seqd/seqd/persist"
)

// documents keeps the documents of each kind by their keys, under one lock.
type documents struct {
	lock
	kinds map[string]map[string]persist.Document
}

var _ persist.Documents = (*documents)(nil)

// get returns a document; the lock is held.
func (d *documents) get(kind, key string) (persist.Document, error) {
	doc, ok := d.kinds[kind][key]
	if !ok {
		return doc, fmt.Errorf("%q: %w", persist.Document{Kind: kind, Key: key}.PersistID(), persist.ErrNotFound)
	}
	return doc, nil
}

// put keeps a document; the lock is held.
func (d *documents) put(doc persist.Document) {
	if d.kinds[doc.Kind] == nil {
		d.kinds[doc.Kind] = make(map[string]persist.Document)
	}
	d.kinds[doc.Kind][doc.Key] = doc
}

// Create implements [persist.Documents].
func (d *documents) Create(ctx context.Context, doc persist.Document) error {
	if err := doc.CheckNew(); err != nil {
		return err
	}
	return d.locked(ctx, func() error {
		if _, ok := d.kinds[doc.Kind][doc.Key]; ok {
			return fmt.Errorf("%q: %w", doc.PersistID(), persist.ErrExists)
		}
		d.put(doc)
		return nil
	})
}

// Read implements [persist.Documents].
func (d *documents) Read(ctx context.Context, kind, key string) (doc persist.Document, err error) {
	if err := persist.CheckDocument(kind, key); err != nil {
		return persist.Document{}, err
	}
	err = d.locked(ctx, func() error {
		doc, err = d.get(kind, key)
		return err
	})
	return doc, err
}

// Update implements [persist.Documents].
func (d *documents) Update(ctx context.Context, doc persist.Document) error {
	if err := doc.Validate(); err != nil {
		return err
	}
	return d.locked(ctx, func() error {
		old, err := d.get(doc.Kind, doc.Key)
		if err != nil {
			return err
		}
		if err := old.CheckUpdate(doc); err != nil {
			return err
		}
		d.put(doc)
		return nil
	})
}

// Delete implements [persist.Documents].
func (d *documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	if err := persist.CheckDocument(kind, key); err != nil {
		return err
	}
	return d.locked(ctx, func() error {
		old, err := d.get(kind, key)
		if err != nil {
			return err
		}
		if err := old.CheckRevision(revision); err != nil {
			return err
		}
		delete(d.kinds[kind], key)
		return nil
	})
}

// List implements [persist.Documents].
func (d *documents) List(ctx context.Context, kind, after string, limit int) (list []persist.Document, err error) {
	if err := persist.CheckDocuments(kind, after); err != nil {
		return nil, err
	}
	err = d.locked(ctx, func() error {
		for key, doc := range d.kinds[kind] {
			if key > after {
				list = append(list, doc)
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b persist.Document) int { return strings.Compare(a.Key, b.Key) })
	return list[:min(max(limit, 0), len(list))], err
}

// Due implements [persist.Documents].
func (d *documents) Due(ctx context.Context, kind string, before int64, limit int) (list []persist.Document, err error) {
	if err := persist.CheckDocuments(kind, ""); err != nil {
		return nil, err
	}
	err = d.locked(ctx, func() error {
		list = d.due(kind, before)
		return nil
	})
	return list[:min(max(limit, 0), len(list))], err
}

// due returns the documents of a kind that expire before a time, the earliest first; the lock is
// held.
func (d *documents) due(kind string, before int64) (list []persist.Document) {
	for _, doc := range d.kinds[kind] {
		if doc.Expires != 0 && doc.Expires < before {
			list = append(list, doc)
		}
	}
	slices.SortFunc(list, func(a, b persist.Document) int {
		return cmp.Or(cmp.Compare(a.Expires, b.Expires), strings.Compare(a.Key, b.Key))
	})
	return list
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
	return d.locked(ctx, func() error {
		for _, doc := range list {
			if _, ok := d.kinds[doc.Kind][doc.Key]; !ok {
				d.put(doc)
			}
		}
		return nil
	})
}

// Purge implements [persist.Documents].
func (d *documents) Purge(ctx context.Context, kind string, before int64, limit int) (purged int, err error) {
	if err := persist.CheckPurge(kind); err != nil {
		return 0, err
	}
	err = d.locked(ctx, func() error {
		due := d.due(kind, before)
		purged = min(max(limit, 0), len(due))
		for _, doc := range due[:purged] {
			delete(d.kinds[kind], doc.Key)
		}
		return nil
	})
	return purged, err
}
