package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// TestYear plays an operator's year in virtual time: what scripts/drill does with real processes,
// in an order that the seed draws, while callers ask.
func TestYear(t *testing.T) {
	for seed := range longtest.Or[uint64](1, 12) {
		for _, mode := range []storesim.Mode{storesim.Lossy, storesim.Unfenced} {
			o := Options{Seed: seed, Mode: mode, Redis: seed%2 == 1, BizTypes: only("order", "local", "ledger", "bill", "rent", "user"), Script: playYear}
			t.Run(fmt.Sprintf("seed %d, mode %v", seed, mode), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					o.Say = t.Output()
					if report := Run(t, o); report.Total() > 0 {
						t.Errorf("%v", report)
					}
				})
			})
		}
	}
}

// yearly are the actions of the operator. Each leaves all nodes well.
func yearly(o Options) []func(w *World, name string) {
	all := []func(w *World, name string){restoreInTheYear, restoreInTheYear, moveInTheYear, upgradeInTheYear, upgradeInTheYear, crashInTheYear, withoutANode}
	if lossy(o) {
		all = append(all, failOverInTheYear, failOverInTheYear)
	}
	return all
}

func playYear(w *World) {
	file, stop := w.busyBeforeASnapshot()
	defer stop()
	actions := yearly(w.options)
	r := rand.New(rand.NewPCG(w.options.Seed, 34))
	r.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
	for i, act := range actions {
		act(w, fmt.Sprint(file, i))
		time.Sleep(load.UpTo(r, time.Minute))
		w.each(func(n string) {
			for _, bizType := range []string{"order", "local", "ledger", "bill"} {
				w.issue(n, bizType, 1)
			}
			w.issueOf(n, "rent", fmt.Sprint("t", 1+i%5), 1)
		})
	}
	time.Sleep(30 * time.Second)
}

// restoreInTheYear loses the store, and restores a snapshot that lacks what was issued since, while
// one node is suspended that nobody stops.
func restoreInTheYear(w *World, file string) {
	w.operate(byHand(), "save a snapshot", func(ctx context.Context, cfg *config.Config) error { return ops.Save(ctx, cfg, file) })
	time.Sleep(20 * time.Second)
	awake := w.begin("pause", "c", "", 40*time.Second)
	w.while("restore in the year", record.Fault{Store: true, StoreBack: true, StoreLost: true, Redis: true}, func(f *fault) {
		for _, n := range []string{"a", "b"} {
			w.named(n).kill(false)
		}
		w.store.Lose()
		gap := int64(1000)
		w.operate(f, "restore a snapshot", func(ctx context.Context, cfg *config.Config) error {
			return ops.Restore(ctx, cfg, file, ops.Restoring{Gapless: &gap}, func(what, done string) { w.journal.Say("  restored %s: %s", what, done) })
		})
		w.raiseBegun(f)
		for _, n := range []string{"a", "b"} {
			w.named(n).start()
		}
		time.Sleep(allKnow)
		awake()
		time.Sleep(allKnow)
	})
}

// raiseBegun raises what callers know of and a snapshot may lack, and says that nothing else began.
func (w *World) raiseBegun(f *fault) {
	var marks []ops.Mark
	there := w.counters(f)
	for counter, number := range w.journal.Highest() {
		if _, kept := there[counter]; !kept && w.numbered(counter) {
			marks = append(marks, ops.Mark{Counter: counter, Number: number})
		}
	}
	w.operate(f, "raise what is not in the snapshot", func(ctx context.Context, cfg *config.Config) error {
		if len(marks) > 0 {
			if err := ops.RaiseAll(ctx, cfg, marks, ops.How{Sure: true}, w.tellRaised); err != nil {
				return err
			}
		}
		_, err := ops.ConfirmRestore(ctx, cfg)
		return err
	})
}

// moveInTheYear moves everything to another store while all nodes are stopped.
func moveInTheYear(w *World, _ string) {
	w.while("move in the year", record.Fault{Store: true, Redis: true}, func(f *fault) {
		w.endNodes(false)
		to := storesim.New(storesim.Options{Mode: w.options.Mode, Without: w.options.Without})
		w.operateOn(to, f, "move", func(ctx context.Context, cfg *config.Config) error {
			target := *cfg
			target.Store.Driver = "mongo" // another place; the simulated one is to
			return ops.Move(ctx, cfg, &target, ops.Moving{}, func(what, done string) { w.journal.Say("  moved %s: %s", what, done) })
		})
		w.former, w.store = w.store, to
		w.onAll((*node).start)
		time.Sleep(allKnow)
	})
}

func upgradeInTheYear(w *World, _ string) { w.begin("rolling-restart", "", "", 0)() }

func crashInTheYear(w *World, _ string) { w.begin("kill", "b", "", 10*time.Second)() }

// withoutANode takes a node away for a while.
func withoutANode(w *World, _ string) {
	w.named("c").stop()
	time.Sleep(30 * time.Second)
	w.named("c").start()
	time.Sleep(allKnow)
}

func failOverInTheYear(w *World, _ string) {
	w.begin("store-failover-lossy", "", standbyLacks, 10*time.Second)()
}
