package sim

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/seams"
	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// operatorHost is where commands of seqd run. Nothing cuts it off.
const operatorHost = "127.0.0.40"

// patience is how long an operator repeats an action that other faults prevent.
const patience = 3 * time.Minute

// operate repeats a command of seqd until it succeeds, because Redis may be away.
func (w *World) operate(f *fault, what string, command func(context.Context, *config.Config) error) {
	w.operateOn(nil, f, what, command)
}

// operateOn is operate for a command that moves everything to another store.
func (w *World) operateOn(to *storesim.Cluster, f *fault, what string, command func(context.Context, *config.Config) error) {
	n := w.nodes[0]
	n.turn.Lock()
	cfg, err := n.configuration()
	n.turn.Unlock()
	view := w.store.View(nil)
	defer view.Kill()
	s := seams.Seams{
		DialRedis: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return w.net.Dial(ctx, operatorHost, w.serverAt(addr, w.primaryNumber()))
		},
		OpenStore: func(ctx context.Context, m driver.How) (persist.Store, error) {
			return view.Open(ctx, storesim.Client{Unreached: m.Unreached, Admit: m.Admit})
		},
	}
	if to != nil {
		view := to.View(nil)
		defer view.Kill()
		s.OpenTarget = func(ctx context.Context, m driver.How) (persist.Store, error) {
			return view.Open(ctx, storesim.Client{Unreached: m.Unreached, Admit: m.Admit})
		}
	}
	if w.coordinator != nil {
		apart := w.coordinator.View(nil)
		defer apart.Kill()
		s.OpenCoordinator = func() coordination.Coordinator { return n.openCoordinator(apart, time.Second) }
	}
	ctx := seams.With(context.Background(), s)
	for end := time.Now().Add(patience); err == nil; time.Sleep(time.Second) {
		if failed := command(ctx, cfg); failed == nil {
			return
		} else if time.Now().After(end) {
			err = failed
		}
	}
	w.journal.Find("an operator cannot %s (%v): %v", what, f.kind.name, err)
}

// openStore opens the store as a command does.
func (w *World) openStore(ctx context.Context) (persist.Store, error) {
	return seams.Of(ctx).OpenStore(ctx, driver.How{})
}

func (w *World) tellRaised(counter string, r ops.Raised) {
	w.journal.Say("  raised %s: %s", counter, r)
}

// insist requests a change from the nodes in turn until one has made it.
func (w *World) insist(f *fault, name, method, path, body string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.load.UntilDone(ctx, rand.New(rand.NewPCG(w.options.Seed, uint64(f.ID))), name, method, path, body)
	if ctx.Err() != nil {
		w.journal.Find("nobody did %s %s%s %s", method, name, path, body)
	}
}

// lateDefinition returns how load.LateName was created last, "" if it was not.
func (w *World) lateDefinition() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late
}

// makeLate creates load.LateName, as before if it was created.
func (w *World) makeLate(f *fault) {
	w.mu.Lock()
	if w.late == "" {
		w.late = w.load.Definition(load.LateName, nil)
	}
	body := w.late
	w.mu.Unlock()
	w.insist(f, load.LateName, http.MethodPut, "", body)
}

// shape returns the biz type of a counter.
func (w *World) shape(counter string) (*load.Shape, bool) {
	i := slices.IndexFunc(w.load.Shapes, func(s load.Shape) bool { return s.Name == base(counter) })
	if i < 0 {
		return nil, false
	}
	return &w.load.Shapes[i], true
}

// numbered reports whether a counter of the store counts numbers of a biz type.
func (w *World) numbered(counter string) bool {
	s, known := w.shape(counter)
	_, _, _, whole := seqd.SplitCounter(counter)
	return known && whole && s.Strategy == record.Segment
}

// booksNow returns the names of all gapless counters that callers can have numbers of now.
func (w *World) booksNow() (names []string) {
	today := time.Now().UTC().Format("@20060102")
	for i := range w.load.Shapes {
		if s := &w.load.Shapes[i]; s.Booked {
			for _, name := range s.Counters() {
				if s.Reset == record.Daily {
					name += today
				}
				names = append(names, name)
			}
		}
	}
	return names
}
