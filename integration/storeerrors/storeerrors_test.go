// Package storeerrors tests what operators are told about SQL servers that cannot be used, and what
// they do after a failover.
package storeerrors

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func TestMain(m *testing.M) { node.Main(m) }

func onPostgres(url string, more ...string) []string {
	return append([]string{"SEQD_STORE_DRIVER=postgres", "SEQD_STORE_POSTGRES_URL=" + url, "SEQD_SEGMENT_ORDERING=per-node"}, more...)
}

func onMariaDB(dsn string, more ...string) []string {
	return append([]string{"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN=" + dsn, "SEQD_SEGMENT_ORDERING=per-node"}, more...)
}

// mistake is a configuration that cannot work, what a message about it must hold, and the exit code
// of the service.
type mistake struct {
	env  []string
	code int
	want []string
}

// told checks what an operator is told of mistakes: the service ends and says in one line which key
// is wrong and why, as does doctor, and neither shows the password.
func told(t *testing.T, mistakes map[string]mistake) {
	t.Helper()
	node.Command(t, t.TempDir(), nil, "version") // builds the binary first, which takes long
	for name, m := range mistakes {
		t.Run(name, func(t *testing.T) {
			for _, command := range []string{"serve", "doctor"} {
				env := append(m.env, "SEQD_SERVER_ADDR=127.0.0.1:0")
				output, code := node.Command(t, t.TempDir(), env, command)
				want := m.code
				if command == "doctor" && want != 78 {
					want = 1
				}
				must.Equal(t, code, want, "%s says %s: the exit code", command, output)
				if strings.Contains(output, "secret") || strings.Contains(output, "correct-horse") {
					t.Errorf("%s shows a password: %s", command, output)
				}
				if line := lineWith(output, m.want[0]); !containsAll(line, m.want) {
					t.Errorf("%s has no line with %q: %s", command, m.want, output)
				}
			}
		})
	}
}

// lineWith returns the last line that holds a text, which is the message that ends the service.
func lineWith(output, text string) (found string) {
	for line := range strings.Lines(output) {
		if strings.Contains(line, text) {
			found = line
		}
	}
	return found
}

func containsAll(line string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(line, part) {
			return false
		}
	}
	return true
}

const failed, misconfigured = 1, 78

func TestPostgresMistakes(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	unsafe := testenv.StartPostgres(t, "fsync = off", "synchronous_commit = off")
	server.Query("CREATE ROLE stranger LOGIN PASSWORD 'secret'")
	server.Query("CREATE DATABASE other")
	server.Query("CREATE ROLE hasty LOGIN PASSWORD 'secret'")
	server.Query("ALTER ROLE hasty SET synchronous_commit = off")
	const key = "store.postgres.url: "
	url := func(user, password, database string) string {
		return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", user, password, server.Addr(), database)
	}
	told(t, map[string]mistake{
		"password":  {onPostgres(url("seqd", "correct-horse", "seqd")), failed, []string{key, "the user or the password is wrong", "28P01"}},
		"user":      {onPostgres(url("nobody", "correct-horse", "seqd")), failed, []string{key, "the user or the password is wrong"}},
		"database":  {onPostgres(url("seqd", "secret", "nothing")), failed, []string{key, "there is no such database"}},
		"rights":    {onPostgres(url("stranger", "secret", "seqd")), failed, []string{key, "right"}},
		"TLS":       {onPostgres(strings.Replace(server.URL(), "sslmode=disable", "sslmode=require", 1)), failed, []string{key, "TLS"}},
		"weakened":  {onPostgres(server.URL() + "&synchronous_commit=off"), misconfigured, []string{key, "sets synchronous_commit", "leave it out"}},
		"options":   {onPostgres(server.URL() + "&options=-csynchronous_commit%3Doff"), misconfigured, []string{key, "sets synchronous_commit"}},
		"MongoDB":   {onPostgres("mongodb://seqd:secret@" + server.Addr() + "/seqd"), misconfigured, []string{key, "must begin with postgres://"}},
		"a DSN":     {onPostgres("seqd:secret@tcp(" + server.Addr() + ")/seqd"), misconfigured, []string{key, "must begin with postgres://"}},
		"nonsense":  {onPostgres("postgres://seqd:sec%zzret@a/b"), misconfigured, []string{key, "cannot be read"}},
		"unsafe":    {onPostgres(unsafe.URL()), failed, []string{"fsync is off", "set it to on", "synchronous_commit is off"}},
		"hasty":     {onPostgres(url("hasty", "secret", "seqd")), failed, []string{"synchronous_commit is off", "for the user"}},
		"functions": {onPostgres(server.URL() + "&search_path=public,pg_catalog"), failed, []string{"search_path has pg_catalog behind another schema"}},
		"lossless":  {onPostgres(server.URL(), "SEQD_STORE_POSTGRES_FAILOVER=lossless"), failed, []string{"store.postgres.failover is lossless, but synchronous_standby_names is empty"}},
		"failover":  {onPostgres(server.URL(), "SEQD_STORE_POSTGRES_FAILOVER=perhaps"), misconfigured, []string{"store.postgres.failover: "}},
		"unknown":   {onPostgres(server.URL() + "&sslmod=require"), misconfigured, []string{key, "a parameter that seqd does not know"}},
		"pgbouncer": {onPostgres(strings.Replace(testenv.StartPgbouncer(t, server.Addr()).URL(), ":secret", ":correct-horse", 1)), failed, []string{key, "authentication failed"}},
	})
}

