package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/seqd/seqd/persist"
)

// slots keeps registries of machine IDs under one lock. Their clock is that of the store.
type slots struct {
	lock
	registries map[string]persist.Registry
	now        func() time.Time
}

var _ persist.SlotStore = (*slots)(nil)

// Look implements [persist.SlotStore].
func (s *slots) Look(ctx context.Context, registry string, ids ...int64) (t persist.SlotTable, err error) {
	if err := persist.CheckLook(registry, ids...); err != nil {
		return t, err
	}
	err = s.locked(ctx, func() error {
		t = s.registries[registry].Table(s.now().UnixMilli(), ids...)
		return nil
	})
	return t, err
}

// Swap implements [persist.SlotStore].
func (s *slots) Swap(ctx context.Context, registry string, swap persist.SlotSwap) (made bool, err error) {
	if err := persist.CheckSwap(registry, swap); err != nil {
		return false, err
	}
	err = s.locked(ctx, func() error {
		var next persist.Registry
		if next, made = s.registries[registry].Swapped(swap); made {
			next.Name = registry
			s.registries[registry] = next
		}
		return nil
	})
	return made, err
}

// Drop implements [persist.SlotStore].
func (s *slots) Drop(ctx context.Context, registry string) error {
	if err := persist.CheckLook(registry); err != nil {
		return err
	}
	return s.locked(ctx, func() error {
		next := s.registries[registry]
		if next.Set == nil {
			return fmt.Errorf("registry %q: %w", registry, persist.ErrNotFound)
		}
		next.Set = nil
		s.registries[registry] = next
		return nil
	})
}
