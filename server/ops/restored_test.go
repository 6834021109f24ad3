package ops

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/workers"
)

// After a restore, no lease of a worker ID begins below one that the backup does not know, whether
// the pool has it or was deleted when the backup was made.
func TestRestoredPools(t *testing.T) {
	edit := func(p *admin.WorkerPool) error { p.BitsMachine, p.TTL = 1, time.Minute; return nil }
	may := func(*admin.WorkerPool) error { return nil }
	on := func(store persist.Store) *workers.Workers {
		return workers.New(workers.Options{
			Documents: store.Documents(), Slots: store.Slots(), Now: time.Now, Stopping: func() bool { return false }, Log: slog.New(slog.DiscardHandler),
		})
	}
	cfg := boltConfig(t, func(store persist.Store) {
		for _, name := range []string{"mail", "shop"} {
			must.Get(on(store).SetPool(t.Context(), name, edit))(t)
			must.Get(on(store).Lease(t.Context(), name, "early", 0))(t)
		}
		must.Get(on(store).DeletePool(t.Context(), "mail", true, may))(t)
	})
	backup := must.Get(os.ReadFile(cfg.Store.Place()))(t)
	lost := make(map[string]time.Time)
	inStore(t, cfg, func(store persist.Store) {
		must.Get(on(store).SetPool(t.Context(), "mail", edit))(t)
		for _, name := range []string{"mail", "shop"} {
			lost[name] = must.Get(on(store).Lease(t.Context(), name, "late", 0))(t).Until
		}
	})
	must.Do(t, os.WriteFile(cfg.Store.Place(), backup, 0o600))
	for range 2 { // it can be said again
		time.Sleep(2 * time.Millisecond)
		done := make(map[string]string)
		must.Do(t, Restored(t.Context(), cfg, func(what, text string) { done[what] = text }))
		if len(done) != 4 || !strings.HasPrefix(done["worker pool shop"], "leases that are granted from now on begin at 20") {
			t.Errorf("it said %q", done)
		}
	}
	inStore(t, cfg, func(store persist.Store) {
		must.Get(on(store).SetPool(t.Context(), "mail", edit))(t)
		for name, until := range lost {
			if l := must.Get(on(store).Lease(t.Context(), name, "next", 0))(t); !l.After.After(until) {
				t.Errorf("%s: a lease begins at %v, and one that the backup lacks ended at %v", name, l.After, until)
			}
		}
		must.Do(t, store.Documents().Create(t.Context(), persist.Document{Kind: "workerpool", Key: "newer", Revision: 1, Body: `{"format":2}`}))
	})
	must.Is(t, Restored(t.Context(), cfg, func(string, string) {}), persist.ErrNewer, "a pool of a newer version")
}
