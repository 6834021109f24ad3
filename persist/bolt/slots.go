package bolt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

// slots keeps each registry of machine IDs as one record. Its clock is that of the store.
type slots struct {
	bucket
	now func() time.Time
}

var _ persist.SlotStore = (*slots)(nil)

// registryIn returns a registry, an empty one if there is none.
func registryIn(b *bbolt.Bucket, name string) (persist.Registry, error) {
	r, err := get[persist.Registry](b, name)
	if errors.Is(err, persist.ErrNotFound) {
		return persist.Registry{Name: name}, nil
	}
	return r, err
}

// Look implements [persist.SlotStore].
func (s *slots) Look(ctx context.Context, registry string, ids ...int64) (t persist.SlotTable, err error) {
	if err := persist.CheckLook(registry, ids...); err != nil {
		return t, err
	}
	err = s.read(ctx, func(b *bbolt.Bucket) error {
		r, err := registryIn(b, registry)
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
		r, err := registryIn(b, registry)
		if err != nil {
			return err
		}
		if r, made = r.Swapped(swap); !made {
			return nil
		}
		return put(b, r)
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
		r, err := registryIn(b, registry)
		if err != nil {
			return err
		}
		if r.Set == nil {
			return fmt.Errorf("registry %q: %w", registry, persist.ErrNotFound)
		}
		r.Set = nil
		return put(b, r)
	})
}
