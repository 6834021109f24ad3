package failover

import (
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/node"
)

// restored is a server that was restored by the documented steps: stop every seqd, restore, raise,
// start.
type restored struct {
	*pair
	life int
}

// issue starts a node, takes numbers from it, and stops it.
func (r *restored) issue(count int) {
	r.t.Helper()
	r.life++
	name := string(rune('a' + r.life))
	n := r.start(settings()...)
	for range count / 500 {
		r.take(n, name, 500)
	}
	n.Stop()
}

// raise runs the steps after the restore.
func (r *restored) raise(number string) {
	r.t.Helper()
	env := append(r.env(r.link.Addr()), settings()...)
	out, code := node.Command(r.t, r.t.TempDir(), env, "raise", "order", number)
	if code != 0 || !strings.Contains(out, " → ") {
		r.t.Fatalf("raise ended with %d: %s", code, out)
	}
	r.t.Logf("raise: %s", strings.TrimSpace(out))
	if out, code := node.Command(r.t, r.t.TempDir(), env, "restored"); code != 0 {
		r.t.Fatalf("restored ended with %d: %s", code, out)
	}
}

func TestRestoreToAPointInTime(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	archive := testenv.NewArchive(t)
	p := testenv.StartPostgres(t, archive.Settings()...)
	r := &restored{pair: newPair(t, p, p, postgresAt)}
	r.issue(500)
	archive.Backup(p)
	r.issue(1000)
	archive.Point(p, "before the accident")
	r.issue(5000)
	before := r.highest(p)
	p.Kill()
	archive.Restore(p, "before the accident")
	if after := r.highest(p); after >= before {
		t.Fatalf("the restore has %d of %d: this tests nothing", after, before)
	}
	r.raise("10000")
	r.issue(5000)
	r.check()
	r.skipped(before)
}
