package sim

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// snapshotTemptations lose the store, and restore a snapshot that was saved while nodes issued and
// one was killed.
var snapshotTemptations = []schedule{
	{
		name: "restored from a snapshot", was: "What was issued since the snapshot is issued again.",
		rules: []string{"restore-raise"},
		world: Options{Redis: true, BizTypes: only("order", "local", "bill", "rent", "user"), Script: restoredFromASnapshot},
	},
	{
		name: "restored from a snapshot, without Redis", was: "What was issued since the snapshot is issued again.",
		world: Options{BizTypes: only("order", "local", "bill", "rent", "user"), Script: restoredFromASnapshot},
	},
	{
		name: "restored from a snapshot beside a node", was: "A node that was suspended meanwhile issued below what others issued from the restored store, or again.",
		world: Options{Redis: true, BizTypes: only("order", "local", "user", "bill"), Script: restoredBesideANode},
	},
}

// busyBeforeASnapshot returns the name for the file of a snapshot. Callers ask until stop is called, which
// removes the file, too.
func (w *World) busyBeforeASnapshot() (file string, stop func()) {
	dir, err := os.MkdirTemp("", "seqd")
	if err != nil {
		panic(err)
	}
	var stops []func()
	for _, bizType := range []string{"order", "local", "user"} {
		stops = append(stops, w.busy(100*time.Millisecond, bizType, 10))
	}
	stops = append(stops, w.busy(200*time.Millisecond, "bill", 1))
	return filepath.Join(dir, "s"), func() {
		for _, stop := range stops {
			stop()
		}
		_ = os.RemoveAll(dir)
	}
}

func restoredFromASnapshot(w *World) {
	file, stop := w.busyBeforeASnapshot()
	w.issueOf("a", "rent", "k", 1)
	w.at(10 * time.Second)
	killed := w.begin("kill", "b", "", 5*time.Second)
	w.operate(byHand(), "save a snapshot", func(ctx context.Context, cfg *config.Config) error { return ops.Save(ctx, cfg, file) })
	killed()
	w.issueOf("a", "rent", "k", 3)
	w.issueOf("b", "rent", "new", 2) // not in the snapshot
	w.at(40 * time.Second)
	w.while("restored from a snapshot", record.Fault{Store: true, StoreBack: true, StoreLost: true, Redis: true}, func(f *fault) {
		w.endNodes(true)
		w.store.Lose()
		gap := int64(1000)
		w.operate(f, "restore a snapshot", func(ctx context.Context, cfg *config.Config) error {
			return ops.Restore(ctx, cfg, file, ops.Restoring{Gapless: &gap}, func(what, done string) { w.journal.Say("  restored %s: %s", what, done) })
		})
		w.operate(f, "raise what is not in it", func(ctx context.Context, cfg *config.Config) error {
			return ops.RaiseAll(ctx, cfg, []ops.Mark{{Counter: "rent/new", Number: 2}}, ops.How{Sure: true}, w.tellRaised)
		})
		w.onAll((*node).start)
		time.Sleep(allKnow)
	})
	w.each(func(n string) {
		w.issue(n, "bill", 1)
		w.issue(n, "local", 10)
		w.issueOf(n, "rent", "k", 1)
		w.issueOf(n, "rent", "new", 1)
	})
	time.Sleep(30 * time.Second)
	stop()
}

// restoredBesideANode restores while a node is suspended, as one that somebody has forgotten. It
// goes on with the numbers that it holds, on the store that was restored.
func restoredBesideANode(w *World) {
	file, stop := w.busyBeforeASnapshot()
	w.at(10 * time.Second)
	w.operate(byHand(), "save a snapshot", func(ctx context.Context, cfg *config.Config) error { return ops.Save(ctx, cfg, file) })
	w.at(30 * time.Second)
	paused := w.begin("pause", "c", "", 40*time.Second)
	w.while("restored beside a node", record.Fault{Store: true, StoreBack: true, StoreLost: true, Redis: true}, func(f *fault) {
		for _, n := range []string{"a", "b"} {
			w.named(n).kill(false)
		}
		w.store.Lose()
		gap := int64(1000)
		w.operate(f, "restore a snapshot", func(ctx context.Context, cfg *config.Config) error {
			return ops.Restore(ctx, cfg, file, ops.Restoring{Gapless: &gap}, func(what, done string) { w.journal.Say("  restored %s: %s", what, done) })
		})
		for _, n := range []string{"a", "b"} {
			w.named(n).start()
		}
		time.Sleep(allKnow)
		paused()
	})
	w.at(2 * time.Minute)
	stop()
}
