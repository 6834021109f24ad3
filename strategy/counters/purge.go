package counters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// Purger removes the counters of periods that ended longer than Retention ago. What stays is one
// tombstone for a biz type, the document [persist.PurgedKind], so that no node whose clock was set
// back creates the counter of such a period again. It is raised before anything is removed.
//
// Without keys a counter has a claim, a document that says that it was created, and the tombstone
// is read after each allocation. With keys there are no claims, and there may be millions of
// counters. So the tombstone is read every 30 s, and raised twice that long before anything is
// removed.
//
// A Purger is safe for concurrent use.
type Purger struct {
	*Base
	Calendar *Calendar
	// Retention is how long after its end a period is removed, 0 for never.
	Retention time.Duration

	purged atomic.Int32              // the period in which Due was last true
	known  atomic.Pointer[tombstone] // as it was read last; nil if that is not to be relied on
}

// tombstone is the document that says what was removed.
type tombstone struct {
	period   seqd.Period // the highest that was removed, 0 for none
	revision int64       // of the document, 0 if there is none
	asked    time.Time   // when the question was sent
}

const (
	// tombstoneTrust is how old the tombstone of a keyed biz type may be that a node relies on.
	tombstoneTrust = 30 * time.Second
	// tombstoneAhead is how long it stands before anything is removed: as long as nodes rely on an
	// older one, and as long as their allocations may take.
	tombstoneAhead = 2 * tombstoneTrust
	// purgeSkew is how far the node's clock may be from that of the store for it to remove
	// anything: a clock that is far ahead would take the present for the past.
	purgeSkew = time.Hour
	// PurgeDelay is for how long a node must have found the present period to be present before it
	// removes past ones: a clock that was ahead for a moment removes nothing, even if the store has
	// no other clock. With keys it is up to twice as long: nodes begin at different times, so that
	// the others find little left.
	PurgeDelay = time.Hour
	// purgeParallel is how many counters are removed at once.
	purgeParallel = 16
)

// ErrPurged is in the error of a period that was removed.
var ErrPurged = errors.New("the period was removed")

// Check returns an error for a period whose counters were removed, or will be soon: one with
// [ErrPurged], or that of the store. It is called after each allocation. Period 0, of numbers that
// never reset, is never removed.
func (p *Purger) Check(ctx context.Context, period seqd.Period) error {
	if t := p.known.Load(); t != nil && p.Settings.Keyed && time.Since(t.asked) <= tombstoneTrust {
		return p.refuse(period, t.period)
	}
	return p.CheckAnew(ctx, period)
}

// CheckAnew is Check that trusts nothing that was read before. It is called after a counter was
// created, because only that can repeat numbers: the clocks of a virtual machine that was suspended
// while the period was purged may not show that its tombstone is out of date.
func (p *Purger) CheckAnew(ctx context.Context, period seqd.Period) error {
	if period == 0 {
		return nil
	}
	p.Doubt() // also if the read fails: the counter exists now, and the next call finds it
	t, err := p.read(ctx)
	if err != nil {
		return err
	}
	p.known.Store(t)
	return p.refuse(period, t.period)
}

// Doubt lets the next Check read the tombstone: a counter may have been created since.
func (p *Purger) Doubt() { p.known.Store(nil) }

// read returns the tombstone as it is now.
func (p *Purger) read(ctx context.Context) (*tombstone, error) {
	t := &tombstone{asked: time.Now()}
	doc, err := p.Env.Store.Documents().Read(ctx, persist.PurgedKind, p.BizType.Name)
	switch {
	case isNotFound(err):
		return t, nil
	case err != nil:
		return nil, err
	}
	gone, err := persist.PurgedPeriod(doc)
	t.period, t.revision = seqd.Period(gone), doc.Revision
	return t, err
}

