package cluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/node"
)

// The documented way back from a backup: stop every seqd, restore, raise, start. No number comes a second time.
func TestRestoredBackup(t *testing.T) {
	s := newSystem(t, "SEQD_STORE_MONGO_TIMEOUT=500ms")
	life := 0
	issue := func(count int) {
		t.Helper()
		name := fmt.Sprint(life)
		life++
		n := s.start(name)
		if err := s.take(n, name, count); err != nil {
			t.Fatal(err)
		}
		n.Stop()
	}
	raise := func(number string, code int, want string) {
		t.Helper()
		out, got := node.Command(t, t.TempDir(), s.env, "raise", "order", number)
		if got != code || !strings.Contains(out, want) {
			t.Errorf("raise to %s ended with %d, %q; want %d, %q", number, got, out, code, want)
		}
	}
	issue(50)
	s.mongo.Kill()
	backup := s.mongo.Snapshot()
	raise("5000", 1, "store.mongo.uri: reach MongoDB")
	s.mongo.Restart()
	issue(3000)
	s.mongo.Kill()
	s.mongo.RestoreSnapshot(backup)
	s.mongo.Restart()
	raise("5000", 0, "order: 149 → 5000\n")
	raise("5000", 0, "order: nothing changed")
	issue(3000)
	s.check()
}
