package bolt

import (
	"context"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

// Kinds implements [persist.Whole].
func (s *Store) Kinds(ctx context.Context) (kinds []string, err error) {
	err = s.documents.read(ctx, func(b *bbolt.Bucket) error {
		kinds = nil
		cursor := b.Cursor()
		for key, _ := cursor.First(); key != nil; {
			kind, _, is := strings.Cut(string(key), "/")
			if !is { // the bucket of those that expire
				key, _ = cursor.Next()
				continue
			}
			kinds = append(kinds, kind)
			key, _ = cursor.Seek([]byte(kind + "0")) // the character after "/"
		}
		return nil
	})
	return kinds, err
}

// Registries implements [persist.Whole].
func (s *Store) Registries(ctx context.Context) (names []string, err error) {
	err = s.slots.read(ctx, func(b *bbolt.Bucket) error {
		names = nil
		return b.ForEach(func(name, record []byte) error {
			if record != nil { // no nested bucket
				names = append(names, string(name))
			}
			return nil
		})
	})
	return names, err
}

// Refill implements [persist.Whole].
func (s *Store) Refill(ctx context.Context, list []persist.Document) error {
	if err := persist.CheckRefilled(list); err != nil {
		return err
	}
	return s.documents.refill(ctx, list)
}
