package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seqd/seqd/client"
)

// invoice is one row.
type invoice struct {
	Number string `json:"number"`
	Order  string `json:"order"`
	Cents  int64  `json:"cents"`
}

// What create and find return.
var (
	errNone    = errors.New("the order has no invoice")
	errInvalid = errors.New("an invoice needs an amount above zero")
)

// service writes invoices. Several processes may do so with one database.
type service struct {
	db      *pgxpool.Pool
	numbers *client.Client
	bizType string
	ttl     time.Duration
}

//go:embed schema.sql
var schema string

func (s *service) createTables(ctx context.Context) error {
	// The lock is for processes that start together.
	_, err := s.db.Exec(ctx, "SELECT pg_advisory_xact_lock(20261123);\n"+schema)
	return err
}

// find returns the invoice of an order, or errNone.
func (s *service) find(ctx context.Context, order string) (inv invoice, err error) {
	const query = "SELECT number, order_id, cents FROM invoice WHERE order_id = $1"
	err = s.db.QueryRow(ctx, query, order).Scan(&inv.Number, &inv.Order, &inv.Cents)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errNone
	}
	return inv, err
}

// create writes the invoice of an order, unless the order has one. It can be repeated.
func (s *service) create(ctx context.Context, inv invoice) (got invoice, written bool, err error) {
	for {
		got, err = s.find(ctx, inv.Order)
		if !errors.Is(err, errNone) {
			return got, false, err
		}
		got, err = s.write(ctx, inv)
		switch {
		case err == nil:
			return got, true, nil
		case !errors.Is(err, errAgain):
			return inv, false, err
		}
	}
}

// errAgain says that an attempt wrote nothing, and that another one is promising.
var errAgain = errors.New("again")

// write reserves a number and writes the invoice with it. What happens to the reservation depends on
// the transaction alone:
//
//   - committed: it is in the outbox, so it will be confirmed, mostly at once;
//   - rolled back: it is released;
//   - unknown, because the connection was lost during the commit: it is left alone. If the
//     transaction was committed, the outbox has it. If not, it expires, and the number is issued
//     again.
//
// If this process is killed, the same holds.
func (s *service) write(ctx context.Context, inv invoice) (invoice, error) {
	// The transaction must end while the number is reserved. This clock starts before the
	// reservation does.
	ctx, cancel := context.WithTimeout(ctx, s.ttl/2)
	defer cancel()
	reserved, err := s.numbers.Reserve(ctx, s.bizType, client.ReserveOptions{TTL: s.ttl})
	if err != nil {
		return inv, err // if it was made all the same, it expires
	}
	inv.Number = reserved.IDs[0]
	err = s.transaction(ctx, inv, reserved.ID)
	switch {
	case err == nil:
		s.confirmNow(ctx, entry{reserved.ID, inv.Number})
		return inv, nil
	case violates(err, "invoice_pkey"):
		// An invoice has the number already: it was committed, and its reservation expired before it
		// was confirmed. So this reservation of the same number is confirmed instead.
		return inv, errors.Join(errAgain, s.adopt(ctx, entry{reserved.ID, inv.Number}))
	case errors.Is(err, errUnknown):
		return inv, err
	}
	s.release(ctx, reserved)
	if violates(err, "cents_above_zero") {
		return inv, errInvalid
	}
	return inv, err
}

// errUnknown says that nobody knows yet whether a transaction was committed.
var errUnknown = errors.New("the connection was lost during the commit")

// transaction writes the invoice, and what is to be confirmed. After any error except errUnknown it
// has certainly written nothing.
func (s *service) transaction(ctx context.Context, inv invoice, reservation string) error {
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after a commit
	const insert = "INSERT INTO invoice (number, order_id, cents) VALUES ($1, $2, $3) ON CONFLICT (order_id) DO NOTHING"
	switch done, err := tx.Exec(ctx, insert, inv.Number, inv.Order, inv.Cents); {
	case err != nil:
		return err
	case done.RowsAffected() == 0:
		return errAgain // somebody else has just written the invoice of this order
	}
	if _, err := tx.Exec(ctx, toConfirm, reservation, inv.Number); err != nil {
		return err
	}
	return commit(ctx, tx)
}

const toConfirm = "INSERT INTO outbox (reservation, number) VALUES ($1, $2)"

// commit tells a commit that failed from one whose outcome is unknown.
func commit(ctx context.Context, tx pgx.Tx) error {
	err := tx.Commit(ctx)
	var refused *pgconn.PgError
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &refused) && refused.SeverityUnlocalized == "ERROR" {
		return err
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

// adopt puts the reservation of a number into the outbox that an invoice has already.
func (s *service) adopt(ctx context.Context, e entry) error {
	slog.Warn("the number is on an invoice already; another reservation of it is confirmed", "number", e.Number)
	if _, err := s.db.Exec(ctx, toConfirm, e.Reservation, e.Number); err != nil {
		return err
	}
	s.confirmNow(ctx, e)
	return nil
}

// release gives a number back at once. If that fails, the reservation expires.
func (s *service) release(ctx context.Context, reserved *client.Reservation) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := reserved.Release(ctx); err != nil {
		slog.Warn("the number goes back when its reservation expires", "number", reserved.IDs[0], "error", err)
	}
}

// violates reports whether a constraint refused a statement.
func violates(err error, constraint string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.ConstraintName == constraint
}
