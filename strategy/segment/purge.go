package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
)

// The counters of periods that are over are removed after PeriodRetention. What stays is one
// tombstone for a biz type, the document [persist.PurgedKind], so that no node whose clock was set
// back creates the counter of such a period again. It is raised before anything is removed.

const (
	// purgeSkew is how far the node's clock may be from that of the store for it to remove
	// anything: a clock that is far ahead would take the present for the past.
	purgeSkew = time.Hour
	// purgeDelay is for how long a node must have found the present period to be present before it
	// removes past ones: a clock that was ahead for a moment removes nothing, even if the store has
	// no other clock.
	purgeDelay = time.Hour
	// purgeParallel is how many counters are removed at once, and purgeAtOnce how many are collected
	// before that.
	purgeParallel, purgeAtOnce = 16, 1000
)

func isNotFound(err error) bool { return errors.Is(err, persist.ErrNotFound) }

func isExists(err error) bool { return errors.Is(err, persist.ErrExists) }

// tombstone returns the highest period that was removed, and the revision of the document that says
// so; ErrNotFound if none was.
func (f *family) tombstone(ctx context.Context) (p seqd.Period, revision int64, err error) {
	doc, err := f.env.Store.Documents().Read(ctx, persist.PurgedKind, f.bizType.Name)
	if err != nil {
		return 0, 0, err
	}
	gone, err := persist.PurgedPeriod(doc)
	return seqd.Period(gone), doc.Revision, err
}

// check returns an error for a period whose counter was removed. It is called after allocations.
func (f *family) check(ctx context.Context, p seqd.Period) error {
	if f.settings.Keyed {
		return f.checkGrave(ctx, p)
	}
	return f.checkPurged(ctx, p)
}

// checkPurged returns an error for a period whose counter was removed.
func (f *family) checkPurged(ctx context.Context, p seqd.Period) error {
	gone, _, err := f.tombstone(ctx)
	switch {
	case isNotFound(err):
		return nil
	case err != nil:
		return storeError(err)
	}
	return f.refuseGone(p, gone)
}

// refuseGone returns an error if p is at or below a tombstone.
func (f *family) refuseGone(p, gone seqd.Period) error {
	if !f.isGone(p, gone) {
		return nil
	}
	return &seqd.Error{
		Code:       seqd.CodeClockRollback,
		Detail:     "the clock says that it is " + p.String() + ", and what was known of " + gone.String() + " and before was removed after periodRetention",
		RetryAfter: time.Minute,
		Err:        errPurged,
	}
}

// isGone reports whether a period is at or below a tombstone. That can be of another length, from
// before a change of reset: the month, say, in which a day lies has a counter of its own, which was
// not removed with that of the day.
func (f *family) isGone(p, tombstone seqd.Period) bool {
	same := f.settings.Reset.Of(tombstone.Date())
	return p < same || p == same && same == tombstone
}

// purge removes what is kept of periods that ended longer than PeriodRetention ago.
func (f *family) purge() {
	delay := purgeDelay
	if f.settings.Keyed { // nodes begin at different times, so that the others find little left
		delay += f.share(purgeDelay)
	}
	if f.isSteady(delay) {
		f.tellPurged(f.purgeBefore(f.running))
	}
}

// purgeDue reports whether to purge now: once in each period that becomes the present one.
func (f *family) purgeDue(p seqd.Period) bool {
	last := f.purged.Load()
	return int32(p) > last && f.settings.PeriodRetention > 0 && p.Check() == nil && f.purged.CompareAndSwap(last, int32(p))
}

// isSteady waits for a time and reports whether the clock passed with it. It is false if the
// strategy is closing.
func (f *family) isSteady(delay time.Duration) bool {
	if !f.isSettled() {
		return false
	}
	began, real := f.env.Now(), time.Now()
	if !f.pause(delay) {
		return false
	}
	if moved := f.env.Now().Sub(began) - time.Since(real); moved.Abs() > purgeSkew/2 {
		f.env.Log.Warn("the clock was set; the counters of past periods stay until the next period", "bizType", f.bizType.Name, "movedMs", moved.Milliseconds())
		return false
	}
	return true
}

// isSettled waits until the clock has not jumped of late. It is false if the strategy is closing.
func (f *family) isSettled() bool {
	for f.env.Clock != nil {
		ctx, cancel := f.context()
		settled, err := f.env.Clock.Settled(ctx, f.env.Store.Documents())
		cancel()
		if settled && err == nil {
			break
		}
		if !f.pause(time.Minute) {
			return false
		}
	}
	return true
}

func (f *family) tellPurged(removed int, err error) {
	switch {
	case err != nil && f.running.Err() == nil:
		f.env.Log.Warn("the counters of past periods could not be removed; the next period tries again", "bizType", f.bizType.Name, "counters", removed, "error", err)
	case removed > 0:
		f.env.Log.Info("the counters of past periods were removed", "bizType", f.bizType.Name, "counters", removed)
	}
}

