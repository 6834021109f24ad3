package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seqd/seqd/client"
)

// every is how often the outbox is looked at. Each request confirms its own reservation, so there is
// only what it could not confirm, or what a process left that was killed.
const every = time.Second

// entry is one row of the outbox.
type entry struct{ Reservation, Number string }

// confirmAll confirms what is in the outbox, until the context ends. Several processes may do so:
// confirming twice is the same as once.
func (s *service) confirmAll(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.emptyOutbox(ctx); err != nil && ctx.Err() == nil {
			slog.Warn("numbers are confirmed later", "error", err)
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
		}
	}
}

// confirmNow confirms an entry while its request waits, so that callers cannot write invoices faster
// than they are confirmed. If it fails, confirmAll does it.
func (s *service) confirmNow(ctx context.Context, e entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := s.confirm(ctx, e); err != nil {
		slog.Warn("a number is confirmed later", "number", e.Number, "error", err)
	}
}

// emptyOutbox confirms every entry, the oldest first. One that cannot be confirmed now does not hold
// up the others.
func (s *service) emptyOutbox(ctx context.Context) error {
	rows, err := s.db.Query(ctx, "SELECT reservation, number FROM outbox ORDER BY written_at LIMIT 1000")
	if err != nil {
		return err
	}
	entries, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	if err != nil {
		return err
	}
	for _, e := range entries {
		err = errors.Join(err, s.confirm(ctx, e))
	}
	return err
}

// confirm confirms an entry and then deletes it, in this order: an entry whose confirmation is in
// doubt is confirmed again.
func (s *service) confirm(ctx context.Context, e entry) error {
	_, err := s.numbers.Confirm(ctx, s.bizType, e.Reservation)
	switch {
	case errors.Is(err, client.ErrReservationExpired), errors.Is(err, client.ErrUnknownReservation):
		// Too late. The number is on an invoice, so whoever reserves it next finds it taken and
		// confirms it: see write.
		slog.Warn("the reservation expired before it was confirmed", "number", e.Number, "reservation", e.Reservation)
	case err != nil:
		return err
	}
	_, err = s.db.Exec(ctx, "DELETE FROM outbox WHERE reservation = $1", e.Reservation)
	return err
}
