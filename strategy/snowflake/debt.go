package snowflake

import (
	"context"

	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// debt is what a holder owes the registry. Only the run goroutine of the holder uses it.
type debt struct {
	registry *slotRegistry
	// owed is a lease that was granted and is not on record any more. The holder raises the floor
	// of the registry above it before it does anything else there.
	owed machineid.Lease
}

// cover raises the floor of a registry above a lease that it does not know any more. It does
// nothing if no lease is owed.
func (d *debt) cover(ctx context.Context) error {
	for d.owed.Token != "" {
		t, err := d.registry.prepared(ctx, d.owed.ID)
		if err != nil {
			return err
		}
		swap := d.registry.Covered(t, d.owed)
		if swap == nil {
			d.owed = machineid.Lease{}
			return nil
		}
		made, err := d.registry.swap(ctx, *swap)
		if err != nil {
			return err
		}
		if made {
			d.registry.behind(d.owed.ID, swap.NewSet.Floor)
			d.owed = machineid.Lease{}
		}
	}
	return nil
}

// coverLast tries once to raise the floor above an owed lease.
func (d *debt) coverLast() {
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	if err := d.cover(ctx); err != nil {
		d.registry.env.Log.Error("the registry of machine IDs does not know a lease that it granted, and could not be told to grant only later times; if it was put back to an older copy, run seqd restored",
			"registry", d.registry.name, "machineId", d.owed.ID, "until", at(max(d.owed.Until, d.owed.Reserved)), "error", err)
	}
}