// keeps returns the first period that is not to be removed.
func (f *family) keeps(ctx context.Context) (seqd.Period, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchDeadline)
	defer cancel()
	now := f.env.Now()
	stores, err := f.env.Store.Now(ctx)
	if err != nil {
		return 0, err
	}
	if skew := now.Sub(stores).Abs(); skew > purgeSkew {
		return 0, errors.New("the clock is " + skew.String() + " off the store's")
	}
	return f.calendar.Now(now.Add(-f.settings.PeriodRetention)), nil
}

func (f *family) purgeBefore(ctx context.Context) (removed int, err error) {
	keep, err := f.keeps(ctx)
	if err != nil {
		return 0, err
	}
	var past []string
	buried := false
	remove := func() error {
		if len(past) == 0 {
			return nil
		}
		if !buried {
			if err := f.bury(ctx, f.calendar.Before(keep)); err != nil {
				return err
			}
			if f.settings.Keyed && !f.pause(buryAhead) {
				return errStopping
			}
			buried = true
		}
		n, err := f.removeAll(ctx, past)
		removed, past = removed+n, past[:0]
		return err
	}
	for _, names := range f.names(ctx) {
		for counter, err := range names {
			if p, ok := f.periodOf(counter); ok && p < keep {
				past = append(past, counter)
			}
			if err == nil && len(past) == purgeAtOnce {
				err = remove()
			}
			if err != nil {
				return removed, err
			}
		}
		if err := remove(); err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// names returns the names of all counters of the biz type, and then of claims: a removal may have
// been cut off between the two. Keys have no claims.
func (f *family) names(ctx context.Context) []iter.Seq2[string, error] {
	if f.settings.Keyed {
		return []iter.Seq2[string, error]{named(persist.CountersUnder(ctx, f.env.Store.Counters(), f.bizType.Name+"/"), persist.Counter.PersistID)}
	}
	prefix := f.bizType.Name + "@"
	return []iter.Seq2[string, error]{
		named(persist.CountersUnder(ctx, f.env.Store.Counters(), prefix), persist.Counter.PersistID),
		named(persist.DocumentsUnder(ctx, f.env.Store.Documents(), persist.PeriodKind, prefix), func(d persist.Document) string { return d.Key }),
	}
}

// named yields the names of records.
func named[T any](records iter.Seq2[T, error], name func(T) string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for record, err := range records {
			if !yield(name(record), err) {
				return
			}
		}
	}
}

// removeAll removes counters, several at a time, and returns how many, and an error if some were
// not removed.
func (f *family) removeAll(ctx context.Context, all []string) (removed int, err error) {
	var (
		mu sync.Mutex // guards removed and err
		wg sync.WaitGroup
	)
	slots := make(chan struct{}, purgeParallel)
	for _, counter := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			failed := f.remove(ctx, counter)
			mu.Lock()
			defer mu.Unlock()
			if err = cmp.Or(err, failed); failed == nil {
				removed++
			}
		})
	}
	wg.Wait()
	return removed, err
}

// remove removes a counter and its claim, in this order: a claim without a counter is refused, a
// counter without a claim would be taken for a new one. Keys have no claims.
func (f *family) remove(ctx context.Context, counter string) error {
	if err := f.env.Store.Counters().Delete(ctx, counter); err != nil && !isNotFound(err) {
		return err
	}
	if !f.settings.Keyed {
		if err := f.env.Store.Documents().Delete(ctx, persist.PeriodKind, counter, 1); err != nil && !isNotFound(err) {
			return err
		}
	}
	name, ok := counters.ParseName(f.bizType.Name, counter)
	if !ok { // the counter of places
		return nil
	}
	if c, err := f.counter(name, nil); err == nil {
		_ = c.forget(ctx) // what is left in Redis does no harm
	}
	return nil
}

// periodOf returns the period of a counter of numbers or of places, unless that has another length
// than those of the calendar.
func (f *family) periodOf(counter string) (p seqd.Period, ok bool) {
	of, _, digits, _ := seqd.SplitCounter(counter) // whether it is one of numbers does not matter
	p, ok = f.settings.Reset.Parse(digits)
	return p, ok && of == f.bizType.Name
}

// bury raises the tombstone to p.
func (f *family) bury(ctx context.Context, p seqd.Period) error {
	err := f.raiseTombstone(ctx, p)
	if isExists(err) || errors.Is(err, persist.ErrConflict) { // another node raised it meanwhile
		err = f.raiseTombstone(ctx, p)
	}
	if err != nil {
		return err
	}
	err = f.checkPurged(ctx, p)
	switch {
	case errors.Is(err, errPurged):
		return nil
	case err == nil:
		return fmt.Errorf("the tombstone is of a period of another length, which does not cover %s", p)
	}
	return err
}

// raiseTombstone raises the tombstone to p unless it is there already.
func (f *family) raiseTombstone(ctx context.Context, p seqd.Period) error {
	known, revision, err := f.tombstone(ctx)
	if err != nil && !isNotFound(err) {
		return err
	}
	if known >= p {
		return nil
	}
	mark := persist.PurgedDocument(f.bizType.Name, int64(p), revision+1, f.env.Now().UnixMilli())
	return persist.Put(ctx, f.env.Store.Documents(), mark)
}
