package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/sqlstore"
)

// Inspect asks the server about itself. It writes nothing. Each statement is bounded by the
// time-out of the store. It works on a server that Open would refuse, if the store was opened
// ReadOnly.
func (s *Store) Inspect(ctx context.Context) (found sqlstore.Server, err error) {
	for _, step := range []func(context.Context, *sqlstore.Server) error{
		s.InspectClock, s.inspectSettings, s.InspectSchema, s.inspectUser, s.inspectTables, s.inspectConnections,
	} {
		if err := step(ctx, &found); err != nil {
			return found, err
		}
	}
	return found, nil
}

// hidden are the settings that say nothing unless something else is set.
var hidden = []string{"version", "sql_mode", "transaction_isolation", "tx_isolation", "transaction_read_only", "tx_read_only", "innodb_read_only"}

// inspectSettings checks the settings as a new connection does.
func (s *Store) inspectSettings(ctx context.Context, found *sqlstore.Server) error {
	return s.Bounded(ctx, func(ctx context.Context) error {
		pooled, err := s.db.pool.Conn(ctx)
		if err != nil {
			return translate(err)
		}
		defer func() { _ = pooled.Close() }() // it returns the connection
		var have settings
		err = pooled.Raw(func(c any) (err error) {
			have, err = readSettings(ctx, c.(driver.Conn))
			return err
		})
		if err != nil {
			return translate(err)
		}
		found.Product, found.Version, found.Refused = "MySQL", have["version"], have.check(s.db.lossless)
		if have.mariaDB() {
			found.Product = "MariaDB"
		}
		for _, name := range slices.Sorted(maps.Keys(have)) {
			special := strings.HasPrefix(name, "rpl_") || strings.HasPrefix(name, "wsrep_") || strings.HasPrefix(name, "group_")
			if !special && !slices.Contains(hidden, name) {
				found.Settings = append(found.Settings, name+" "+shown(have[name]))
			}
		}
		found.Replication = have.replication()
		return nil
	})
}

// replication says what follows this server, "" if nothing is known.
func (s settings) replication() string {
	_, semiSync := s.first("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled")
	_, clients := s.first("rpl_semi_sync_source_clients", "rpl_semi_sync_master_clients")
	switch {
	case s.galera():
		return "it is a node of a Galera cluster, " + s["wsrep_cluster_status"]
	case s["group_replication_group_name"] != "":
		return "it is a member of a replication group, group_replication_consistency " + s["group_replication_consistency"]
	case oneOf("ON", "1")(semiSync):
		return "semi-synchronous replication is on, with " + clients + " replicas"
	case s.on("log_bin"):
		return "it writes a binary log; replicas, if there are any, are asynchronous"
	}
	return "it writes no binary log, so it has no replica"
}

// userQuery reads the user, whether its connection is local, and the most connections it may have
// beside those of the server.
const userQuery = "SELECT CURRENT_USER(), CASE WHEN SUBSTRING_INDEX(USER(), '@', -1) IN ('localhost', '127.0.0.1', '::1', '') THEN 1 ELSE 0 END"

// needed are the statements that seqd may have to run, as kind, table and statement.
var needed = [][3]string{
	{"select", "seqd_counters", "SELECT 1 FROM seqd_counters WHERE 1 = 0"},
	{"insert", "seqd_counters", "INSERT INTO seqd_counters SELECT * FROM seqd_counters WHERE 1 = 0"},
	{"update", "seqd_counters", "UPDATE seqd_counters SET highest = 0 WHERE 1 = 0"},
	{"delete", "seqd_counters", "DELETE FROM seqd_counters WHERE 1 = 0"},
	{"select", "seqd_documents", "SELECT 1 FROM seqd_documents WHERE 1 = 0"},
	{"insert", "seqd_documents", "INSERT INTO seqd_documents SELECT * FROM seqd_documents WHERE 1 = 0"},
	{"update", "seqd_documents", "UPDATE seqd_documents SET revision = 0 WHERE 1 = 0"},
	{"delete", "seqd_documents", "DELETE FROM seqd_documents WHERE 1 = 0"},
	{"select", "seqd_slots", "SELECT 1 FROM seqd_slots WHERE 1 = 0"},
	{"insert", "seqd_slots", "INSERT INTO seqd_slots SELECT * FROM seqd_slots WHERE 1 = 0"},
	{"update", "seqd_slots", "UPDATE seqd_slots SET id = 0 WHERE 1 = 0"},
	{"delete", "seqd_slots", "DELETE FROM seqd_slots WHERE 1 = 0"},
	{"select", "seqd_history", "SELECT 1 FROM seqd_history WHERE 1 = 0"},
	{"insert", "seqd_history", "INSERT INTO seqd_history SELECT * FROM seqd_history WHERE 1 = 0"},
	{"delete", "seqd_history", "DELETE FROM seqd_history WHERE 1 = 0"},
	{"select", "seqd_schema", "SELECT 1 FROM seqd_schema WHERE 1 = 0"},
	{"update", "seqd_schema", "UPDATE seqd_schema SET version = 0 WHERE 1 = 0"},
}

