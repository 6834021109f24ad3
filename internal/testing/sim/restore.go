package sim

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// The ways of a restore: what happens to the nodes, and to what.
const (
	killed        = "killed"
	cutOffAtStart = ", the first to start is cut off from Redis"
	recovered     = ", recovered to a point in time"
)

const (
	perNodeFor = 3 * time.Second // after a restore, until the ordering is strict again
	// aloneFor is enough for a node without Redis to issue on its own for a while.
	aloneFor = 6 * time.Second
)

// restoreWays are the ways of a restore that a world can have.
func restoreWays(redis bool) (ways []string) {
	for _, way := range []string{"stopped", killed} {
		for _, start := range []string{"", cutOffAtStart} {
			if start == "" || redis {
				ways = append(ways, way+start, way+start+recovered)
			}
		}
	}
	return ways
}

var storeBack = record.Fault{Store: true, StoreBack: true, Unordered: load.SwitchedName}

var restoreKinds = []kind{
	{name: "restore", weight: 2, needs: withRedis, holds: undisturbed + "settings@ ordering@ sequencer@ pools@ definition@all", targets: nodeNames, ways: restoreWays(true), least: short, most: some, after: 2 * time.Minute,
		marks: storeBack, begin: beginRestore, end: endRestore},
	{name: "restore", weight: 2, needs: withoutRedis, holds: undisturbed + "settings@ ordering@ sequencer@ pools@ definition@all", targets: nodeNames, ways: restoreWays(false), least: short, most: some, after: 2 * time.Minute,
		marks: storeBack, begin: beginRestore, end: endRestore},
}

// backup is a copy of the store.
type backup struct {
	storesim.Backup
	late bool // load.LateName is in it
}

// beginRestore takes a backup while a biz type's ordering is per-node and, if possible, before another
// biz type is created.
func beginRestore(w *World, f *fault) {
	// A store that was recovered has failed over as well: counters begin above the gap.
	f.StoreLost = lossy(w.options) && strings.HasSuffix(f.way, recovered)
	w.order(f, record.PerNode)
	f.backup = backup{w.store.Backup(), w.lateDefinition() != ""}
	w.order(f, record.Strict)
	if !f.backup.late {
		w.makeLate(f)
	}
}

// order changes the ordering of a biz type.
func (w *World) order(f *fault, ordering string) {
	w.insist(f, load.SwitchedName, http.MethodPatch, "", fmt.Sprintf(`{"ordering":%q}`, ordering))
}

// endRestore follows docs/operations/restore.md. It does not change Redis.
func endRestore(w *World, f *fault) {
	w.endNodes(strings.HasPrefix(f.way, killed))
	issued := load.Enough(w.load.Shapes, w.journal.Highest(), w.counters(f))
	for _, counter := range w.booksNow() {
		issued[counter] = max(issued[counter], 0) // also of one whose first numbers reached no caller
	}
	w.store.Restore(f.backup.Backup, strings.HasSuffix(f.way, recovered))
	w.raiseAll(f, issued)
	w.sayRestored(f)
	if w.options.Mode != storesim.Unfenced {
		w.confirm(f)
	}
	if strings.Contains(f.way, cutOffAtStart) {
		w.cutOffRedis(f, w.node(f))
		w.node(f).start()
		w.makeLateAbove(f, issued[load.LateName])
		time.Sleep(aloneFor)
		w.order(f, record.Strict)
		w.onAll((*node).start)
		time.Sleep(allKnow)
		f.undoAll()
		return
	}
	w.onAll((*node).start)
	w.makeLateAbove(f, issued[load.LateName])
	time.Sleep(perNodeFor)
	w.order(f, record.Strict)
	time.Sleep(allKnow)
}

// sayRestored runs seqd restored.
func (w *World) sayRestored(f *fault) {
	w.operate(f, "say that it was restored", func(ctx context.Context, cfg *config.Config) error {
		return ops.Restored(ctx, cfg, func(bizType, done string) { w.journal.Say("  restored %s: %s", bizType, done) })
	})
}

// lookAfterRegistry does what docs/SNOWFLAKE.md asks of an operator whose nodes find a Redis that has
// lost the registry of machine IDs, or has an older one, while none of them could notice.
func (w *World) lookAfterRegistry() {
	lost := false
	for end := time.Now().Add(settle); w.options.Registry && time.Now().Before(end); time.Sleep(time.Second) {
		all := true
		lost = false
		for _, n := range w.nodes {
			states, _, ready := load.Readiness(context.Background(), w.load.HTTP, n.URL())
			all = all && ready
			lost = lost || slices.Contains(slices.Collect(maps.Values(states)), string(seqd.CodeNoMachineID))
		}
		if all {
			return
		}
	}
	if lost {
		w.sayRestored(&fault{planned: planned{kind: &kind{name: "the end"}}})
	}
}

// onAll calls a function for all nodes at once.
func (w *World) onAll(do func(*node)) {
	var all sync.WaitGroup
	for _, n := range w.nodes {
		all.Go(func() { do(n) })
	}
	all.Wait()
}

// endNodes ends all nodes, and waits until all their answers are in the journal.
func (w *World) endNodes(kill bool) {
	end := (*node).stop
	if kill {
		end = func(n *node) { n.kill(false) }
	}
	w.onAll(end)
	time.Sleep(load.LongPatience + time.Second)
}

// raiseAll runs seqd raise for each counter of the backup, with a configuration that adapt may change.
func (w *World) raiseAll(f *fault, issued map[string]int64, adapt ...func(*config.Config)) {
	var marks []ops.Mark
	for _, counter := range slices.Sorted(maps.Keys(issued)) {
		if counter != load.LateName || f.backup.late { // it is created again
			marks = append(marks, ops.Mark{Counter: counter, Number: issued[counter]})
		}
	}
	w.operate(f, "raise after a restore", func(ctx context.Context, cfg *config.Config) error {
		for _, change := range adapt {
			change(cfg)
		}
		return ops.RaiseAll(ctx, cfg, marks, ops.How{Sure: true}, w.tellRaised)
	})
}

// makeLateAbove creates the biz type that the backup lacks, with a start above all that was issued.
func (w *World) makeLateAbove(f *fault, issued int64) {
	if f.backup.late {
		return
	}
	w.mu.Lock()
	w.late = w.load.Definition(load.LateName, load.Settings{"start": issued + 1})
	w.mu.Unlock()
	w.makeLate(f)
}
