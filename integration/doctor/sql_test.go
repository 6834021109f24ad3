package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func onPostgres(url string, more ...string) []string {
	return append([]string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + url, "SEQD_SEGMENT_ORDERING=per-node"}, more...)
}

func onMariaDB(dsn string, more ...string) []string {
	return append([]string{"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN=" + dsn, "SEQD_SEGMENT_ORDERING=per-node"}, more...)
}

const failedOverRow = "UPDATE seqd_schema SET fence = 'before'"

func TestPostgres(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	env := onPostgres(server.URL())
	doctor(t, env, 0, "PostgreSQL 1", "fsync on", "synchronous_commit on", "no tables yet", "the user seqd has the rights it needs",
		"the server ends statements after 4s", "may open 8 of the", "no standby is connected", "the PostgreSQL server: its clock")
	must.Equal(t, server.Query("SELECT count(*) FROM pg_class WHERE relname LIKE 'seqd%'"), "0", "the tables that it made")
	n := node.StartReady(t, t.TempDir(), env...)
	must.Get(n.Take("order", 10))(t)
	doctor(t, env, 0, "schema version 1", "the cluster is", "1 biz types issue as they did before", "1 can be read", "1 nodes may open 8")
	n.Stop()
	doctor(t, onPostgres(testenv.StartPgbouncer(t, server.Addr()).URL()), 0, "a pooler such as pgbouncer is between", "1 can be read")
	doctor(t, onPostgres(server.AdminURL()), 0, "warn  store.postgres.url: the user admin has rights over the whole server")

	server.Query("REVOKE DELETE ON seqd_history FROM seqd")
	doctor(t, env, 1, "FAIL  store.postgres.url: the user seqd lacks rights: delete on seqd_history")
	server.Query("GRANT DELETE ON seqd_history TO seqd")
	server.Query("ALTER TABLE seqd_counters SET UNLOGGED")
	doctor(t, env, 1, "seqd_counters is unlogged")
	server.Query("ALTER TABLE seqd_counters SET LOGGED")
	server.Query(failedOverRow)
	doctor(t, env, 1, "FAIL  store.postgres.failover: the store has failed over", "confirmed before", "seqd failover --confirm")
	doctor(t, slices.Concat(env, []string{"SEQD_STORE_POSTGRES_FAILOVER=lossless"}), 1, "synchronous_standby_names is empty")
	server.Query("ALTER ROLE seqd SET synchronous_commit = off")
	doctor(t, env, 1, "synchronous_commit is off")
	server.Query("ALTER ROLE seqd RESET synchronous_commit")
	server.Configure("full_page_writes = off")
	server.Reload()
	doctor(t, env, 1, "full_page_writes is off")
}

// A standby is shown to be one. Its primary shows it, and with failover lossless needs it.
func TestStandby(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	primary := testenv.StartPostgres(t)
	standby := testenv.StartStandby(t, primary)
	env := onPostgres(primary.URL())
	node.StartReady(t, t.TempDir(), env...).Stop()
	primary.AwaitStandby(standby)
	doctor(t, env, 0, "a standby, of which this user may not see more (GRANT pg_read_all_stats)")
	primary.Query("GRANT pg_read_all_stats TO seqd")
	doctor(t, env, 0, " is streaming, async")
	doctor(t, onPostgres(standby.URL()), 1, "the server is a standby and takes no writes", "schema version 1")
	lossless := slices.Concat(env, []string{"SEQD_STORE_POSTGRES_FAILOVER=lossless"})
	primary.Synchronous()
	doctor(t, lossless, 0, "lossless: commits wait for a standby.", " is streaming, sync")
	primary.Query("ALTER ROLE seqd SET synchronous_commit = local")
	doctor(t, lossless, 1, "synchronous_commit is local")
}

func TestMariaDB(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartMariaDB(t)
	env := onMariaDB(server.DSN())
	doctor(t, env, 0, "MariaDB 1", "innodb_flush_log_at_trx_commit 1", "no tables yet", "has the rights it needs",
		"the server ends statements after 4s", "may open 8 of the", "the MariaDB server: its clock")
	n := node.StartReady(t, t.TempDir(), env...)
	must.Get(n.Take("order", 10))(t)
	doctor(t, env, 0, "schema version 1", "the cluster is", "1 biz types issue as they did before", "1 can be read", "1 nodes may open 8")
	n.Stop()
	doctor(t, onMariaDB(server.AdminDSN()), 0, "has rights over the whole server")
	server.Query("ALTER TABLE seqd_schema ENGINE=MyISAM")
	doctor(t, env, 1, "seqd_schema has the engine MyISAM")
	server.Query("ALTER TABLE seqd_schema ENGINE=InnoDB")
	server.Query(failedOverRow)
	doctor(t, env, 1, "FAIL  store.mysql.failover: the store has failed over", "confirmed before")
	doctor(t, slices.Concat(env, []string{"SEQD_STORE_MYSQL_FAILOVER=lossless"}), 1, "commits wait for no replica")
	server.Query("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
	doctor(t, env, 1, "innodb_flush_log_at_trx_commit is 2")
	server.Query("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
	server.Query("SET GLOBAL read_only = ON")
	doctor(t, env, 1, "the server takes no writes (read_only is")
}

// Servers that are not there, or refuse us, are named with the key and without the password.
func TestSQLOutOfReach(t *testing.T) {
	t.Parallel()
	for key, env := range map[string][]string{
		"store.postgres.url": onPostgres("postgres://seqd:" + password + "@127.0.0.1:1/seqd"),
		"store.mysql.dsn":    onMariaDB("seqd:" + password + "@tcp(127.0.0.1:1)/seqd"),
	} {
		report := doctor(t, env, 1, "FAIL  "+key+": ", "refused")
		if strings.Contains(report, "FAIL  "+key+": "+key) {
			t.Errorf("the key is named twice: %s", report)
		}
	}
}
