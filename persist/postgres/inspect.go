package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd/persist/sqlstore"
)

// Inspect asks the server about itself. It writes nothing. Each statement is bounded by the
// time-out of the store. It works on a server that Open would refuse, if the store was opened
// ReadOnly.
func (s *Store) Inspect(ctx context.Context) (found sqlstore.Server, err error) {
	found.Product = "PostgreSQL"
	for _, step := range []func(context.Context, *sqlstore.Server) error{
		s.InspectClock, s.inspectSettings, s.InspectSchema, s.inspectUser, s.inspectTables, s.inspectStandbys, s.inspectConnections,
	} {
		if err := step(ctx, &found); err != nil {
			return found, err
		}
	}
	return found, nil
}

// inspectSettings checks the settings as a new connection does.
func (s *Store) inspectSettings(ctx context.Context, found *sqlstore.Server) error {
	return s.Bounded(ctx, func(ctx context.Context) error {
		c, err := s.db.acquire(ctx)
		if err != nil {
			return translate(err)
		}
		defer c.Release()
		found.Pooler = !isDirect(c.Conn())
		have, err := readSettings(ctx, c, true)
		if err != nil {
			return translate(err)
		}
		found.Version, found.Refused = shownVersion(have.version), have.check(s.db.lossless)
		for name, value := range have.values {
			found.Settings = append(found.Settings, fmt.Sprintf("%s %s", name, shown(value)))
		}
		slices.Sort(found.Settings)
		return nil
	})
}

func shown(value *string) string {
	if value == nil || *value == "" {
		return "empty"
	}
	return *value
}

// userQuery reads the user, whether it is a superuser, whether its connection is neither encrypted
// nor local, and the bound of its statements in ms.
const userQuery = `SELECT current_user::text, (SELECT CASE WHEN rolsuper THEN 1 ELSE 0 END FROM pg_roles WHERE rolname = current_user)::bigint,
	CASE WHEN COALESCE((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false)
		OR inet_client_addr() IS NULL OR inet_client_addr() <<= '127.0.0.0/8' OR inet_client_addr() = '::1' THEN 0 ELSE 1 END::bigint,
	(SELECT setting FROM pg_settings WHERE name = 'statement_timeout')::bigint`

// rightsQuery returns the rights that the user lacks on the tables, or without tables on the
// schema.
const rightsQuery = `SELECT lower(r) || ' on ' || t FROM (VALUES
	('seqd_counters', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']), ('seqd_documents', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']),
	('seqd_slots', ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']), ('seqd_history', ARRAY['SELECT', 'INSERT', 'DELETE']),
	('seqd_schema', ARRAY['SELECT', 'UPDATE'])) AS needed (t, list), unnest(list) AS r
	WHERE to_regclass(t) IS NOT NULL AND NOT has_table_privilege(to_regclass(t), r)
UNION ALL SELECT 'create on schema ' || COALESCE(current_schema(), '(none in search_path)')
	WHERE to_regclass('seqd_schema') IS NULL AND NOT COALESCE(has_schema_privilege(current_schema(), 'CREATE'), false)
UNION ALL SELECT 'execute on ' || f FROM unnest(ARRAY['pg_control_system()', 'pg_current_wal_lsn()', 'pg_logical_emit_message(boolean,text,text)']) AS f
	WHERE NOT has_function_privilege(f, 'EXECUTE')
ORDER BY 1`

// inspectUser asks who we are and what we may do.
func (s *Store) inspectUser(ctx context.Context, found *sqlstore.Server) error {
	var mighty, plain, ms int64
	err := s.Ask(ctx, "inspect user", userQuery, func(scan sqlstore.Scan) error { return scan(&found.User, &mighty, &plain, &ms) })
	if err != nil {
		return err
	}
	found.Mighty, found.Timeout = mighty == 1, time.Duration(ms)*time.Millisecond
	found.Plain = plain == 1 && !found.Pooler // otherwise it is the pooler's connection
	found.Missing, err = s.Lines(ctx, "inspect rights", rightsQuery)
	return err
}

// unfitQuery returns the tables that a crash of the server empties.
const unfitQuery = `SELECT relname || ' is unlogged: a crash of the server empties it; ALTER TABLE ' || relname || ' SET LOGGED'
	FROM pg_class WHERE relkind = 'r' AND relpersistence <> 'p' AND oid IN (to_regclass('seqd_counters'), to_regclass('seqd_documents'),
	to_regclass('seqd_slots'), to_regclass('seqd_history'), to_regclass('seqd_schema')) ORDER BY 1`

// sizeQuery needs no rights.
const sizeQuery = `SELECT COALESCE(sum(pg_total_relation_size(relid)), 0)::bigint, COALESCE(sum(n_dead_tup), 0)::bigint, COALESCE(sum(n_live_tup), 0)::bigint
	FROM pg_stat_user_tables WHERE relid IN (to_regclass('seqd_counters'), to_regclass('seqd_documents'), to_regclass('seqd_slots'), to_regclass('seqd_history'))`

// inspectTables asks how large the tables are, and whether they are kept.
func (s *Store) inspectTables(ctx context.Context, found *sqlstore.Server) (err error) {
	if found.Unfit, err = s.Lines(ctx, "inspect tables", unfitQuery); err != nil {
		return err
	}
	return s.Ask(ctx, "inspect sizes", sizeQuery, func(scan sqlstore.Scan) error { return scan(&found.Bytes, &found.Dead, &found.Live) })
}

// replicationQuery returns a line for each standby. Without the role pg_read_all_stats its state is
// not shown.
const replicationQuery = `SELECT CASE WHEN state IS NULL THEN 'a standby, of which this user may not see more (GRANT pg_read_all_stats)'
	ELSE COALESCE(NULLIF(application_name, ''), 'a standby') || ' is ' || state || ', ' || sync_state
		|| COALESCE(', ' || pg_size_pretty(pg_wal_lsn_diff(sent_lsn, flush_lsn)) || ' behind', '') END FROM pg_stat_replication ORDER BY 1`

// inspectStandbys asks which servers follow this one.
func (s *Store) inspectStandbys(ctx context.Context, found *sqlstore.Server) (err error) {
	found.Standbys, err = s.Lines(ctx, "inspect standbys", replicationQuery)
	return err
}

// connectionsQuery reads how many connections the user may have, with those of others, and how many
// there are.
const connectionsQuery = `SELECT LEAST(current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint,
		(SELECT CASE WHEN rolconnlimit < 0 THEN 1000000 ELSE rolconnlimit END FROM pg_roles WHERE rolname = current_user),
		(SELECT CASE WHEN datconnlimit < 0 THEN 1000000 ELSE datconnlimit END FROM pg_database WHERE datname = current_database()))::bigint,
	(SELECT COALESCE(sum(numbackends), 0) FROM pg_stat_database)::bigint`

// inspectConnections asks how many connections are left.
func (s *Store) inspectConnections(ctx context.Context, found *sqlstore.Server) error {
	return s.Ask(ctx, "inspect connections", connectionsQuery, func(scan sqlstore.Scan) error { return scan(&found.Most, &found.Open) })
}