// inspectUser asks who we are and what we may do. EXPLAIN needs the rights of the statement and
// runs nothing, so rights that come through roles count as well.
func (s *Store) inspectUser(ctx context.Context, found *sqlstore.Server) error {
	var local int64
	err := s.Ask(ctx, "inspect user", userQuery, func(scan sqlstore.Scan) error { return scan(&found.User, &local) })
	if err != nil {
		return err
	}
	grants, err := s.Lines(ctx, "inspect grants", "SHOW GRANTS")
	if err != nil {
		return err
	}
	found.Mighty = slices.ContainsFunc(grants, mighty)
	if found.Schema == 0 {
		if !slices.ContainsFunc(grants, creates) {
			found.Missing = []string{"create on the database (unless a role has it)"}
		}
		return s.inspectSession(ctx, found, local == 1)
	}
	for _, n := range needed {
		err := s.Ask(ctx, "inspect rights", "EXPLAIN "+n[2], func(sqlstore.Scan) error { return nil })
		switch {
		case forbids(err):
			found.Missing = append(found.Missing, n[0]+" on "+n[1])
		case found.Refused != nil && errors.Is(err, persist.ErrUnavailable): // it explains no writes either
		case err != nil:
			return err
		}
	}
	return s.inspectSession(ctx, found, local == 1)
}

// forbids reports whether an error is the lack of a right.
func forbids(err error) bool {
	refused, ok := errors.AsType[sqlstore.Refused](err)
	return ok && strings.Contains(string(refused), "lacks a right")
}

// mighty reports whether a grant gives rights over the whole server.
func mighty(grant string) bool {
	grant = strings.ToUpper(grant)
	return strings.Contains(grant, " ON *.* ") && (strings.Contains(grant, "ALL PRIVILEGES") || strings.Contains(grant, "SUPER"))
}

// creates reports whether a grant lets the user create tables somewhere, or is a role that may.
func creates(grant string) bool {
	rights, _, given := strings.Cut(strings.ToUpper(grant), " ON ")
	return !given || strings.Contains(rights, "ALL PRIVILEGES") || strings.Contains(rights, "CREATE,") || strings.HasSuffix(rights, "CREATE")
}

// inspectSession asks whether the session is encrypted, and which bound its statements have.
func (s *Store) inspectSession(ctx context.Context, found *sqlstore.Server, local bool) error {
	values, err := s.pairs(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ('max_execution_time', 'max_statement_time')")
	if err != nil {
		return err
	}
	if seconds, err := strconv.ParseFloat(values["max_statement_time"], 64); err == nil {
		found.Timeout = time.Duration(seconds * float64(time.Second))
	}
	if ms, err := strconv.ParseInt(values["max_execution_time"], 10, 64); err == nil {
		found.Timeout = time.Duration(ms) * time.Millisecond
	}
	values, err = s.pairs(ctx, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
	found.Plain = !local && values["ssl_cipher"] == ""
	return err
}

// inspectTables asks how large the tables are, and whether they are kept.
func (s *Store) inspectTables(ctx context.Context, found *sqlstore.Server) error {
	return s.Ask(ctx, "inspect tables", tables, func(scan sqlstore.Scan) error {
		var table, engine string
		var bytes int64
		if err := scan(&table, &engine, &bytes); err != nil {
			return err
		}
		if text := unfit(table, engine); text != "" {
			found.Unfit = append(found.Unfit, text)
		}
		found.Bytes += bytes
		return nil
	})
}

// inspectConnections asks how many connections are left.
func (s *Store) inspectConnections(ctx context.Context, found *sqlstore.Server) error {
	// max_user_connections of the session is that of the user, if it has one
	values, err := s.pairs(ctx, "SHOW SESSION VARIABLES WHERE Variable_name IN ('max_connections', 'max_user_connections')")
	if err != nil {
		return err
	}
	found.Most, _ = strconv.ParseInt(values["max_connections"], 10, 64)
	if own, _ := strconv.ParseInt(values["max_user_connections"], 10, 64); own > 0 {
		found.Most = min(found.Most, own)
	}
	values, err = s.pairs(ctx, "SHOW GLOBAL STATUS LIKE 'Threads_connected'")
	found.Open, _ = strconv.ParseInt(values["threads_connected"], 10, 64)
	return err
}

// pairs returns the rows of a statement that shows names and values, by lower-case name.
func (s *Store) pairs(ctx context.Context, statement string) (map[string]string, error) {
	values := make(map[string]string)
	err := s.Ask(ctx, "inspect variables", statement, func(scan sqlstore.Scan) error {
		var name, value string
		err := scan(&name, &value)
		values[strings.ToLower(name)] = value
		return err
	})
	return values, err
}
