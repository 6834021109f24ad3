package sim

import (
	"context"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// moveTemptations move everything to another store while one node is suspended. It wakes when others
// issue from the new store.
var moveTemptations = []schedule{
	{
		name: "moved beside a suspended node", was: "A node that was suspended meanwhile took numbers from the former store that others took from the new one.",
		rules: []string{"move-shut"},
		world: Options{BizTypes: only("order", "local", "bill", "rent", "user"), Script: movedBesideANode},
	},
	{
		name: "moved beside a suspended node, with Redis", was: "A node that was suspended meanwhile took numbers from the former store that others took from the new one.",
		world: Options{Redis: true, BizTypes: only("order", "local", "bill", "rent", "user"), Script: movedBesideANode},
	},
	{
		name: "moved beside a suspended node, lossy", was: "A node that was suspended meanwhile took numbers from the former store that others took from the new one.",
		world: Options{Redis: true, Mode: storesim.Lossy, BizTypes: only("order", "local", "bill", "rent", "user"), Script: movedBesideANode},
	},
}

func movedBesideANode(w *World) {
	_, stop := w.busyBeforeASnapshot()
	w.issueOf("a", "rent", "k", 1)
	w.at(30 * time.Second)
	awake := w.begin("pause", "c", "", 70*time.Second)
	w.while("moved beside a suspended node", record.Fault{Store: true, Redis: true}, func(f *fault) {
		for _, n := range []string{"a", "b"} {
			w.named(n).stop()
		}
		to := storesim.New(storesim.Options{Mode: w.options.Mode, Without: w.options.Without})
		w.operateOn(to, f, "move", func(ctx context.Context, cfg *config.Config) error {
			target := *cfg
			target.Store.Driver = "mongo" // another place; the simulated one is to
			return ops.Move(ctx, cfg, &target, ops.Moving{}, func(what, done string) { w.journal.Say("  moved %s: %s", what, done) })
		})
		w.former, w.store = w.store, to
		for _, n := range []string{"a", "b"} {
			w.named(n).start()
		}
		time.Sleep(allKnow)
		w.issueOf("a", "rent", "new", 2)
		awake()
		for _, key := range []string{"k", "new"} { // the former store does not have the second one
			w.ask("c", load.Question{BizType: "rent", Of: key, Count: 2})
		}
		time.Sleep(30 * time.Second)
		w.named("c").stop()
		w.named("c").start()
		time.Sleep(allKnow)
	})
	w.at(4 * time.Minute)
	stop()
}
