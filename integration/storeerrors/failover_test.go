package storeerrors

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// The biz types before the failover, after it, and one that leases machine IDs.
const (
	before    = `SEQD_BIZTYPES=[{"name":"order"}]`
	after     = `SEQD_BIZTYPES=[{"name":"order"},{"name":"invite"}]`
	snowflake = `SEQD_BIZTYPES=[{"name":"order"},{"name":"user","strategy":"snowflake"}]`
)

// run runs a command and checks its exit code and parts of its output.
func run(t *testing.T, env []string, code int, args []string, want ...string) string {
	t.Helper()
	output, got := node.Command(t, t.TempDir(), env, args...)
	must.Equal(t, got, code, "%v says %s: the exit code", args, output)
	for _, part := range want {
		if !strings.Contains(output, part) {
			t.Errorf("%v: %q is not in:\n%s", args, part, output)
		}
	}
	if strings.Contains(output, "secret") {
		t.Errorf("%v shows the password: %s", args, output)
	}
	return output
}

// An operator is told of a failover everywhere, raises what was lost, confirms, and the nodes go
// on. The failover is one in name: the rows say that another server wrote them.
func TestFailover(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	postgres, mariaDB := testenv.StartPostgres(t), testenv.StartMariaDB(t)
	for name, test := range map[string]struct {
		env   []string
		query func(string) string
	}{
		"PostgreSQL": {onPostgres(postgres.URL(), "SEQD_BIZTYPESFROM=config"), postgres.Query},
		"MariaDB":    {onMariaDB(mariaDB.DSN(), "SEQD_BIZTYPESFROM=config"), mariaDB.Query},
	} {
		t.Run(name, func(t *testing.T) {
			with := func(bizTypes string) []string { return append(test.env[:len(test.env):len(test.env)], bizTypes) }
			n := node.StartReady(t, t.TempDir(), with(before)...)
			issued := must.Get(n.Take("order", 10))(t)
			run(t, with(after), 0, []string{"failover"}, "has not failed over")
			fail(test.query)
			n.AwaitLog("the store failed over and may have lost")
			if _, body := n.Status("/readyz"); !strings.Contains(body, `"status":"degraded"`) || !strings.Contains(body, `"store":{"code":"store_failed_over"`) {
				t.Errorf("/readyz says %s", body)
			}
			if _, body := n.Status("/metrics"); !strings.Contains(body, "seqd_store_failed_over 1\n") {
				t.Error("the metric is not 1")
			}
			if _, body := n.Status("/nodes"); !strings.Contains(body, `"state":"failed_over"`) {
				t.Errorf("/nodes says %s", body)
			}
			run(t, with(after), 1, []string{"doctor"}, "seqd failover --confirm")
			run(t, with(after), 1, []string{"failover"}, "FAILED OVER", "order: at 1000; continues above a gap", "invite: no counter", "3. seqd failover --confirm")
			n.Stop()
			n = node.StartReady(t, t.TempDir(), with(after)...)
			if answer, err := n.Do("GET", "/seq/invite", ""); err != nil || answer.Status != 409 || !strings.Contains(answer.Body, "store_failed_over") {
				t.Errorf("a new biz type gets %+v, %v", answer, err)
			}
			run(t, with(after), 0, []string{"raise", "invite", "500"}, "no counter → 1000500")
			awaitTake(t, n, "invite", 1_000_501)
			next, err := n.Take("order", 1)
			if err != nil || next[0] < issued[9]+1_000_000 {
				t.Errorf("after the failover order continues with %v, %v", next, err)
			}
			run(t, with(after), 0, []string{"failover", "--confirm"}, "confirmed: ", "create counters again")
			run(t, with(after), 0, []string{"failover"}, "has not failed over")
			run(t, with(snowflake), 0, []string{"restored"}, "user: ")
			n.AwaitLog("an operator has confirmed the failover")
			if _, body := n.Status("/readyz"); !strings.Contains(body, `"status":"ready"`) {
				t.Errorf("/readyz says %s", body)
			}
			n.Stop()
		})
	}
}

// fail makes all rows those of another server.
func fail(query func(string) string) {
	query("UPDATE seqd_counters SET fence = 'before'")
	query("UPDATE seqd_schema SET fence = 'before'")
}

// awaitTake takes a number as soon as the biz type can issue, and checks it.
func awaitTake(t *testing.T, n *node.Node, bizType string, want int64) {
	t.Helper()
	n.Await("/seq/"+bizType, 200)
	must.Equal(t, must.Get(n.Take(bizType, 1))(t)[0], want+1, "%s issues", bizType)
}
