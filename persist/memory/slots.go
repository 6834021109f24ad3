package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
)

// slots keeps registries of machine IDs under one lock. Their clock is that of the store.
type slots struct {
	lock
	registries map[string]registry
	now        func() time.Time
}

// registry has the slots by their IDs, so that a lease is renewed at the same cost however many there
// are.
type registry struct {
	set   *persist.SlotSet
	slots map[int64]persist.Slot
}

var _ persist.SlotStore = (*slots)(nil)

// part returns a registry with the slots of the given IDs, or with all if none are given.
func (s *slots) part(name string, ids ...int64) persist.Registry {
	has := s.registries[name]
	r := persist.Registry{Name: name, Set: has.set}
	if len(ids) == 0 {
		ids = slices.Collect(maps.Keys(has.slots))
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if slot, granted := has.slots[id]; granted {
			r.Slots = append(r.Slots, slot)
		}
	}
	return r
}

// put sets the bootstrap part, and the slots that r has.
func (s *slots) put(r persist.Registry) {
	has := s.registries[r.Name]
	if has.slots == nil {
		has.slots = make(map[int64]persist.Slot)
	}
	has.set = r.Set
	for _, slot := range r.Slots {
		has.slots[slot.ID] = slot
	}
	s.registries[r.Name] = has
}

// Look implements [persist.SlotStore].
func (s *slots) Look(ctx context.Context, registry string, ids ...int64) (t persist.SlotTable, err error) {
	if err := persist.CheckLook(registry, ids...); err != nil {
		return t, err
	}
	err = s.locked(ctx, func() error {
		t = s.part(registry, ids...).Table(s.now().UnixMilli())
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
		if next, made = s.part(registry, swap.IDs()...).Swapped(swap); made {
			s.put(next)
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
		next := s.part(registry, persist.Root)
		if next.Set == nil {
			return fmt.Errorf("registry %q: %w", registry, persist.ErrNotFound)
		}
		next.Set = nil
		s.put(next)
		return nil
	})
}
