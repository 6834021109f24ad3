package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/node"
)

// The documented steps for a restore: stop every seqd, restore, raise, start. No number is issued
// twice.
func TestRestoredBackup(t *testing.T) {
	s := newSystem(t)
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

// Redis keeps its cursor while the store is restored and raised to exactly what was issued. The
// ranges in Redis are issued from there only. A node that starts without Redis does not get them
// from the store.
func TestRestoredBackupBesideRedis(t *testing.T) {
	const nowhere = "127.0.0.1:1"
	r := testenv.StartRedis(t)
	s := newSystem(t, "SEQD_SEGMENT_ORDERING=strict", "SEQD_SEGMENT_ONREDISDOWN=degrade")
	with := s.env
	life := 0
	issue := func(redis string, count int) {
		t.Helper()
		s.env = append(slices.Clone(with), redisAt(redis))
		life++
		n := s.start(fmt.Sprint(life))
		if err := s.take(n, fmt.Sprint(life), count); err != nil {
			t.Fatal(err)
		}
		n.Stop()
	}
	raise := func(redis string, code int, want string) {
		t.Helper()
		out, got := node.Command(t, t.TempDir(), append(slices.Clone(with), redisAt(redis)), "raise", "order", "199")
		if got != code || !strings.Contains(out, want) {
			t.Errorf("raise ended with %d, %q; want %d, %q", got, out, code, want)
		}
	}
	issue(r.Addr(), 50) // 100 to 149
	s.mongo.Kill()
	backup := s.mongo.Snapshot()
	s.mongo.Restart()
	issue(r.Addr(), 50)
	s.mongo.Kill()
	s.mongo.RestoreSnapshot(backup)
	s.mongo.Restart()
	raise(nowhere, 1, "nothing was changed: redis.addrs: ")
	raise(nowhere, 1, "Start Redis")
	raise(r.Addr(), 0, "; numbers up to 1099 wait in Redis\n")
	issue(nowhere, 500)
	issue(r.Addr(), 3000)
	s.check()
	if got := r.Client().HGet(t.Context(), key, "gen").Val(); got == "" {
		t.Error("Redis has lost its cursor: this tests nothing")
	}
}
