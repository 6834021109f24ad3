package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

// slots keeps the records of each registry of machine IDs in a nested bucket: one for each slot and
// one for the bootstrap part. Under its name is splitMark. Earlier builds kept the registry there, as
// one record; its next change splits that. The clock of a registry is that of the store.
type slots struct {
	bucket
	now func() time.Time
}

var _ persist.SlotStore = (*slots)(nil)

// splitMark is the record of a registry that is in a nested bucket. It is of format 2, so builds that
// want the whole registry there refuse it with [persist.ErrNewer] and do not take it for empty.
var splitMark = []byte(`{"v":2}`)

// nested is the key of the nested bucket of a registry. No name equals it, because it is not UTF-8.
func nested(registry string) []byte { return append([]byte{0xff}, registry...) }

// recordKey sorts by ID, from [persist.Root] on, and recordID is its inverse.
func recordKey(id int64) []byte { return binary.BigEndian.AppendUint32(nil, uint32(id-persist.Root)) }

func recordID(key []byte) int64 { return int64(binary.BigEndian.Uint32(key)) + persist.Root }

// registryIn returns a registry, an empty one if there is none. If IDs are given, it may lack other
// slots.
func registryIn(b *bbolt.Bucket, name string, ids ...int64) (persist.Registry, error) {
	r := persist.Registry{Name: name}
	switch data := b.Get([]byte(name)); {
	case data == nil:
		return r, nil
	case !bytes.Equal(data, splitMark):
		return get[persist.Registry](b, name)
	}
	records := b.Bucket(nested(name))
	if records == nil {
		return r, fmt.Errorf("%q: %w: it has no records", name, persist.ErrInvalid)
	}
	add := func(key, data []byte) error {
		if err := r.Add(recordID(key), data); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		return nil
	}
	if len(ids) == 0 {
		err := records.ForEach(add)
		return r, err
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(append([]int64{persist.Root}, ids...)))) {
		key := recordKey(id)
		if data := records.Get(key); data != nil {
			if err := add(key, data); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// putRegistry writes the records of a registry that differ from what is in the bucket.
func putRegistry(b *bbolt.Bucket, r persist.Registry) error {
	records, err := r.Records()
	if err != nil {
		return err
	}
	in := b.Bucket(nested(r.Name))
	if in == nil {
		if in, err = b.CreateBucket(nested(r.Name)); err == nil {
			err = b.Put([]byte(r.Name), splitMark)
		}
	}
	for id, record := range records {
		if key := recordKey(id); err == nil && !bytes.Equal(in.Get(key), record) {
			err = in.Put(key, record)
		}
	}
	return err
}

// Look implements [persist.SlotStore].
func (s *slots) Look(ctx context.Context, registry string, ids ...int64) (t persist.SlotTable, err error) {
	if err := persist.CheckLook(registry, ids...); err != nil {
		return t, err
	}
	err = s.read(ctx, func(b *bbolt.Bucket) error {
		r, err := registryIn(b, registry, ids...)
		if err == nil {
			t = r.Table(s.now().UnixMilli(), ids...)
		}
		return err
	})
	return t, err
}

// Swap implements [persist.SlotStore].
func (s *slots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (bool, error) {
	if err := persist.CheckSwap(registry, swap); err != nil {
		return false, err
	}
	made := false
	err := s.write(ctx, func(b *bbolt.Bucket) error {
		r, err := registryIn(b, registry, swap.IDs()...)
		if err != nil {
			return err
		}
		if r, made = r.Swapped(swap); !made {
			return nil
		}
		return putRegistry(b, r)
	})
	if err != nil {
		return false, err // the transaction may still write to made
	}
	return made, nil
}

// Drop implements [persist.SlotStore].
func (s *slots) Drop(ctx context.Context, registry string) error {
	if err := persist.CheckLook(registry); err != nil {
		return err
	}
	return s.write(ctx, func(b *bbolt.Bucket) error {
		r, err := registryIn(b, registry, persist.Root)
		if err != nil {
			return err
		}
		if r.Set == nil {
			return fmt.Errorf("registry %q: %w", registry, persist.ErrNotFound)
		}
		r.Set = nil
		return putRegistry(b, r)
	})
}
