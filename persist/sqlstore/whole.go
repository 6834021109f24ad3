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

// FillCounters implements [persist.CounterFiller]. No server changes the fence during a transaction.
func (s *Store) FillCounters(ctx context.Context, list []persist.Counter) error {
	for _, c := range list {
		if err := c.Validate(); err != nil {
			return err
		}
	}
	ctx, cancel, err := s.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return s.db.Transact(ctx, "fill counters", func(c Conn) error {
		var fence string
		err := c.Query(ctx, "read fence", "SELECT "+s.presentFence(), func(scan Scan) error { return scan(&fence) })
		if err == nil && fence == "" {
			err = ErrStandby
		}
		for _, piece := range pieces(list, func(c persist.Counter) int { return len(c.BizTag) + 100 }) {
			var params []any
			for _, m := range piece {
				params = append(params, []byte(m.BizTag), int64(persist.FormatVersion), m.Max, m.Step, m.Timestamp, m.Epoch, fence)
			}
			if err == nil {
				_, err = c.Exec(ctx, "fill counters", "INSERT INTO seqd_counters (name, version, highest, step, step_at, epoch, fence) VALUES "+rows(len(piece), 7), params...)
			}
		}
		return err
	})
}
