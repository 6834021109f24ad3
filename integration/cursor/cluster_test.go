package cursor

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// A slot moves to another master and back, with takes before, during and after.
func TestClusterMigration(t *testing.T) {
	t.Parallel()
	cluster := testenv.StartCluster(t)
	client := connectCluster(t, cluster, calm, nil)
	s, seen := &store{}, newLedger(t)
	c := open(t, client)
	for cluster.Master(c.key) != cluster.Nodes[1] { // from there testenv moves slots back and forth
		c = open(t, client)
	}
	n := newNode(c, s, seen)
	n.take(t, 100)
	expect := func(when string, stub bool) {
		t.Helper()
		ceil, gen := s.max, c.gen
		got := c.peek()
		if got.Stub != stub || got.Ceil != ceil || stub == (got.Gen == gen) {
			t.Fatalf("%s: %+v, before %s, %d", when, got, gen, ceil)
		}
	}
	for _, way := range []string{"there", "back"} {
		c.peek()
		m := cluster.BeginMigration(c.key)
		if (m.To == cluster.Nodes[1]) != (way == "back") {
			t.Fatalf("%s: to %s", way, m.To.Addr())
		}
		expect(way+": the key has not moved yet", false)
		n.take(t, 50)
		m.MoveKeys()
		if _, err := reopen(t, connect(t, m.From.Addr(), calm), c.name).Take(t.Context(), rediscursor.Take{Threshold: 0.5}); err == nil || !strings.HasPrefix(err.Error(), "ASK ") {
			t.Errorf("%s: the old owner: %v", way, err)
		}
		expect(way+": under ASK", true)
		n.take(t, 100) // seeds and appends through ASK
		c.peek()
		expect(way+": still", false)
		m.Finish()
		expect(way+": at the end", false)
		n.take(t, 100)
	}
	// There and back without a take in between: it is the same hash, and no other server issued
	// from it.
	c.peek()
	cluster.MigrateSlot(c.key)
	if got := cluster.MigrateSlot(c.key); got != cluster.Nodes[1] {
		t.Fatalf("to %s", got.Addr())
	}
	expect("there and back", false)
	n.take(t, 100)

	// A key that does not exist yet is created at the new owner.
	fresh := open(t, client)
	m := cluster.BeginMigration(fresh.key)
	fresh.fill("1-10", 0)
	must.Equal(t, show(fresh.take(rediscursor.Take{Count: 3, Threshold: 0.5})), "1-3", "under ASK")
	m.Finish()
	must.Equal(t, show(fresh.peek()), "; ceil 10 enough free 1 next 4 hand 7", "at the end")
	must.Equal(t, reopen(t, connect(t, m.To.Addr(), calm), fresh.name).peek().Gen, fresh.gen, "the gen")
}
