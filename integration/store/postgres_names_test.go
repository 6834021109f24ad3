package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/persisttest"
	"github.com/seqd/seqd/persist/postgres"
)

var seqdTables = []string{"seqd_counters", "seqd_documents", "seqd_slots", "seqd_history", "seqd_schema"}

// A copy of the tables in a schema that comes first in the search_path does not take their place
// while a store is open, and a store that is opened then refuses to choose.
func TestPostgresCopyInAnotherSchema(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	for name, url := range map[string]string{"direct": server.URL(), "pgbouncer": testenv.StartPgbouncer(t, server.Addr()).URL()} {
		t.Run(name, func(t *testing.T) {
			emptyPostgres(server)
			s := openPostgres(t, url, nil)
			create(t, s)
			server.Query("CREATE SCHEMA seqd AUTHORIZATION seqd")
			other := openPostgres(t, url, nil) // an empty schema is none to choose
			for _, table := range seqdTables {
				server.Query(fmt.Sprintf("CREATE TABLE seqd.%[1]s (LIKE public.%[1]s INCLUDING ALL); INSERT INTO seqd.%[1]s SELECT * FROM public.%[1]s; "+
					"ALTER TABLE seqd.%[1]s OWNER TO seqd", table))
			}
			var last int64
			for _, node := range []persist.Store{s, other, s} {
				r, err := allocate(t.Context(), node)
				if err != nil || r.First != last+1 {
					t.Fatalf("after %d came %+v, %v", last, r, err)
				}
				last = r.Last
			}
			if _, err := tryPostgres(t, url, nil); err == nil || !strings.Contains(err.Error(), "in several schemas of the search_path: seqd, public") {
				t.Error(err)
			}
			server.Query("DROP SCHEMA seqd CASCADE")
			if r, err := allocate(t.Context(), openPostgres(t, url, nil)); err != nil || r.First != last+1 {
				t.Errorf("after %d came %+v, %v", last, r, err)
			}
		})
	}
}

// An operator of others that fits better than that of the server is not taken.
func TestPostgresOperatorOfOthers(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	for _, kind := range []string{"numeric", "double precision"} { // what extract returns, and what it returned once
		server.Query(fmt.Sprintf("CREATE FUNCTION zero(%[1]s, integer) RETURNS %[1]s LANGUAGE sql IMMUTABLE AS 'SELECT 0::%[1]s'; "+
			"CREATE OPERATOR * (LEFTARG = %[1]s, RIGHTARG = integer, FUNCTION = zero)", kind))
	}
	if now, err := openPostgres(t, server.URL(), nil).Now(t.Context()); err != nil || now.Year() < 2000 {
		t.Errorf("it is %s, %v", now, err)
	}
}

// Tables are created in the first schema of the search_path that exists, whatever its name is. Every
// statement names it: temporary tables, which another client of the pooler left behind in the only
// connection to the server, stay empty.
func TestPostgresTemporaryTables(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartPostgres(t)
	const odd = `a "b" $1 ? 'c'`
	quoted := pgx.Identifier{odd}.Sanitize()
	server.Query("CREATE SCHEMA " + quoted + " AUTHORIZATION seqd; ALTER ROLE seqd SET search_path = nowhere, " + quoted + ", public")
	url := testenv.StartPgbouncer(t, server.Addr(), "default_pool_size = 1").URL()
	openPostgres(t, server.URL(), nil)
	client := must.Get(pgx.Connect(t.Context(), url))(t)
	run := func(statement string) string {
		results := must.Get(client.PgConn().Exec(t.Context(), statement).ReadAll())(t)
		if len(results[0].Rows) == 0 {
			return ""
		}
		return string(results[0].Rows[0][0])
	}
	for _, table := range seqdTables {
		run(fmt.Sprintf("CREATE TEMPORARY TABLE %s (LIKE %s.%[1]s INCLUDING ALL)", table, quoted))
	}
	persisttest.Run(t, func(t *testing.T, now func() time.Time) persist.Store {
		for _, table := range seqdTables {
			server.Query("DELETE FROM " + quoted + "." + table)
		}
		return openPostgres(t, url, func(o *postgres.Options) { o.Now = now })
	})
	for _, table := range seqdTables {
		if rows := run("SELECT count(*) FROM pg_temp." + table); rows != "0" {
			t.Errorf("there are %s rows in a temporary table %s", rows, table)
		}
	}
	if found := server.Query("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); found != "0" {
		t.Errorf("there are %s tables in public", found)
	}
	server.Query("ALTER ROLE seqd SET search_path = nowhere")
	if _, err := tryPostgres(t, server.URL(), nil); err == nil || !strings.Contains(err.Error(), "the search_path names no schema that exists") {
		t.Error(err)
	}
}
