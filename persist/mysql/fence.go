package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"

	library "github.com/go-sql-driver/mysql"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist/sqlstore"
)

// A fence is the identity of the server that takes the writes, and a generation, which says how
// often another server began to. Identities alone repeat: if a server fails over to another one,
// and that one back to the first, the first may lack what the other one wrote, and would take it
// for its own. The one row of seqd_schema holds both. Whoever connects to a server that is not the
// writer on record makes it that and adds one to the generation, before anything else is sent. A
// server that took over is always met on a new connection: a connection to a replica is refused,
// and one that was made earlier finds that its fence is NULL, and is closed.

// fenceOf returns an expression for the fence, in a statement that reads the row of seqd_schema.
//
// If a failover loses nothing, the fence is the one of [sqlstore.LosslessMark], and while there is
// the mark nobody is put on record: the nodes of a cluster may all take writes at once. A store that
// is only looked at puts nobody on record either. It has the fence that the server will have.
//
// A server whose settings became unsafe has no fence. A new connection is refused by the name of
// the setting.
func fenceOf(opts Options) string {
	present := "IF(writer = " + identity + " AND " + safeNow + ", CONCAT(writer, '/', generation), NULL)"
	if opts.ReadOnly {
		present = "CONCAT(" + identity + ", '/', generation + IF(writer = " + identity + ", 0, 1))"
	}
	if opts.Lossless {
		text := sqlstore.Unshut("fence")
		present = "IF(LEFT(" + text + ", 1) = '" + sqlstore.LosslessMark + "', IF(" + safeNow + ", SUBSTRING_INDEX(SUBSTR(" + text + ", 2), ' ', 1), NULL), " + present + ")"
	}
	return present
}

// isMarked is the condition that there is the mark, and isShut that the store is shut.
const (
	isMarked = "LEFT(fence, 1) = '" + sqlstore.LosslessMark + "'"
	isShut   = "LEFT(fence, 1) = '" + sqlstore.ShutMark + "'"
)

// unmarked returns what [fenceOf] does, NULL while [sqlstore.LosslessMark] says that others rely on
// failovers that lose nothing, and this process was told something else, and NULL while the store is shut,
// unless it is opened for reading or PastShut.
func unmarked(opts Options) string {
	switch fence := fenceOf(opts); {
	case opts.ReadOnly:
		return fence
	case opts.Lossless && opts.PastShut:
		return fence
	case opts.Lossless:
		return "IF(" + isShut + ", NULL, " + fence + ")"
	case opts.PastShut:
		return "IF(LEFT(" + sqlstore.Unshut("fence") + ", 1) = '" + sqlstore.LosslessMark + "', NULL, " + fence + ")"
	default:
		return "IF(" + isMarked + " OR " + isShut + ", NULL, " + fence + ")"
	}
}

// safeNow is the condition that the settings are safe that change without a restart on every
// server.
const safeNow = "@@GLOBAL.innodb_flush_log_at_trx_commit IN (1, 3) AND (@@GLOBAL.log_bin = 0 OR @@GLOBAL.sync_binlog = 1)"

// holds returns the condition that a text is the present fence. It is not met while that is NULL.
func holds(opts Options, fence string) string {
	if sabotage.Off(sabotage.FenceCompared) {
		return "? IS NOT NULL AND " + fence + " IS NOT NULL"
	}
	return fence + " = ?"
}

// inSchema returns a column of the row of seqd_schema, for statements on other tables.
func inSchema(column string) string {
	return "(SELECT " + column + " FROM seqd_schema WHERE id = 1)"
}

// writtenIn is the generation in which a counter was written. A fence that is none of ours has
// none: MySQL refuses a statement that makes a number of another text.
const writtenIn = "IF(LOCATE('/', fence) > 0, CAST(SUBSTRING_INDEX(fence, '/', -1) AS SIGNED), 0)"

// failovers is how many failovers there were since a counter was written, at least 1. The gap is
// added for each of them: what the last one lost may include a range that began one gap higher
// because of the one before. No more than 1000 count, so that the product fits into a BIGINT.
var failovers = "LEAST(1000, GREATEST(1, " + inSchema("generation") + " - " + writtenIn + "))"

// unrecorded is the condition that a server is to be put on record. Of nodes that do so at once the
// second one waits for the row and then finds nothing to do.
func unrecorded(lossless bool) string {
	condition := "writer <> " + identity
	if lossless {
		condition += " AND NOT " + isMarked + " AND NOT " + isShut
	}
	return condition
}

// putOnRecord makes the server of a new connection the writer on record, if it is to be. The tables
// may not exist yet: whoever creates them puts the server on record.
func putOnRecord(ctx context.Context, c driver.Conn, lossless bool) error {
	to, ok := c.(libraryConn)
	if !ok {
		return errors.ErrUnsupported
	}
	is, err := isRecorded(ctx, to, lossless)
	if server, ok := errors.AsType[*library.MySQLError](err); ok && server.Number == errNoTable {
		return nil
	}
	if err != nil || is {
		return err
	}
	_, err = to.ExecContext(ctx, "UPDATE seqd_schema SET writer = "+identity+", generation = generation + 1 WHERE id = 1 AND "+unrecorded(lossless), nil)
	return err
}

// isRecorded reports whether nothing is to be put on record, or there is no record yet.
func isRecorded(ctx context.Context, c libraryConn, lossless bool) (bool, error) {
	rows, err := c.QueryContext(ctx, "SELECT "+unrecorded(lossless)+" FROM seqd_schema WHERE id = 1", nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }() // Next says what failed
	row := make([]driver.Value, 1)
	switch err := rows.Next(row); {
	case errors.Is(err, io.EOF):
		return true, nil
	case err != nil:
		return false, err
	}
	return text(row[0]) == "0", nil
}
