package storeerrors

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// A node with a reservation starts while its SQL store is away, and uses the store once it is back.
// If it is then another store, the node ends.
func TestStartWithoutTheStore(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	postgres, mariaDB := testenv.StartPostgres(t), testenv.StartMariaDB(t)
	for name, test := range map[string]struct {
		env                []string
		kill, start, empty func()
	}{
		"PostgreSQL": {onPostgres(postgres.URL()), postgres.Kill, postgres.Start, func() {
			postgres.Query("DROP TABLE seqd_counters, seqd_documents, seqd_slots, seqd_history, seqd_schema")
		}},
		"MariaDB": {onMariaDB(mariaDB.DSN()), mariaDB.Kill, mariaDB.Start, func() {
			mariaDB.Query("DROP TABLE seqd_counters, seqd_documents, seqd_slots, seqd_history, seqd_schema")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := alone{t: t, dir: t.TempDir(), env: append(test.env,
				`SEQD_BIZTYPES=[{"name":"order","strategy":"snowflake"}]`, "SEQD_SERVER_ADDR="+testenv.ReserveAddr(t), "SEQD_SNOWFLAKE_HORIZON=3s",
				"SEQD_SNOWFLAKE_RENEWINTERVAL=500ms", "SEQD_SNOWFLAKE_MAXSKEW=500ms", "SEQD_SNOWFLAKE_OFFLINESTART=15s")}
			n := node.Start(t, a.dir, a.env...)
			a.takes(n) // after the floor of a new registry
			a.awaitUser()
			n.Kill()
			test.kill()

			n = node.Start(t, a.dir, a.env...)
			a.takes(n)
			test.start()
			n.AwaitLog("store open")
			a.awaitRenewed()
			a.takes(n)
			if log := n.Log(); !strings.Contains(log, "begin without it") {
				t.Errorf("the log says nothing of it:\n%s", log)
			}
			n.Kill()
			test.kill()

			n = node.Start(t, a.dir, a.env...)
			a.takes(n)
			test.start()
			n.AwaitLog("store open")
			a.awaitRenewed()
			n.Kill()
			test.empty()
			test.kill()
			n = node.Start(t, a.dir, a.env...)
			a.takes(n)
			test.start()
			if log := n.Fails(); !strings.Contains(log, "the store is new") {
				t.Errorf("it ended with\n%s", log)
			}
		})
	}
}

// alone is a node that starts without its store, and the last number that it issued.
type alone struct {
	t    *testing.T
	dir  string
	env  []string
	last int64
}

// takes takes numbers, which increase.
func (a *alone) takes(n *node.Node) {
	a.t.Helper()
	n.AwaitAll()
	numbers := must.Get(n.Take("order", 100))(a.t)
	if numbers[0] <= a.last {
		a.t.Errorf("%d follows %d", numbers[0], a.last)
	}
	a.last = numbers[len(numbers)-1]
}

// awaitUser waits until the state file names the biz type: without that the node cannot issue it
// before it has reached the store.
func (a *alone) awaitUser() {
	a.t.Helper()
	a.awaitState("names the biz type", func(text string) bool { return strings.Contains(text, "users=order") })
}

// awaitRenewed waits until the reservation is longer than it is now: the next start needs all of it.
func (a *alone) awaitRenewed() {
	a.t.Helper()
	reserved := func(text string) string {
		_, after, _ := strings.Cut(text, "\nreserved=")
		until, _, _ := strings.Cut(after, "\n")
		return until
	}
	before := ""
	a.awaitState("has a longer reservation", func(text string) bool {
		if before == "" {
			before = reserved(text)
		}
		return reserved(text) != before
	})
}

// awaitState waits for what the state file of the node says.
func (a *alone) awaitState(what string, says func(text string) bool) {
	a.t.Helper()
	await.True(a.t, "the state file "+what, func() bool {
		files, _ := filepath.Glob(filepath.Join(a.dir, "data", "*.properties")) // the pattern is right
		return slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && says(string(text))
		})
	})
}
