package testenv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
)

func TestClusterFailover(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	c := testenv.StartCluster(t)
	client := c.Client()
	for i := range 100 {
		set(t, client, fmt.Sprint(i), "1")
	}
	masters := map[*testenv.Redis]bool{}
	for i := range 100 {
		masters[c.Master(fmt.Sprint(i))] = true
	}
	if len(masters) != 3 {
		t.Errorf("%d masters own 100 keys", len(masters))
	}
	old := c.Master("1")
	id := old.ReplicationID()
	heir := c.Failover("1")
	if heir == old || heir != c.Master("1") || heir.ReplicationID() == id {
		t.Fatalf("%s after %s, IDs %s and %s", heir.Addr(), old.Addr(), heir.ReplicationID(), id)
	}
	want(t, client, "1", "1")
	set(t, client, "1", "2")
	heir.Kill()
	if got := c.AwaitMaster("1", heir); got != old {
		t.Fatalf("%s after a kill", got.Addr())
	}
	await.Eventually(t, "the client follows", func() error { return client.Set(t.Context(), "1", "3", 0).Err() })
	want(t, old.Client(), "1", "3")
	heir.Restart()
	c.AwaitOK()
}

func TestClusterMigration(t *testing.T) {
	t.Parallel()
	c := testenv.StartCluster(t)
	client := c.Client()
	for i := range 300 {
		set(t, client, fmt.Sprintf("{tag}%d", i), "1")
	}
	m := c.BeginMigration("{tag}0")
	m.MoveKeys()
	err := m.From.Client().Get(t.Context(), "{tag}1").Err()
	if err == nil || !strings.HasPrefix(err.Error(), "ASK ") {
		t.Errorf("a key that was moved: %v", err)
	}
	want(t, client, "{tag}1", "1")
	set(t, client, "{tag}300", "1") // a new key of a moving slot is created at the new owner
	m.Finish()
	if c.Master("{tag}0") != m.To {
		t.Errorf("%s owns the slot", c.Master("{tag}0").Addr())
	}
	for i := range 301 {
		want(t, client, fmt.Sprintf("{tag}%d", i), "1")
	}
	if err := m.From.Client().Get(t.Context(), "{tag}1").Err(); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
		t.Errorf("the old owner: %v", err)
	}
	if next := c.MigrateSlot("{tag}0"); next == m.To {
		t.Error("the slot stayed")
	}
	want(t, client, "{tag}0", "1")
}
