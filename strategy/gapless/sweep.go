package gapless

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// The store is the memory of the timer of reservations, and the index of its documents by expiry is
// the queue. Each process asks it every second what is due, and ends that. Whichever process is
// first does it; compare-and-set keeps the others from doing it twice.
//
// Nobody must lose numbers because no node was there to confirm them. So all processes say every few
// seconds that they are there, and after a time without any, reservations that were made before get
// their whole time once more: see [storeclock.Attendance].

const (
	// sweepPause is the pause between two questions what is due.
	sweepPause = time.Second
	// lookPause is the pause between two looks whether there are counters at all.
	lookPause = time.Minute
	// purgePause is the pause between two removals of records that are no longer needed.
	purgePause = time.Minute
	// purgeAtOnce is how many records are removed by one operation.
	purgeAtOnce = 500
	// purgeGrace is how long a record stays after its end, because clocks differ a little.
	purgeGrace = time.Minute
	// sweepPage is how many documents are read at a time, and mostSweepPage the most.
	sweepPage, mostSweepPage = 100, 10_000
	// atOnce is how many counters are reclaimed at a time.
	atOnce = 16
	// fruitless is how long a counter is left alone whose document stayed as it was.
	fruitless = 5 * time.Second
)

// sweep runs the timer until ctx ends. It does nothing before the process has a gapless biz type, or
// the store a counter of one.
func sweep(ctx context.Context, env strategy.Env, reclaimer strategy.Reclaimer) {
	if env.Attendance == nil {
		return
	}
	w := &sweeper{env: env, documents: documentsOf(env.Store), reclaimer: reclaimer, tried: make(map[string]attempt), page: sweepPage}
	if !w.awaitNeed(ctx) {
		return
	}
	var loops sync.WaitGroup
	loops.Go(func() {
		every(ctx, storeclock.BeatPause, w.trouble("that this node is there cannot be written"), env.Attendance.Beat)
	})
	loops.Go(func() { every(ctx, sweepPause, w.trouble("reservations cannot be reclaimed"), w.reclaim) })
	loops.Go(func() { every(ctx, purgePause, w.trouble("records of gapless counters cannot be removed"), w.purge) })
	loops.Wait()
}

// awaitNeed waits until there is something to do. A biz type of the store is opened when somebody asks
// for it, and until then its reservations expire too. It returns false if ctx has ended.
func (w *sweeper) awaitNeed(ctx context.Context) bool {
	looking, stop := context.WithCancel(ctx)
	defer stop()
	go every(looking, lookPause, w.trouble("it cannot be found out whether there are gapless counters"), func(ctx context.Context) error {
		some, err := w.List(ctx, persist.LedgerKind, "", 1)
		if len(some) > 0 {
			w.env.Attendance.Need()
		}
		return err
	})
	select {
	case <-w.env.Attendance.Needed():
		return true
	case <-ctx.Done():
		return false
	}
}

// every calls f now and after every pause until ctx ends.
func every(ctx context.Context, pause time.Duration, note func(error), f func(context.Context) error) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, commandTimeout)
		err := f(within)
		cancel()
		if ctx.Err() != nil {
			return
		}
		note(err)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweeper reclaims what is due, of all gapless counters in the store.
type sweeper struct {
	env strategy.Env
	documents
	reclaimer strategy.Reclaimer
	tried     map[string]attempt // by counter; only those that were due when they were last asked for
	page      int
}

// attempt is what a counter looked like when it was last reclaimed.
type attempt struct {
	revision int64
	until    int64 // when it is tried again, in ms since the Unix epoch
}

// trouble returns what logs an error when it begins, and its end.
func (w *sweeper) trouble(what string) func(error) {
	var failing bool
	return func(err error) {
		switch {
		case err != nil && !failing:
			w.env.Log.Error(what+"; it is tried again", "error", err)
		case err == nil && failing:
			w.env.Log.Info("no longer: " + what)
		}
		failing = err != nil
	}
}

// reclaim ends what is due.
func (w *sweeper) reclaim(ctx context.Context) error {
	t, err := w.env.Clock.Times(ctx)
	if err != nil {
		return err
	}
	now := t.Store - t.Forward
	due, err := w.Due(ctx, persist.LedgerKind, now+1, w.page)
	if err != nil {
		return err
	}
	var todo []persist.Document
	tried := make(map[string]attempt, len(due))
	for _, d := range due {
		if a := w.tried[d.Key]; a.revision == d.Revision && now < a.until && a.until <= now+fruitless.Milliseconds() {
			tried[d.Key] = a
			continue
		}
		tried[d.Key] = attempt{d.Revision, now + fruitless.Milliseconds()}
		todo = append(todo, d)
	}
	w.tried = tried
	// those that nothing can be done about must not hide the others
	if w.page = sweepPage; len(due)-len(todo) > sweepPage/2 {
		w.page = min(2*len(due), mostSweepPage)
	}
	return w.all(ctx, todo)
}

// all reclaims counters, several at a time.
func (w *sweeper) all(ctx context.Context, todo []persist.Document) error {
	var wg sync.WaitGroup
	failed := make([]error, len(todo))
	turns := make(chan struct{}, atOnce)
	for i, d := range todo {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			failed[i] = w.one(ctx, d)
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// one reclaims what is due of one counter: through its biz type, so that callers and the timer share
// one view of it, or, if there is none here, on the document itself.
func (w *sweeper) one(ctx context.Context, doc persist.Document) error {
	bizType, _, _, _ := seqd.SplitCounter(doc.Key)
	name, ok := counters.ParseName(bizType, doc.Key)
	if !ok {
		return fmt.Errorf("%s is not the name of a counter of %s", doc.Key, bizType)
	}
	done, err := w.reclaimer.Reclaim(ctx, bizType, name.Key, name.Period)
	switch code := seqd.CodeOf(err); {
	case code == seqd.CodeStoreFailedOver, code == seqd.CodeConflict, code == seqd.CodeStopping:
		return nil // its biz type says so
	case err != nil || done:
		return err
	}
	return w.alone(ctx, doc)
}

// alone reclaims what is due of a counter that no biz type uses here.
func (w *sweeper) alone(ctx context.Context, doc persist.Document) error {
	state, err := ledger.Decode(&doc)
	if err != nil {
		return err
	}
	_, err = w.documents.alone(ctx, w.env, w.env.Clock, &document{doc, state}, ledger.Op{Kind: ledger.Reclaim})
	return err
}

// purge removes the records of ended reservations and of answers whose time is over. They were
// written with the later time of the store's clock and the node's, and are removed by the earlier,
// so that one wrong clock ends none early.
func (w *sweeper) purge(ctx context.Context) error {
	before, ok, err := w.env.Clock.Past(ctx, w.Documents)
	if !ok {
		return err
	}
	for _, kind := range []string{persist.EndedKind, persist.AnswerKind} {
		for {
			n, err := w.Purge(ctx, kind, before-purgeGrace.Milliseconds(), purgeAtOnce)
			if err != nil {
				return err
			}
			if n < purgeAtOnce {
				break
			}
		}
	}
	return nil
}
