package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"

	"github.com/seqd/seqd/persist"
)

// If commits wait for a replica and an operator ends such a statement (KILL QUERY), or turns the
// waiting off, the server returns success for what no replica has. It counts these commits. So with
// failover lossless the count is read after each write, on the same connection: it includes that
// write. If it has grown since the connection was made, or since its last write, some commit was
// not acknowledged, perhaps this one, and so its outcome is unknown.

// errUnproven is returned for a commit that a failover may take back.
var errUnproven = fmt.Errorf("%w: no replica has acknowledged the commit", persist.ErrUnavailable)

// waitsQuery reads whether commits wait for a replica, and how many did not. MySQL and MariaDB use
// different words. A cluster that needs no such wait has none of them.
const waitsQuery = "SHOW GLOBAL STATUS WHERE Variable_name IN (" +
	"'Rpl_semi_sync_master_status', 'Rpl_semi_sync_master_no_tx', 'Rpl_semi_sync_source_status', 'Rpl_semi_sync_source_no_tx')"

// replicaWaits returns what the server says of waiting for replicas, as a text to compare.
func replicaWaits(ctx context.Context, c libraryConn) (string, error) {
	rows, err := c.QueryContext(ctx, waitsQuery, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }() // collect says what failed
	s := make(settings)
	if err := s.collect(rows); err != nil {
		return "", err
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(s)) {
		text += name + "=" + s[name] + " "
	}
	return text, nil
}

// prove returns an error unless the last write was acknowledged by a replica. After an error the
// connection is closed: a new one checks the settings first.
func (c *conn) prove(ctx context.Context) error {
	waits, err := replicaWaits(ctx, c.libraryConn)
	if err != nil || waits != c.waits {
		c.useless.Store(true)
		return errUnproven
	}
	return nil
}

// BeginTx implements [driver.ConnBeginTx].
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.libraryConn.BeginTx(ctx, opts)
	if err != nil || !c.lossless {
		return tx, err
	}
	c.transacting = true
	return provenTx{tx, c, ctx}, nil
}

// provenTx is a transaction whose commit a replica must acknowledge.
type provenTx struct {
	driver.Tx
	conn *conn
	ctx  context.Context // of the transaction; Commit has none
}

// Commit implements [driver.Tx].
func (t provenTx) Commit() error {
	t.conn.transacting = false
	if err := t.Tx.Commit(); err != nil {
		return err
	}
	return t.conn.prove(t.ctx)
}

// Rollback implements [driver.Tx].
func (t provenTx) Rollback() error {
	t.conn.transacting = false
	return t.Tx.Rollback()
}
