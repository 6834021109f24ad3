package cluster

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
)

// A node with a reservation starts while its store is away, and uses the store once it is back. If
// it is then another store, the node ends.
func TestSnowflakeWithoutTheStore(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	mongo := testenv.StartMongo(t)
	mongo.Kill()
	empty := mongo.Snapshot()
	mongo.Restart()
	dir := t.TempDir()
	env := []string{
		"SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=" + mongo.URI(), "SEQD_STORE_MONGO_DATABASE=" + mongo.Database(), "SEQD_STORE_MONGO_TIMEOUT=1s",
		`SEQD_BIZTYPES=[{"name":"order","strategy":"snowflake"}]`, "SEQD_SERVER_ADDR=" + testenv.ReserveAddr(t),
		"SEQD_SNOWFLAKE_HORIZON=3s", "SEQD_SNOWFLAKE_RENEWINTERVAL=500ms", "SEQD_SNOWFLAKE_MAXSKEW=500ms", "SEQD_SNOWFLAKE_OFFLINESTART=15s",
	}
	last := int64(0)
	takes := func(n *node.Node) {
		t.Helper()
		n.Await("/readyz", http.StatusOK)
		numbers, err := n.Take("order", 100)
		if err != nil {
			t.Fatal(err)
		}
		if numbers[0] <= last {
			t.Errorf("%d follows %d", numbers[0], last)
		}
		last = numbers[len(numbers)-1]
	}
	n := node.Start(t, dir, env...)
	takes(n) // after the floor
	n.AwaitReadiness(http.StatusOK, "")
	awaitUser(t, dir, "order")
	n.Kill()
	mongo.Kill()

	n = node.Start(t, dir, env...)
	takes(n)
	mongo.Restart()
	// It may have been ready without the store.
	n.AwaitReady("ready with the store", func(r node.Readiness) bool {
		return r.Status == http.StatusOK && r.Code == "" && strings.Contains(n.Log(), "store open")
	})
	takes(n)
	if log := n.Log(); !strings.Contains(log, "begin without it") {
		t.Errorf("the log says nothing of it:\n%s", log)
	}
	n.Kill()
	mongo.Kill()

	n = node.Start(t, dir, env...)
	takes(n)
	mongo.RestoreSnapshot(empty)
	mongo.Restart()
	if log := n.Fails(); !strings.Contains(log, "the store is new") {
		t.Errorf("it ended with\n%s", log)
	}
}

// awaitUser waits until the state file of a node in dir names a biz type. Without that the node
// cannot issue it before it has reached the store.
func awaitUser(t *testing.T, dir, bizType string) {
	t.Helper()
	await.True(t, "a state file names "+bizType, func() bool {
		files, _ := filepath.Glob(filepath.Join(dir, "data", "*.properties")) // the pattern is right
		return slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "users="+bizType)
		})
	})
}