func TestMariaDBMistakes(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	server := testenv.StartMariaDB(t)
	unsafe := testenv.StartMariaDB(t, "innodb-flush-log-at-trx-commit=0", "log-bin=bin", "sync-binlog=0")
	server.Query("CREATE USER stranger@'%' IDENTIFIED BY 'secret'")
	server.Query("CREATE USER reader@'%' IDENTIFIED BY 'secret'")
	server.Query("GRANT SELECT ON seqd.* TO reader@'%'")
	const key = "store.mysql.dsn: "
	dsn := func(user, password, database string) string {
		return fmt.Sprintf("%s:%s@tcp(%s)/%s", user, password, server.Addr(), database)
	}
	told(t, map[string]mistake{
		"password":   {onMariaDB(dsn("seqd", "correct-horse", "seqd")), failed, []string{key, "refuses the user or the password"}},
		"user":       {onMariaDB(dsn("nobody", "correct-horse", "seqd")), failed, []string{key, "refuses the user or the password"}},
		"database":   {onMariaDB(dsn("seqd", "secret", "nothing")), failed, []string{key, "right to the database"}},
		"rights":     {onMariaDB(dsn("stranger", "secret", "seqd")), failed, []string{key, "right to the database"}},
		"TLS":        {onMariaDB(server.DSN() + "?tls=true"), failed, []string{key, "TLS"}},
		"weakened":   {onMariaDB(server.DSN() + "?autocommit=0"), misconfigured, []string{key, "sets autocommit", "leave it out"}},
		"MongoDB":    {onMariaDB("mongodb://seqd:secret@" + server.Addr() + "/seqd"), misconfigured, []string{key, "it is a URL"}},
		"PostgreSQL": {onMariaDB("postgres://seqd:secret@" + server.Addr() + "/seqd"), misconfigured, []string{key, "it is a URL"}},
		"no name":    {onMariaDB("seqd:secret@tcp(" + server.Addr() + ")/"), misconfigured, []string{key, "names no database"}},
		"unsafe":     {onMariaDB(unsafe.DSN()), failed, []string{"innodb_flush_log_at_trx_commit is 0", "set it to 1", "sync_binlog is 0"}},
		"lossless":   {onMariaDB(server.DSN(), "SEQD_STORE_MYSQL_FAILOVER=lossless"), failed, []string{"store.mysql.failover is lossless, but commits wait for no replica"}},
		"reader":     {onMariaDB(dsn("reader", "secret", "seqd")), failed, []string{key, "right"}},
	})
}

