package segment

import (
	"context"
	"time"

	"github.com/seqd/seqd"
)

// A keyed biz type has a counter for each key and period, and no claims. Past periods are removed
// as those of [Periodic] are, with one difference, because there may be millions of counters: the
// tombstone is not read after each allocation, but every graveTrust. So it is raised that long and
// more before anything is removed.

const (
	// graveTrust is how old the tombstone may be that a node relies on.
	graveTrust = 30 * time.Second
	// buryAhead is how long the tombstone stands before anything is removed: as long as nodes rely
	// on an older one, and as long as their allocations may take.
	buryAhead = 2 * graveTrust
)

// grave is the tombstone as it was read last.
type grave struct {
	gone  seqd.Period // 0 for none
	asked time.Time   // when the question was sent
}

// checkGrave returns an error for a period whose counters were removed, or will be soon. It is
// called after an allocation: what it knows is at most graveTrust older than that.
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
