package mysql

import (
	"context"
	_ "embed"
	"strings"

	"github.com/seqd/seqd/persist/sqlstore"
)

// identity is an expression for the identity of the server that runs the statement. With a
// generation it is the fence; see fenceOf.
//
// On MySQL it is server_uuid, which the server draws when it starts on a new data folder and keeps
// in auto.cnf. Each replica has its own, and a copy of the data folder without that file too.
//
// MariaDB has no such thing. There it is server_id, which must differ between the servers of a
// replication, with the name of the host and the port, which usually differ where a backup is
// restored. A restore on the same host is not noticed, as with MySQL if auto.cnf was restored too:
// after a restore an operator raises the counters.
//
// The comments are code, each for one of the two.
const identity = "/*!80000 @@GLOBAL.server_uuid */ /*M!100600 CONCAT_WS('/', @@GLOBAL.server_id, @@GLOBAL.hostname, @@GLOBAL.port) */"

// keepFirst ends an INSERT that leaves a row that exists as it is. The mark, which is returned with
// the result, says so: the number of rows is the same in both cases.
const (
	keepFirst = " ON DUPLICATE KEY UPDATE body = IF(LAST_INSERT_ID(1) = 1, body, body)"
	keptMark  = 1
)

//go:embed schema.sql
var schema string

func dialect(opts Options) sqlstore.Dialect {
	inRow := fenceOf(opts)
	fence := inSchema(unmarked(opts))
	return sqlstore.Dialect{
		Fence:       fence,
		Failovers:   failovers,
		SchemaFence: inRow,
		Holds:       holds(opts, fence),
		// SYSDATE is the time of its evaluation, NOW that of the beginning of the statement. The
		// time zone of the session is UTC.
		Clock: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(3)) DIV 1000",
		// A primary can become a replica without ending its connections, and a primary again. Then
		// its counters have the epochs of before.
		Standby: "IF(" + inSchema(inRow) + " IS NULL, 1, @@GLOBAL.read_only)",
		// With a binary log a change is visible to others after it is durable in the log, and, if
		// commits wait for a replica (AFTER_SYNC), after that one has it.
		Proof:     "0",
		KeepFirst: keepFirst,
		DeleteSome: func(table, where, order string) string {
			return "DELETE FROM " + table + " WHERE " + where + " ORDER BY " + order + " LIMIT ?"
		},
		HasTables: func(ctx context.Context, c sqlstore.Conn) (bool, error) { return hasTables(ctx, c, !opts.ReadOnly) },
		Steps:     []string{schema},
	}
}

// tables reads our tables with their engine and size. The size may be some minutes old.
const tables = "SELECT table_name, COALESCE(engine, ''), COALESCE(data_length + index_length, 0) FROM information_schema.tables " +
	"WHERE table_schema = DATABASE() AND table_name IN ('seqd_schema', 'seqd_counters', 'seqd_documents', 'seqd_slots', 'seqd_history')"

// hasTables reports whether the table with the version is there. With fit it refuses tables that a
// server, an import or an operator has given another engine.
func hasTables(ctx context.Context, c sqlstore.Conn, fit bool) (has bool, err error) {
	var bad []string
	err = c.Query(ctx, "look for tables", tables, func(scan sqlstore.Scan) error {
		var table, engine string
		var bytes int64
		err := scan(&table, &engine, &bytes)
		has = has || table == "seqd_schema"
		if text := unfit(table, engine); text != "" {
			bad = append(bad, text)
		}
		return err
	})
	if err == nil && fit && len(bad) > 0 {
		err = sqlstore.Refused(strings.Join(bad, "; "))
	}
	return has, err
}

// unfit says why a table does not keep what is written; "" if it does.
func unfit(table, engine string) string {
	if strings.EqualFold(engine, "InnoDB") {
		return ""
	}
	return table + " has the engine " + engine + ", which loses what was acknowledged; ALTER TABLE " + table + " ENGINE=InnoDB"
}
