package workers

import (
	"context"

	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// Restored gives the registry of each pool a floor above everything that can have been granted,
// after an older copy of the store was restored. It calls tell with each pool and what was done for
// it. It is safe to repeat.
func (w *Workers) Restored(ctx context.Context, tell func(pool, done string)) error {
	pools, _, err := w.Pools(ctx, "", mostPools)
	if err != nil {
		return err
	}
	for _, p := range pools {
		floor, err := w.raise(ctx, p)
		if err != nil {
			return err
		}
		tell(p.Name, "leases of worker IDs that are granted from now on begin at "+admin.Time(floor+1))
	}
	return nil
}

// raise raises the floor of the registry of a pool, and returns it, in ms since the Unix epoch.
func (w *Workers) raise(ctx context.Context, p admin.WorkerPool) (floor int64, err error) {
	for made := false; !made; {
		t, err := w.opts.Slots.Look(ctx, registry(p.Name))
		if err != nil {
			return 0, failure(err)
		}
		swap := w.member(p, "").Refloor(t, machineid.Drawn())
		if made, err = w.opts.Slots.Swap(ctx, registry(p.Name), swap); err != nil {
			return 0, failure(err)
		}
		floor = swap.NewSet.Floor
	}
	return floor, nil
}
