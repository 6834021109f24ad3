package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

// documents keeps documents by their persist IDs. A nested bucket says when documents expire.
type documents struct{ bucket }

var _ persist.Documents = (*documents)(nil)

// expiryBucket orders the documents that expire by kind and time. No persist ID equals its name,
// which has no slash.
var expiryBucket = []byte("expiry")

// Create implements [persist.Documents].
func (d *documents) Create(ctx context.Context, doc persist.Document) error {
	if err := doc.CheckNew(); err != nil {
		return err
	}
	return d.write(ctx, func(b *bbolt.Bucket) error {
		if b.Get([]byte(doc.PersistID())) != nil {
			return fmt.Errorf("%q: %w", doc.PersistID(), persist.ErrExists)
		}
		return putDocument(b, persist.Document{}, doc)
	})
}

// Read implements [persist.Documents].
func (d *documents) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if err := persist.CheckDocument(kind, key); err != nil {
		return persist.Document{}, err
	}
	var doc persist.Document
	err := d.read(ctx, func(b *bbolt.Bucket) (err error) {
		doc, err = get[persist.Document](b, documentID(kind, key))
		return err
	})
	return doc, err
}

// Update implements [persist.Documents].
func (d *documents) Update(ctx context.Context, doc persist.Document) error {
	if err := doc.Validate(); err != nil {
		return err
	}
	return d.write(ctx, func(b *bbolt.Bucket) error {
		old, err := get[persist.Document](b, doc.PersistID())
		if err != nil {
			return err
		}
		if err := old.CheckUpdate(doc); err != nil {
			return err
		}
		return putDocument(b, old, doc)
	})
}

// Delete implements [persist.Documents].
func (d *documents) Delete(ctx context.Context, kind, key string, revision int64) error {
	if err := persist.CheckDocument(kind, key); err != nil {
		return err
	}
	return d.write(ctx, func(b *bbolt.Bucket) error {
		old, err := get[persist.Document](b, documentID(kind, key))
		if err != nil {
			return err
		}
		if err := old.CheckRevision(revision); err != nil {
			return err
		}
		return removeDocument(b, old)
	})
}

// List implements [persist.Documents].
func (d *documents) List(ctx context.Context, kind, after string, limit int) (found []persist.Document, err error) {
	if err := persist.CheckDocuments(kind, after); err != nil {
		return nil, err
	}
	err = d.read(ctx, func(b *bbolt.Bucket) error {
		found, err = list[persist.Document](b, []byte(documentID(kind, "")), []byte(documentID(kind, after)), limit)
		return err
	})
	return found, err
}

// Due implements [persist.Documents].
func (d *documents) Due(ctx context.Context, kind string, before int64, limit int) (list []persist.Document, err error) {
	if err := persist.CheckDocuments(kind, ""); err != nil {
		return nil, err
	}
	err = d.read(ctx, func(b *bbolt.Bucket) error {
		for _, key := range due(b.Bucket(expiryBucket), kind, before, limit) {
			if doc, err := get[persist.Document](b, dueID(kind, key)); err == nil {
				list = append(list, doc)
			}
		}
		return nil
	})
	return list, err
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
	return d.write(ctx, func(b *bbolt.Bucket) error {
		for _, doc := range list {
			if b.Get([]byte(doc.PersistID())) != nil {
				continue
			}
			if err := putDocument(b, persist.Document{}, doc); err != nil {
				return err
			}
		}
		return nil
	})
}

// Purge implements [persist.Documents].
func (d *documents) Purge(ctx context.Context, kind string, before int64, limit int) (int, error) {
	if err := persist.CheckPurge(kind); err != nil {
		return 0, err
	}
	purged := 0
	err := d.write(ctx, func(b *bbolt.Bucket) error {
		expiry := b.Bucket(expiryBucket)
		for _, key := range due(expiry, kind, before, limit) {
			if err := expiry.Delete(key); err != nil {
				return err
			}
			id := dueID(kind, key)
			doc, err := get[persist.Document](b, id)
			if err != nil || doc.Expires == 0 || doc.Expires >= before {
				// it is damaged: leave it for the operator, and go on with the others
				continue
			}
			if err := b.Delete([]byte(id)); err != nil {
				return err
			}
			purged++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return purged, nil
}

// due returns the expiry keys of at most limit documents that expired before a time. They are read
// before any is removed: a cursor must not move while records are deleted.
func due(expiry *bbolt.Bucket, kind string, before int64, limit int) (keys [][]byte) {
	if expiry == nil {
		return nil
	}
	prefix := append([]byte(kind), '/')
	cursor := expiry.Cursor()
	for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix) && len(keys) < limit; key, _ = cursor.Next() {
		rest := key[len(prefix):]
		if len(rest) < 8 || int64(binary.BigEndian.Uint64(rest)) >= before {
			break
		}
		keys = append(keys, bytes.Clone(key))
	}
	return keys
}

// putDocument replaces a document, the zero document if there is none, and its expiry key.
func putDocument(b *bbolt.Bucket, old, doc persist.Document) error {
	expiry, err := b.CreateBucketIfNotExists(expiryBucket)
	if err != nil {
		return err
	}
	if old.Expires != doc.Expires {
		if old.Expires != 0 {
			if err := expiry.Delete(expiryKey(old)); err != nil {
				return err
			}
		}
		if doc.Expires != 0 {
			if err := expiry.Put(expiryKey(doc), nil); err != nil {
				return err
			}
		}
	}
	return put(b, doc)
}

// removeDocument removes a document and its expiry key.
func removeDocument(b *bbolt.Bucket, doc persist.Document) error {
	if expiry := b.Bucket(expiryBucket); expiry != nil && doc.Expires != 0 {
		if err := expiry.Delete(expiryKey(doc)); err != nil {
			return err
		}
	}
	return b.Delete([]byte(doc.PersistID()))
}

// expiryKey sorts by kind and time.
func expiryKey(doc persist.Document) []byte {
	key := binary.BigEndian.AppendUint64(append([]byte(doc.Kind), '/'), uint64(doc.Expires))
	return append(key, doc.Key...)
}

// dueID returns the persist ID of the document that an expiry key of a kind stands for.
func dueID(kind string, key []byte) string { return documentID(kind, string(key[len(kind)+1+8:])) }

func documentID(kind, key string) string { return persist.Document{Kind: kind, Key: key}.PersistID() }
