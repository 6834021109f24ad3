package sim

import (
	"context"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/testing/load"
	"github.com/seqd/seqd/internal/testing/record"
	"github.com/seqd/seqd/internal/testing/sim/storesim"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/ops"
)

// The ways of a failover.
const (
	standbyHasAll  = "the standby has everything"
	standbyLacks   = "the standby lacks the last writes"
	twiceInARow    = "twice, the second one while nobody has confirmed the first"
	wholeThenLacks = "everything, then once more with loss"
)

func lossless(o Options) bool { return o.Mode == storesim.Lossless }
func lossy(o Options) bool    { return o.Mode == storesim.Lossy }

// failoverKinds are the failovers of the store. The standby lags only while one of them goes on: so
// what is lost was written during the fault, as the checker assumes.
var failoverKinds = []kind{
	{name: "store-failover", weight: 5, needs: lossless, holds: "store@", ways: []string{standbyHasAll}, least: blink, most: some, marks: storeAway, begin: failStoreOver},
	{name: "store-failover-lossy", weight: 5, needs: lossy, holds: "store@ definition@all", ways: []string{standbyHasAll, standbyLacks, standbyLacks, twiceInARow, wholeThenLacks}, least: blink, most: long, after: 100 * time.Second,
		marks: record.Fault{Store: true, StoreLost: true}, begin: failStoreOver, end: confirmFailover},
}

// lagFor is how long the standby receives nothing before a failover that loses something.
const lagFor = 1500 * time.Millisecond

// mayLack is how many writes the standby lacks at most then.
const mayLack = 1000

// failStoreOver lets the standby take over.
func failStoreOver(w *World, f *fault) {
	switch f.way {
	case standbyHasAll:
		w.promote(f, true)
	case standbyLacks:
		w.promote(f, false)
	case twiceInARow:
		w.promote(f, false)
		w.promoteAgain(f)
	case wholeThenLacks:
		w.promote(f, true)
		w.promoteAgain(f)
	}
}

// promoteAgain lets the next standby take over after a while. The checker counts it as a fault of its
// own.
func (w *World) promoteAgain(f *fault) {
	time.Sleep(f.length / 2)
	again := &fault{planned: f.planned, Fault: f.Fault}
	again.ID += 1000
	again.Begin = w.journal.Now()
	w.tell(again)
	w.promote(f, false)
	f.later(func() {
		again.End = w.journal.Now()
		w.tell(again)
	})
}

// promote lets the standby take over, and the fault know which counters are lost. Nothing is if the
// gap would not cover it: the documents promise nothing then.
func (w *World) promote(f *fault, whole bool) {
	if !whole {
		w.store.SetLag(mayLack)
		time.Sleep(lagFor)
		whole = slices.ContainsFunc(w.store.Behind(), func(l storesim.Lost) bool { return l.Max-l.Standby > load.LossGap })
	}
	for _, l := range w.store.Failover(whole) {
		if l.Missing {
			f.missing = append(f.missing, ops.Mark{Counter: l.Counter, Number: l.Max})
		}
	}
	w.store.SetLag(0)
}

// inDoubt is more than what callers of a gapless counter can get between a failover and the raise
// that follows: answers that were on their way.
const inDoubt = 2000

// confirmFailover is what docs/operations/failover.md asks of an operator.
func confirmFailover(w *World, f *fault) {
	if w.lateDefinition() != "" {
		w.makeLate(f) // it may be lost
	}
	marks := w.lostCounters(f)
	w.operate(f, "raise what is lost", func(ctx context.Context, cfg *config.Config) error {
		if len(marks) == 0 {
			return nil
		}
		return ops.RaiseAll(ctx, cfg, marks, ops.How{Sure: true}, w.tellRaised)
	})
	w.confirm(f)
}

// confirm confirms that the store has failed over, if it has.
func (w *World) confirm(f *fault) {
	w.operate(f, "confirm the failover", func(ctx context.Context, cfg *config.Config) error {
		_, err := ops.Failover(ctx, cfg, true, io.Discard)
		return err
	})
}

// lostCounters returns the counters to raise: those that the store lacks. Gapless ones, which stand
// still, are in no list of counters, so they are among them.
func (w *World) lostCounters(f *fault) (marks []ops.Mark) {
	numbers := w.journal.Highest()
	for _, m := range f.missing { // also those whose first number is still on its way to its caller
		if w.numbered(m.Counter) {
			numbers[m.Counter] = max(numbers[m.Counter], m.Number)
		}
	}
	for _, counter := range w.booksNow() {
		numbers[counter] += inDoubt
	}
	there := w.counters(f)
	for _, counter := range slices.Sorted(maps.Keys(numbers)) {
		if _, kept := there[counter]; !kept {
			marks = append(marks, ops.Mark{Counter: counter, Number: numbers[counter]})
		}
	}
	return marks
}

// counters returns the maxima of the counters in the store that count numbers.
func (w *World) counters(f *fault) (there map[string]int64) {
	w.operate(f, "read the counters", func(ctx context.Context, _ *config.Config) error {
		store, err := w.openStore(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = store.Close() }()
		there = make(map[string]int64)
		for c, err := range persist.EveryCounter(ctx, store.Counters()) {
			if err != nil {
				return err
			}
			if w.numbered(c.BizTag) {
				there[c.BizTag] = c.Max
			}
		}
		return nil
	})
	return there
}
