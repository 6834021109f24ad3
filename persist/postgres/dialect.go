package postgres

import (
	"context"
	_ "embed"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

//go:embed schema.sql
var schema string

// fence is the system identifier, which all copies of a database share, and the timeline, which
// changes with each promotion. pg_control_checkpoint() would show the former timeline until the
// first checkpoint. On a standby pg_current_wal_lsn() fails. It is NULL if the settings of the
// server are unsafe: they change without a new connection by a reload, and behind a pooler by a
// restart too.
//
// With [sqlstore.LosslessMark] it is the one of the mark if nothing is lost, and NULL otherwise. A
// store that is only looked at has the fence of the server even then: see [dialect]. With
// [sqlstore.ShutMark] it is NULL too, unless the store is used nevertheless.
func fenceOf(lossless, pastShut bool) string {
	text, marked := "s.fence", "NULL"
	if pastShut {
		text = sqlstore.Unshut(text)
	}
	if lossless {
		marked = "split_part(substr(" + text + ", 2), ' ', 1)"
	}
	return "(SELECT CASE WHEN " + safeNow + " THEN CASE LEFT(" + text + ", 1) WHEN '" + sqlstore.LosslessMark + "' THEN " + marked +
		" WHEN '" + sqlstore.ShutMark + "' THEN NULL ELSE " + timeline + " END END FROM pg_control_system(), seqd_schema s)"
}

// timeline is the fence whatever seqd_schema says.
const timeline = "system_identifier::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"

func dialect(d *db, readOnly, pastShut bool) sqlstore.Dialect {
	fence := fenceOf(d.lossless, pastShut)
	inSchema := fence
	switch {
	case d.lossless:
	case readOnly: // it writes nothing under the fence, and looks whatever the settings are
		inSchema = "(SELECT " + timeline + " FROM pg_control_system())"
		fence = inSchema
	default:
		inSchema = "(SELECT CASE WHEN " + safeNow + " THEN " + timeline + " END FROM pg_control_system())"
	}
	return sqlstore.Dialect{
		Fence:       fence,
		Failovers:   promotions("fence", fence),
		SchemaFence: inSchema,
		Holds:       holds(d.lossless),
		Clock:       "(extract(epoch FROM clock_timestamp()) OPERATOR(pg_catalog.*) 1000)::bigint",
		// A connection ends when its server becomes a standby, but a pooler hides that.
		Standby: "CASE WHEN pg_is_in_recovery() OR NOT (" + safeNow + ") THEN 1 ELSE 0 END",
		// A transaction that wrote to the log waits for the synchronous standby when it commits, and so
		// for all that was logged before.
		Proof:     "(SELECT 0 FROM pg_logical_emit_message(true, 'seqd', ''))",
		KeepFirst: " ON CONFLICT DO NOTHING",
		DeleteSome: func(table, where, order string) string {
			return "DELETE FROM " + table + " WHERE ctid = ANY(ARRAY(SELECT ctid FROM " + table + " WHERE " + where +
				" ORDER BY " + order + " LIMIT ? FOR UPDATE SKIP LOCKED))"
		},
		HasTables: d.findHome,
		Steps:     []string{schema},
	}
}

// holds returns the condition that a text is the present fence. It makes the transaction of its
// statement durable, as [db.Allocate] does. The subquery is evaluated as a whole because it calls a
// function with a side effect.
func holds(lossless bool) string {
	same := "f.present = ?::text"
	switch {
	case lossless:
		same += " AND " + standbyNamed
	case sabotage.Off(sabotage.FenceCompared):
		same = "?::text IS NOT NULL AND f.present IS NOT NULL"
	}
	return "(SELECT " + same + " FROM (SELECT " + fenceOf(lossless, false) + " AS present, " + durably(lossless) + ") f)"
}

// promotions is how many promotions there were since the fence was the written one, at least 1. The gap is
// added for each of them: what the last one lost may include a range that began one gap higher
// because of the one before. No more than 1000 count, so that the product fits into a bigint.
func promotions(written, present string) string {
	number := func(fence string) string { return "('x' || split_part(" + fence + ", '/', 2))::bit(32)::bigint" }
	return "CASE WHEN split_part(" + written + ", '/', 1) = split_part(" + present + ", '/', 1) " +
		"THEN LEAST(1000, GREATEST(1, " + number(present) + " - " + number(written) + ")) ELSE 1 END"
}

// standbyNamed is a condition that holds if commits wait for a standby.
const standbyNamed = "current_setting('synchronous_standby_names') ~ '[^ ]'"

// durably returns columns that make the transaction of their statement durable when it is
// committed, whatever the settings of the role, the database or the session have become, and its
// warnings visible to notice.
func durably(lossless bool) string {
	weak := "'off'"
	if lossless {
		weak = "'off', 'local', 'remote_write'"
	}
	return "CASE WHEN current_setting('synchronous_commit') IN (" + weak + ") THEN set_config('synchronous_commit', 'on', true) END AS durable, " +
		"CASE WHEN current_setting('client_min_messages') = 'error' THEN set_config('client_min_messages', 'warning', true) END AS warned"
}

// makeDurable makes a transaction that has begun durable when it is committed, or returns why it
// cannot be.
func (d *db) makeDurable(ctx context.Context, c *pgx.Conn) error {
	var named bool
	err := c.QueryRow(ctx, "SELECT "+standbyNamed+" FROM (SELECT "+durably(d.lossless)+") f").Scan(&named)
	if err == nil && !named {
		if err = d.stillSafe(ctx, c); errors.Is(err, persist.ErrNotFound) {
			return nil
		}
	}
	return translate(err)
}

// allocateStatement returns the statement that allocates a range: [persist.Counter.Allocated] in
// SQL. Of concurrent statements the second waits for the row, and then computes with what the first
// one wrote. The commit is durable whatever the settings of the role, the database or the session
// have become since the connection was checked. Its parameters are:
//
//	$1 name, $2 size, $3 floor, $4 floor plus gap, $5 failover gap, $6 step or 0, $7 now,
//	$8 new epoch or NULL for the old one, $9 epoch that the counter must have or NULL for any,
//	$10 smallest failover gap in steps, $11 largest step that it counts in full
func allocateStatement(lossless bool) string {
	failedOver, waits := "c.fence <> f.present", ""
	if lossless {
		waits = " AND " + standbyNamed
	}
	if sabotage.Off(sabotage.FenceCompared) {
		failedOver = "false"
	}
	epoch := "(CASE WHEN " + failedOver + " THEN '' ELSE c.epoch END)"
	base := "(CASE WHEN c.highest < $3::bigint THEN $4::bigint ELSE c.highest END)"
	most := strconv.FormatInt(persist.MaxNumber, 10)
	gap := "GREATEST($5::bigint, LEAST(c.step, $11::bigint) * $10::bigint)"
	above := "(" + base + " + CASE WHEN " + failedOver + " THEN LEAST(" + gap + " * " + promotions("c.fence", "f.present") + ", (" + most + " - " + base + ") / 2) ELSE 0 END)"
	held := "($9::text IS NULL OR " + epoch + " = $9)"
	if sabotage.Off(sabotage.EpochHeld) {
		held = "($9::text IS NULL OR true)"
	}
	return "UPDATE seqd_counters c SET highest = " + above + " + $2::bigint, fence = f.present, epoch = COALESCE($8::text, " + epoch + "), " +
		"step = CASE WHEN $6::bigint > 0 THEN $6 ELSE c.step END, step_at = CASE WHEN $6 > 0 THEN $7::bigint ELSE c.step_at END " +
		"FROM (SELECT " + fenceOf(lossless, false) + " AS present, " + durably(lossless) + ") f " +
		"WHERE c.name = $1::bytea AND c.version = " + strconv.Itoa(persist.FormatVersion) + " AND c.highest >= 0 " +
		"AND f.present IS NOT NULL AND " + above + " <= " + most + " - $2 AND " + held + waits + " RETURNING c.highest"
}

// Allocate implements [sqlstore.DB]. It is the one statement that is prepared: planning it takes
// longer than running it. A pooler may not know a prepared statement, so it is prepared only on
// connections that lead straight to the server.
func (d *db) Allocate(ctx context.Context, req persist.Request, now int64) (highest int64, err error) {
	err = d.with(ctx, "allocate", func(c *pgx.Conn) error {
		mode := pgx.QueryExecModeExec
		if isDirect(c) {
			mode = pgx.QueryExecModeCacheStatement
		}
		var next, held *string
		if !req.To.Keeps() {
			epoch := req.To.Epoch()
			next = &epoch
		}
		if epoch, ok := req.To.Needs(); ok {
			held = &epoch
		}
		err := c.QueryRow(ctx, d.named(d.allocate), mode, []byte(req.BizTag), req.Size, req.Floor, req.Floor+min(req.Gap, persist.MaxNumber-req.Floor),
			req.FailoverGap, req.Step, now, next, held, req.FailoverSteps, req.MostFailoverStep()).Scan(&highest)
		if errors.Is(err, pgx.ErrNoRows) {
			return d.stillSafe(ctx, c)
		}
		return translate(err)
	})
	return highest, err
}

// stillSafe returns persist.ErrNotFound for a statement that found no row, or why none may be
// allocated: with failover lossless, commits may have ceased to wait for a standby.
func (d *db) stillSafe(ctx context.Context, c *pgx.Conn) error {
	if d.lossless {
		if err := (settingsCheck{lossless: true}).conn(ctx, c); err != nil {
			d.pool.Reset() // each new connection is checked
			return translate(err)
		}
	}
	return persist.ErrNotFound
}