// refuse returns an error if a period is at or below a tombstone. That can be of another length,
// from before a change of reset: the month, say, in which a day lies has a counter of its own,
// which was not removed with that of the day.
func (p *Purger) refuse(period, gone seqd.Period) error {
	same := p.Calendar.Reset.Of(gone.Date())
	if gone == 0 || period > same || period == same && same != gone {
		return nil
	}
	return &seqd.Error{
		Code:       seqd.CodeClockRollback,
		Detail:     "the clock says that it is " + period.String() + ", and what was known of " + gone.String() + " and before was removed after periodRetention",
		RetryAfter: time.Minute,
		Err:        ErrPurged,
	}
}

// Due reports whether to call Run now: once in each period that becomes the present one.
func (p *Purger) Due(present seqd.Period) bool {
	last := p.purged.Load()
	return int32(present) > last && p.Retention > 0 && present.Check() == nil && p.purged.CompareAndSwap(last, int32(present))
}

// Run waits until the clock was steady for [PurgeDelay], and purges, until ctx ends. It logs how
// that ended. For forget see Purge.
func (p *Purger) Run(ctx context.Context, forget func(context.Context, Name)) {
	delay := PurgeDelay
	if p.Settings.Keyed {
		delay += Spread(PurgeDelay, p.BizType.Name, p.Env.Addr)
	}
	if !p.isSettled(ctx) || !p.isSteady(ctx, delay) {
		return
	}
	removed, err := p.Purge(ctx, forget)
	log := p.Env.Log.With("bizType", p.BizType.Name, "counters", removed)
	switch {
	case err != nil && ctx.Err() == nil:
		log.Warn("the counters of past periods could not be removed; the next period tries again", "error", err)
	case removed > 0:
		log.Info("the counters of past periods were removed")
	}
}

// isSteady waits for a time and reports whether the clock passed with it. It is false if ctx has
// ended.
func (p *Purger) isSteady(ctx context.Context, delay time.Duration) bool {
	began, real := p.Env.Now(), time.Now()
	if !Pause(ctx, delay) {
		return false
	}
	if moved := p.Env.Now().Sub(began) - time.Since(real); moved.Abs() > purgeSkew/2 {
		p.Env.Log.Warn("the clock was set; the counters of past periods stay until the next period", "bizType", p.BizType.Name, "movedMs", moved.Milliseconds())
		return false
	}
	return true
}

// isSettled waits until the store's clock has not jumped of late. It is false if ctx has ended.
func (p *Purger) isSettled(ctx context.Context) bool {
	for p.Env.Clock != nil {
		soon, cancel := context.WithTimeout(ctx, timeout)
		settled, err := p.Env.Clock.Settled(soon, p.Env.Store.Documents())
		cancel()
		if settled && err == nil {
			break
		}
		if !Pause(ctx, time.Minute) {
			return false
		}
	}
	return true
}

// Purge removes what is kept of periods that ended longer than Retention ago, and returns of how
// many counters, also with an error. It calls forget for each, so that what is kept of it outside
// the store is removed too.
func (p *Purger) Purge(ctx context.Context, forget func(context.Context, Name)) (removed int, err error) {
	keep, err := p.keeps(ctx)
	if err != nil {
		return 0, err
	}
	buried := sync.OnceValue(func() error {
		err := p.bury(ctx, p.Calendar.Before(keep))
		if err == nil && p.Settings.Keyed && !Pause(ctx, tombstoneAhead) {
			err = ctx.Err()
		}
		return err
	})
	for _, names := range p.names(ctx) {
		n, err := p.removeBefore(ctx, keep, names, buried, forget)
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// keeps returns the first period that is not to be removed.
func (p *Purger) keeps(ctx context.Context) (seqd.Period, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	now := p.Env.Now()
	stores, err := p.Env.Store.Now(ctx)
	if err != nil {
		return 0, err
	}
	if skew := now.Sub(stores).Abs(); skew > purgeSkew {
		return 0, errors.New("the clock is " + skew.String() + " off the store's")
	}
	return p.Calendar.Now(now.Add(-p.Retention)), nil
}

// names returns the names of all counters of the biz type, and then of claims: a removal may have
// been cut off between the two.
func (p *Purger) names(ctx context.Context) []iter.Seq2[string, error] {
	prefix := p.BizType.Name + "@"
	if p.Settings.Keyed {
		prefix = p.BizType.Name + "/"
	}
	all := []iter.Seq2[string, error]{named(persist.CountersUnder(ctx, p.Env.Store.Counters(), prefix), persist.Counter.PersistID)}
	if !p.Settings.Keyed {
		all = append(all, named(persist.DocumentsUnder(ctx, p.Env.Store.Documents(), persist.PeriodKind, prefix), func(d persist.Document) string { return d.Key }))
	}
	return all
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

// removeBefore removes the counters of periods before one, several at a time, until one fails, and
// returns how many. buried is called before the first, and may be called again.
func (p *Purger) removeBefore(ctx context.Context, keep seqd.Period, names iter.Seq2[string, error], buried func() error, forget func(context.Context, Name)) (removed int, err error) {
	var (
		mu sync.Mutex // guards removed and err
		wg sync.WaitGroup
	)
	done := func(n int, failed error) (goOn bool) {
		mu.Lock()
		defer mu.Unlock()
		removed, err = removed+n, cmp.Or(err, failed)
		return err == nil
	}
	busy := make(chan struct{}, purgeParallel)
	for counter, failed := range names {
		if of, ok := p.periodOf(counter); failed == nil && (!ok || of >= keep) {
			continue
		}
		if failed == nil {
			failed = buried()
		}
		if !done(0, failed) {
			break
		}
		busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-busy }()
			done(p.remove(ctx, counter, forget))
		})
	}
	wg.Wait()
	return removed, err
}

