package store

import (
	"testing"
	"time"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/persisttest"
	"github.com/seqd/seqd/persist/postgres"
	"github.com/seqd/seqd/persist/sqlstore"
)

// dropTables drops the tables of seqd.
func dropTables(server *testenv.Postgres) {
	server.Query("DROP TABLE IF EXISTS seqd_counters, seqd_documents, seqd_slots, seqd_history, seqd_schema")
}

// emptyPostgres removes all records of seqd. To drop the tables, and make them again, takes longer.
func emptyPostgres(server *testenv.Postgres) {
	server.Query(`DO $$ BEGIN
		IF to_regclass('seqd_schema') IS NOT NULL THEN
			DELETE FROM seqd_counters; DELETE FROM seqd_documents; DELETE FROM seqd_slots; DELETE FROM seqd_history;
		END IF;
	END $$`)
}

// sqlOptions are those of a store in an SQL database, unless a test says otherwise.
func sqlOptions() sqlstore.Options {
	return sqlstore.Options{Timeout: patient, MaxConnections: 8, Now: time.Now}
}

// openPostgres opens a store in the database behind a URL.
func openPostgres(t testing.TB, url string, change func(*postgres.Options)) *postgres.Store {
	t.Helper()
	o := postgres.Options{URL: url, Options: sqlOptions()}
	if change != nil {
		change(&o)
	}
	if o.Timeout < patient {
		prepare(t, o, postgres.Open, func(o *postgres.Options) { o.Timeout = patient })
	}
	s := must.Get(postgres.Open(t.Context(), o))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestPostgresDefaultsOfOperators runs the suite behind pgbouncer.
func TestPostgresConformance(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	persisttest.Run(t, func(t *testing.T, now func() time.Time) persist.Store {
		emptyPostgres(server)
		return openPostgres(t, server.URL(), func(o *postgres.Options) { o.Now = now })
	})
}

// Defaults that an operator gave to the database do not change what a store does, behind a pooler
// neither, where no setting of the store lasts.
func TestPostgresDefaultsOfOperators(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	for _, set := range []string{
		"default_transaction_isolation = serializable", "default_transaction_deferrable = on", "bytea_output = escape", "standard_conforming_strings = off",
		"transform_null_equals = on", "lock_timeout = '20ms'", "row_security = off", "array_nulls = off", "client_encoding = latin1",
		"datestyle = 'SQL, DMY'", "intervalstyle = sql_standard", "timezone = 'Pacific/Apia'", "extra_float_digits = -15", "quote_all_identifiers = on",
		"client_min_messages = error", "enable_indexscan = off", "default_tablespace = pg_default", "synchronous_commit = local",
	} {
		server.Query("ALTER ROLE seqd SET " + set)
	}
	for name, url := range map[string]string{"direct": server.URL(), "pgbouncer": testenv.StartPgbouncer(t, server.Addr()).URL()} {
		t.Run(name, func(t *testing.T) {
			persisttest.Run(t, func(t *testing.T, now func() time.Time) persist.Store {
				emptyPostgres(server)
				return openPostgres(t, url, func(o *postgres.Options) { o.Now = now })
			})
		})
	}
}
