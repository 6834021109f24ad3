package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

// documents keeps documents by their persist IDs, and beside them, in a bucket in the bucket, when those expire that ever do.
type documents struct{ repository[persist.Document] }

var _ persist.Documents = (*documents)(nil)

// expiryBucket orders documents by kind and the time at which they expire. No persist ID is called so: it has no slash. An entry whose document is gone,
// or expires later by now, is harmless: purging drops it.
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
		return putDocument(b, doc)
	})
}

// Read implements [persist.Documents].
func (d *documents) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if err := persist.CheckDocument(kind, key); err != nil {
		return persist.Document{}, err
	}
	return d.repository.Read(ctx, documentID(kind, key))
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
		return putDocument(b, doc)
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
		return b.Delete([]byte(old.PersistID()))
	})
}

// List implements [persist.Documents].
func (d *documents) List(ctx context.Context, kind, after string, limit int) (list []persist.Document, err error) {
	prefix := []byte(documentID(kind, ""))
	from := []byte(documentID(kind, after))
	err = d.read(ctx, func(b *bbolt.Bucket) error {
		cursor := b.Cursor()
		for key, data := cursor.Seek(from); bytes.HasPrefix(key, prefix) && len(list) < limit; key, data = cursor.Next() {
			if bytes.Equal(key, from) {
				continue
			}
			doc, err := persist.Decode[persist.Document](data)
			if err != nil {
				return fmt.Errorf("%q: %w", key, err)
			}
			list = append(list, doc)
		}
		return nil
	})
	return list, err
}

// Purge implements [persist.Documents].
func (d *documents) Purge(ctx context.Context, kind string, before int64, limit int) (purged int, err error) {
	err = d.write(ctx, func(b *bbolt.Bucket) error {
		purged = 0
		expiry := b.Bucket(expiryBucket)
		if expiry == nil {
			return nil
		}
		// Read first, then write: a cursor must not be moved over what is deleted meanwhile.
		prefix := append([]byte(kind), '/')
		var due [][]byte
		cursor := expiry.Cursor()
		for key, _ := cursor.Seek(prefix); bytes.HasPrefix(key, prefix) && len(due) < limit; key, _ = cursor.Next() {
			rest := key[len(prefix):]
			if len(rest) < 8 || int64(binary.BigEndian.Uint64(rest)) >= before {
				break
			}
			due = append(due, bytes.Clone(key))
		}
		for _, key := range due {
			id := documentID(kind, string(key[len(prefix)+8:]))
			doc, err := get[persist.Document](b, id)
			if err == nil && doc.Expires != 0 && doc.Expires < before {
				if err := b.Delete([]byte(id)); err != nil {
					return err
				}
				purged++
			}
			if err := expiry.Delete(key); err != nil {
				return err
			}
		}
		return nil
	})
	return purged, err
}

// putDocument writes when a document expires and then the document: an entry of a document that is not there is harmless.
func putDocument(b *bbolt.Bucket, doc persist.Document) error {
	if doc.Expires != 0 {
		expiry, err := b.CreateBucketIfNotExists(expiryBucket)
		if err != nil {
			return err
		}
		key := append([]byte(doc.Kind), '/')
		key = binary.BigEndian.AppendUint64(key, uint64(doc.Expires))
		if err := expiry.Put(append(key, doc.Key...), nil); err != nil {
			return err
		}
	}
	return put(b, doc)
}

func documentID(kind, key string) string { return persist.Document{Kind: kind, Key: key}.PersistID() }