// A server that cannot be reached, is a standby or is read only may be well later: the service
// waits, says so, and begins by itself.
func TestWaitsForAServer(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	postgres, mariaDB := testenv.StartPostgres(t), testenv.StartMariaDB(t)
	for name, test := range map[string]struct {
		env        []string
		away, back func()
		want       string
	}{
		"PostgreSQL is away": {onPostgres(postgres.URL()), postgres.Kill, postgres.Start, "refused"},
		"PostgreSQL is read only": {onPostgres(postgres.URL()), func() { postgres.Query("ALTER ROLE seqd SET default_transaction_read_only = on") },
			func() { postgres.Query("ALTER ROLE seqd RESET default_transaction_read_only") }, "read only"},
		"MariaDB is away":      {onMariaDB(mariaDB.DSN()), mariaDB.Kill, mariaDB.Start, "refused"},
		"MariaDB is read only": {onMariaDB(mariaDB.DSN()), func() { mariaDB.Query("SET GLOBAL read_only = ON") }, func() { mariaDB.Query("SET GLOBAL read_only = OFF") }, "read_only is"},
	} {
		t.Run(name, func(t *testing.T) {
			test.away()
			n := node.Start(t, t.TempDir(), test.env...)
			n.Await("/readyz", 503)
			n.AwaitLog("the store cannot be opened yet", test.want)
			test.back()
			n.AwaitAll()
			if strings.Contains(n.Log(), `"level":"ERROR"`) {
				t.Errorf("a wait that ended by itself is an error: %s", n.Log())
			}
			if strings.Contains(n.Log(), "secret") {
				t.Errorf("the log shows the password: %s", n.Log())
			}
			n.Stop()
		})
	}
}

// A server that comes back with a setting that can lose numbers is not used while a service runs
// either. When the setting is well again, so is the service.
func TestComesBackUnsafe(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	postgres, mariaDB := testenv.StartPostgres(t), testenv.StartMariaDB(t)
	small := []string{"SEQD_SEGMENT_ACQUIRETIMEOUT=2s", "SEQD_SEGMENT_STEP=10", "SEQD_SEGMENT_MAXSTEP=10", "SEQD_SEGMENT_RESERVESEGMENTS=0"}
	for name, test := range map[string]struct {
		env          []string
		unsafe, safe func()
		want         string
	}{
		"PostgreSQL": {onPostgres(postgres.URL(), small...), func() { postgres.Configure("fsync = off"); postgres.Restart() },
			func() { postgres.Configure("fsync = on"); postgres.Restart() }, "fsync is off"},
		"MariaDB": {onMariaDB(mariaDB.DSN(), small...), func() { mariaDB.Configure("innodb-flush-log-at-trx-commit=2"); mariaDB.Restart() },
			func() { mariaDB.Configure("innodb-flush-log-at-trx-commit=1"); mariaDB.Restart() }, "innodb_flush_log_at_trx_commit is 2"},
	} {
		t.Run(name, func(t *testing.T) {
			n := node.StartReady(t, t.TempDir(), test.env...)
			first := must.Get(n.Take("order", 5))(t)
			test.unsafe()
			last := first[4]
			for range 100 { // no more than what was in hand
				got, err := n.Take("order", 1)
				if err != nil {
					break
				}
				if got[0] > first[4]+40 {
					t.Fatalf("%d was issued after %d, the first were %v\n%s", got[0], last, first, n.Log())
				}
				last = got[0]
			}
			n.Await("/seq/order", 503)
			n.AwaitLog(test.want)
			if n.Ended() {
				t.Fatal("the service has ended")
			}
			test.safe()
			n.Await("/seq/order", 200)
			if got, err := n.Take("order", 1); err != nil || got[0] <= last {
				t.Errorf("%v, %v after %d", got, err, last)
			}
			n.Stop()
		})
	}
}
