package memory

import (
	"context"
	"maps"
	"slices"

	"github.com/seqd/seqd/persist"
)

// Kinds implements [persist.Whole].
func (s *Store) Kinds(ctx context.Context) (kinds []string, err error) {
	err = s.documents.locked(ctx, func() error {
		for kind, list := range s.documents.kinds {
			if len(list) > 0 {
				kinds = append(kinds, kind)
			}
		}
		return nil
	})
	slices.Sort(kinds)
	return kinds, err
}

// Registries implements [persist.Whole].
func (s *Store) Registries(ctx context.Context) (names []string, err error) {
	err = s.slots.locked(ctx, func() error {
		names = slices.Sorted(maps.Keys(s.slots.registries))
		return nil
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
