package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/seqd/seqd/persist"
)

// link is what every operation passes before it uses the database.
type link struct {
	db      DB
	dialect Dialect
	opts    Options
	// checked is true when the schema is known to be the one that this build needs.
	checked atomic.Bool
}

// begin returns a context with the deadline of an operation, or why it cannot be done.
func (l *link) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := ctx.Err(); err != nil {
		return ctx, func() {}, err
	}
	if l.opts.Admit != nil {
		if err := l.opts.Admit(ctx); err != nil {
			return ctx, func() {}, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.opts.Timeout)
	if l.checked.Load() {
		return ctx, cancel, nil
	}
	return ctx, cancel, l.prepare(ctx)
}

// exec sends a statement as an operation of its own, and returns how many rows it changed.
func (l *link) exec(ctx context.Context, name, statement string, params ...any) (int64, error) {
	ctx, cancel, err := l.begin(ctx)
	defer cancel()
	if err != nil {
		return 0, err
	}
	return l.db.Exec(ctx, name, statement, params...)
}

// query sends a statement that returns rows as an operation of its own, and calls row for each.
func (l *link) query(ctx context.Context, name, statement string, row func(Scan) error, params ...any) error {
	ctx, cancel, err := l.begin(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	return l.db.Query(ctx, name, statement, row, params...)
}

// standby is the expression of [Dialect] in the statements that read: what they return must not be
// out of date. Whoever only looks may look at a standby.
func (l *link) standby() string {
	if l.opts.ReadOnly {
		return "0"
	}
	return l.dialect.Standby
}

// proof is the expression of [Dialect] in the statements whose result others rely on. It may write
// to the log of the server.
func (l *link) proof() string {
	if l.opts.ReadOnly {
		return "0"
	}
	return l.dialect.Proof
}

// ErrStandby is returned for a server that is a standby, that has become the one that takes the
// writes without having been announced, or whose settings have become unsafe. A new connection to
// it is refused, or announces it. A store with the [LosslessMark] is like that to a node that was
// told something else.
var ErrStandby = fmt.Errorf("%w: the server takes no writes any more, or again since a moment ago, or its settings became unsafe, or other nodes have failover: lossless", persist.ErrUnavailable)

// presentFence is the fence in a statement that returns it: "" instead of NULL.
func (l *link) presentFence() string { return "COALESCE(" + l.dialect.Fence + ", '')" }

// missing returns ErrNotFound for records that a statement did not find, or why the server cannot
// know. ctx is that of the operation.
func (l *link) missing(ctx context.Context) error {
	err := l.db.Query(ctx, "look for standby", "SELECT "+l.standby(), func(scan Scan) error {
		var standby int64
		err := scan(&standby)
		if err == nil && standby != 0 {
			err = ErrStandby // here, so that the driver ends the connection
		}
		return err
	})
	if err != nil {
		return err
	}
	return persist.ErrNotFound
}

// one returns ErrNotFound unless a statement changed a row.
func one(affected int64, err error) error {
	if err == nil && affected == 0 {
		return persist.ErrNotFound
	}
	return err
}

// about wraps an error with the name of the record.
func about(id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%q: %w", id, err)
}

// checkVersion returns ErrNewer for a row of a newer format, and ErrInvalid for one of none.
func checkVersion(id string, version int64) error {
	switch {
	case version > persist.FormatVersion:
		return fmt.Errorf("%q: %w: row format %d, this build knows %d", id, persist.ErrNewer, version, persist.FormatVersion)
	case version < 1:
		return damaged(id)
	}
	return nil
}

func damaged(id string) error {
	return fmt.Errorf("%q: %w: the row is damaged", id, persist.ErrInvalid)
}

// list returns what separates n parameters: (?,?,?).
func list(n int) string { return "(?" + strings.Repeat(",?", n-1) + ")" }

// rows returns n lists of parameters: (?,?),(?,?).
func rows(n, columns int) string { return list(columns) + strings.Repeat(","+list(columns), n-1) }
