package segment

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
)

// A keyed biz type has a counter for each key and period, and no claims. Past periods are removed as
// those of [Periodic] are, with two differences, because there may be millions of counters. The
// tombstone is not read after each allocation, but every graveTrust; so it is raised that long and
// more before anything is removed. And the counters are read in pages, and removed several at a
// time.

const (
	// graveTrust is how old the tombstone may be that a node relies on.
	graveTrust = 30 * time.Second
	// buryAhead is how long the tombstone stands before anything is removed: as long as nodes rely
	// on an older one, and as long as their allocations may take.
	buryAhead = 2 * graveTrust
	// purgeParallel is how many counters are removed at once.
	purgeParallel = 16
)

// grave is the tombstone as it was read last.
type grave struct {
	gone  seqd.Period // 0 for none
	asked time.Time   // when the question was sent
}

// checkGrave returns an error for a period whose counters were removed, or will be soon. It is called
// after an allocation: what it knows is at most graveTrust older than that.
func (f *family) checkGrave(ctx context.Context, p seqd.Period) error {
	if g := f.grave.Load(); g != nil && time.Since(g.asked) <= graveTrust {
		return f.refuseBuried(p, g)
	}
	return f.checkGraveAnew(ctx, p)
}

// checkGraveAnew is checkGrave that trusts nothing that was read before. It is called after a
// counter was created, because only that can repeat numbers: the clocks of a virtual machine that
// was suspended while the period was purged may not show that its tombstone is out of date.
func (f *family) checkGraveAnew(ctx context.Context, p seqd.Period) error {
	f.grave.Store(nil) // also if the read fails: the counter exists now, and the next call finds it
	asked := time.Now()
	gone, _, err := f.tombstone(ctx)
	if err != nil && !isNotFound(err) {
		return storeError(err)
	}
	g := &grave{gone: gone, asked: asked}
	f.grave.Store(g)
	return f.refuseBuried(p, g)
}

// refuseBuried returns an error if a tombstone covers p.
func (f *family) refuseBuried(p seqd.Period, g *grave) error {
	if g.gone == 0 {
		return nil
	}
	return f.refuseGone(p, g.gone)
}

// purgeKeys removes the counters of periods that ended longer than PeriodRetention ago. Nodes begin
// at different times, so that the others find little left.
func (s *Keyed) purgeKeys() {
	if !s.isSteady(purgeDelay + s.share(purgeDelay)) {
		return
	}
	removed, err := s.purgeKeysBefore(s.running)
	s.tellPurged(removed, err)
}

func (s *Keyed) purgeKeysBefore(ctx context.Context) (removed int, err error) {
	keep, err := s.keeps(ctx)
	if err != nil {
		return 0, err
	}
	last := s.calendar.Before(keep)
	if last.Check() != nil {
		return 0, nil
	}
	if err := s.bury(ctx, last); err != nil {
		return 0, err
	}
	if !s.pause(buryAhead) {
		return 0, nil
	}
	var past []string
	remove := func() error {
		n, err := s.removeAll(ctx, past)
		removed, past = removed+n, past[:0]
		return err
	}
	for c, err := range persist.CountersUnder(ctx, s.env.Store.Counters(), s.bizType.Name+"/") {
		if p, ok := s.periodOf(c.BizTag); ok && p < keep {
			if past = append(past, c.BizTag); len(past) == keysPage {
				err = remove()
			}
		}
		if err != nil {
			return removed, err
		}
	}
	err = remove()
	return removed, err
}

// removeAll removes counters, several at a time, and returns how many, and an error if some were not
// removed.
func (s *Keyed) removeAll(ctx context.Context, all []string) (removed int, err error) {
	var (
		n  atomic.Int64
		mu sync.Mutex // guards err
		wg sync.WaitGroup
	)
	slots := make(chan struct{}, purgeParallel)
	for _, counter := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if failed := s.removeKey(ctx, counter); failed != nil {
				mu.Lock()
				defer mu.Unlock()
				err = failed
				return
			}
			n.Add(1)
		})
	}
	wg.Wait()
	return int(n.Load()), err
}

func (s *Keyed) removeKey(ctx context.Context, counter string) error {
	err := s.env.Store.Counters().Delete(ctx, counter)
	if err != nil && !isNotFound(err) {
		return err
	}
	name, ok := counters.ParseName(s.bizType.Name, counter)
	if !ok { // the counter of places
		return nil
	}
	if c, err := s.counter(name, s.partOf(name.Period, "")); err == nil {
		_ = c.forget(ctx) // what is left in Redis does no harm
	}
	return nil
}
