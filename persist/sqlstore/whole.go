package sqlstore

import (
	"context"
	"slices"

	"github.com/seqd/seqd/persist"
)

// Kinds implements [persist.Whole].
func (s *Store) Kinds(ctx context.Context) ([]string, error) {
	return s.distinct(ctx, "list kinds", "SELECT DISTINCT kind, "+s.link.standby()+" FROM seqd_documents")
}

// Registries implements [persist.Whole].
func (s *Store) Registries(ctx context.Context) ([]string, error) {
	return s.distinct(ctx, "list registries", "SELECT DISTINCT registry, "+s.link.standby()+" FROM seqd_slots")
}

// distinct returns the texts that a statement selects, in byte order.
func (s *Store) distinct(ctx context.Context, name, statement string) (list []string, err error) {
	err = s.link.query(ctx, name, statement, func(scan Scan) error {
		var text []byte
		var standby int64
		if err := scan(&text, &standby); err != nil {
			return err
		}
		if standby != 0 {
			return ErrStandby
		}
		list = append(list, string(text))
		return nil
	})
	slices.Sort(list)
	return list, err
}

// Refill implements [persist.Whole].
func (s *Store) Refill(ctx context.Context, list []persist.Document) error {
	if err := persist.CheckRefilled(list); err != nil {
		return err
	}
	return s.documents.refill(ctx, list)
}