// periodOf returns the period of a counter of numbers or of places, unless that has another length
// than those of the calendar.
func (p *Purger) periodOf(counter string) (period seqd.Period, ok bool) {
	of, _, digits, _ := seqd.SplitCounter(counter) // whether it is one of numbers does not matter
	period, ok = p.Calendar.Reset.Parse(digits)
	return period, ok && of == p.BizType.Name
}

// remove removes a counter and its claim, in this order: a claim without a counter is refused, a
// counter without a claim would be taken for a new one.
func (p *Purger) remove(ctx context.Context, counter string, forget func(context.Context, Name)) (removed int, err error) {
	err = p.Env.Store.Counters().Delete(ctx, counter)
	if !p.Settings.Keyed && (err == nil || isNotFound(err)) {
		err = p.Env.Store.Documents().Delete(ctx, persist.PeriodKind, counter, 1)
	}
	if err != nil && !isNotFound(err) {
		return 0, err
	}
	if name, ok := ParseName(p.BizType.Name, counter); ok { // otherwise it is the counter of places
		forget(ctx, name)
	}
	return 1, nil
}

// bury raises the tombstone to a period.
func (p *Purger) bury(ctx context.Context, period seqd.Period) error {
	err := p.raise(ctx, period)
	if errors.Is(err, persist.ErrExists) || errors.Is(err, persist.ErrConflict) { // another node raised it meanwhile
		err = p.raise(ctx, period)
	}
	if err != nil {
		return err
	}
	err = p.CheckAnew(ctx, period)
	switch {
	case errors.Is(err, ErrPurged):
		return nil
	case err == nil:
		return fmt.Errorf("the tombstone is of a period of another length, which does not cover %s", period)
	}
	return err
}

// raise raises the tombstone to a period unless it is there already.
func (p *Purger) raise(ctx context.Context, period seqd.Period) error {
	t, err := p.read(ctx)
	if err != nil || t.period >= period {
		return err
	}
	mark := persist.PurgedDocument(p.BizType.Name, int64(period), t.revision+1, p.Env.Now().UnixMilli())
	return persist.Put(ctx, p.Env.Store.Documents(), mark)
}

func isNotFound(err error) bool { return errors.Is(err, persist.ErrNotFound) }

// Spread returns a part of a time that differs between names, such as those of nodes and biz types,
// so that not all do something at once.
func Spread(of time.Duration, names ...string) time.Duration {
	h := fnv.New32a()
	for _, name := range names {
		_, _ = h.Write([]byte(name + " "))
	}
	return time.Duration(h.Sum32()%1000) * of / 1000
}

// Pause waits, and reports false when ctx has ended.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
