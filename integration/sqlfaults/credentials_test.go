package sqlfaults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// The passwords of the store and of Redis are replaced, and the servers end all connections. The node
// reads the new ones from their files, and goes on without a restart.
func TestCredentialsAreReplaced(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	write := func(name, secret string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(secret+"\n"), 0o600))
		return path
	}
	redis := testenv.StartRedis(t).Client()
	must.Do(t, redis.ConfigSet(ctx, "requirepass", "first").Err())
	passwordFile := write("redis", "first")

	pg := testenv.StartPostgres(t)
	pg.Query("CREATE ROLE first LOGIN SUPERUSER PASSWORD 'secret1'; CREATE ROLE second LOGIN SUPERUSER PASSWORD 'secret2'")
	url := func(user string) string { return strings.Replace(pg.URL(), "seqd:secret", user, 1) }
	my := testenv.StartMySQL(t)
	my.Query("CREATE USER first IDENTIFIED BY 'secret1'; ")
	my.Query("CREATE USER second IDENTIFIED BY 'secret2'")
	my.Query("GRANT ALL ON *.* TO first")
	my.Query("GRANT ALL ON *.* TO second")
	dsn := func(user string) string { return strings.Replace(my.DSN(), "seqd:secret", user, 1) }

	for _, secret := range []string{url("first"), dsn("first")} {
		must.Equal(t, strings.Contains(secret, "first"), true, "%s has the user", secret)
	}
	for driver, c := range map[string]struct {
		key    string
		secret func(user string) string
		end    func() // ends the connections of the first user, who may make none any more
	}{
		"postgres": {"URLFILE", url, func() {
			pg.Query("ALTER ROLE first NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'first'")
		}},
		"mysql": {"DSNFILE", dsn, func() {
			my.Query("ALTER USER first ACCOUNT LOCK")
			for id := range strings.FieldsSeq(my.Query("SELECT id FROM information_schema.processlist WHERE user = 'first'")) {
				my.Query("KILL " + id)
			}
		}},
	} {
		must.Do(t, redis.ConfigSet(ctx, "requirepass", "first").Err())
		write("redis", "first")
		n := node.StartReady(t, t.TempDir(), "SEQD_STORE_DRIVER="+driver, fmt.Sprintf("SEQD_STORE_%s_%s=%s", strings.ToUpper(driver), c.key, write(driver, c.secret("first:secret1"))),
			"SEQD_REDIS_ADDRS="+redis.Options().Addr, "SEQD_REDIS_PASSWORDFILE="+passwordFile, "SEQD_REDIS_KEYPREFIX="+driver+":",
			`SEQD_BIZTYPES=[{"name":"order","step":10}]`)
		before := must.Get(n.Take("order", 5))(t)

		write(driver, c.secret("second:secret2"))
		write("redis", "second")
		must.Do(t, redis.ConfigSet(ctx, "requirepass", "second").Err())
		must.Do(t, redis.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err())
		c.end()

		last := before[len(before)-1]
		for range 5 { // more than a segment
			var numbers []int64
			await.Eventually(t, driver+" gives numbers again", func() (err error) {
				numbers, err = n.Take("order", 10)
				return err
			})
			if numbers[0] <= last {
				t.Errorf("%s: %d after %d", driver, numbers[0], last)
			}
			last = numbers[9]
		}
		n.Stop()
	}
}
