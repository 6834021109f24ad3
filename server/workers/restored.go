package workers

import (
	"context"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// Restored does what pools need after a backup of the store was restored: it raises the floor of
// the registry of each pool above all that can have been granted since the backup. It calls tell
// with each pool and what was done for it. It is safe to call again, also while nodes run.
//
// A store does not list registries. So Restored passes over those of pools that the backup has as
// deleted: their floors rise when somebody makes the pool again (SetPool).
//
// A ttl that was raised after the backup is lost with it, and the new floor may be too low. So tell
// says what to do then.
func Restored(ctx context.Context, store persist.Store, cluster string, tell func(pool, done string)) error {
	const page = 100
	for after := ""; ; {
		docs, err := store.Documents().List(ctx, Kind, after, page)
		if err != nil {
			return err
		}
		for _, doc := range docs {
			p, err := readPool(doc)
			if err != nil {
				return err
			}
			set, err := refloor(ctx, store.Slots(), member(p, cluster), p.Name)
			if err != nil {
				return err
			}
			tell(p.Name, "leases that are granted from now on begin at "+admin.Time(set.Floor+1)+
				". If its ttl was longer since the backup, run this again that much later, before you start seqd")
			after = p.Name
		}
		if len(docs) < page {
			return nil
		}
	}
}

// refloor gives the registry of a pool another incarnation, and a floor above all that it can have
// granted. It returns the new bootstrap part.
func refloor(ctx context.Context, slots persist.SlotStore, m *machineid.Member, pool string) (*persist.SlotSet, error) {
	for {
		t, err := slots.Look(ctx, registry(pool), 0) // the bootstrap part is enough
		if err != nil {
			return nil, err
		}
		swap := m.Refloor(t, machineid.Drawn())
		if made, err := slots.Swap(ctx, registry(pool), swap); made || err != nil {
			return swap.NewSet, err
		}
	}
}
