package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/fleet"
	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// A cluster on PostgreSQL and Redis loses its store. A snapshot that a node saved is restored into
// MariaDB, from there into a bolt file, and from there into PostgreSQL again. Redis keeps the
// cursors of before. No number comes twice.
func TestSnapshotOverStores(t *testing.T) {
	t.Parallel()
	defined := `SEQD_BIZTYPES=[{"name":"order","start":100},{"name":"local","ordering":"per-node"},{"name":"invoice","strategy":"gapless"},{"name":"tenant","keyed":true}]`
	redis := "SEQD_REDIS_ADDRS=" + testenv.StartRedis(t).Addr()
	shared := func(env []string) []string { return append(slices.Clone(env), redis, defined) }
	stores := [][]string{
		shared(fleet.Postgres(t)),
		shared([]string{"SEQD_STORE_DRIVER=mysql", "SEQD_STORE_MYSQL_DSN=" + testenv.StartMySQL(t).NewDSN()}),
		{"SEQD_STORE_DRIVER=bolt", "SEQD_STORE_BOLT_PATH=" + filepath.Join(t.TempDir(), "seqd.db"), defined},
		shared(fleet.Postgres(t)),
	}
	seen := make(map[string]bool)
	issue := func(n *node.Node, key int) {
		for _, bizType := range []string{"order", "local", "invoice", "tenant?key=a", fmt.Sprintf("tenant?key=%d", key)} {
			for range 5 {
				status, body := n.Status("/seq/" + bizType)
				if status != 200 {
					t.Fatalf("%s: %d %s", bizType, status, body)
				}
				if id := bizType + strings.TrimSpace(body); seen[id] {
					t.Fatalf("%s was issued twice", id)
				} else {
					seen[id] = true
				}
			}
		}
	}
	file := filepath.Join(t.TempDir(), "seqd.snapshot")
	for i, env := range stores {
		if i > 0 {
			out, code := node.Command(t, t.TempDir(), env, "snapshot", "restore", file, "--gapless", "100")
			if code != 0 {
				t.Fatalf("restore ended with %d: %s", code, out)
			}
			if out, code := node.Command(t, t.TempDir(), env, "snapshot", "restore", file, "--gapless", "100"); code != 78 || !strings.Contains(out, "was restored at") {
				t.Errorf("a second restore ended with %d: %s", code, out)
			}
		}
		n := node.StartReady(t, t.TempDir(), env...)
		issue(n, i)
		out, err := n.Tool(t.TempDir(), "snapshot", "save", file, "--addr", n.URL).CombinedOutput()
		must.Do(t, err)
		t.Logf("%s", out)
		issue(n, i+1) // which is not in the snapshot
		n.Kill()
	}
}
