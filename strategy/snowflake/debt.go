package snowflake

import "context"

// debt is what a holder owes the registry. Only the run goroutine of the holder uses it.
type debt struct {
	registry *slotRegistry
	// owed is a lease that was granted and is not on record any more. The holder raises the floor
	// of the registry above it before it does anything else there.
	owed lease
}

// cover raises the floor of a registry above a lease that it does not know any more. It does
// nothing if no lease is owed.
func (d *debt) cover(ctx context.Context) error {
	for d.owed.token != "" {
		t, err := d.registry.prepared(ctx, d.owed.id)
		if err != nil {
			return err
		}
		swap := d.registry.covered(t, d.owed)
		if swap == nil {
			d.owed = lease{}
			return nil
		}
		made, err := d.registry.swap(ctx, *swap)
		if err != nil {
			return err
		}
		if made {
			d.registry.behind(d.owed.id, swap.NewSet.Floor)
			d.owed = lease{}
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
			"registry", d.registry.name, "machineId", d.owed.id, "until", at(max(d.owed.until, d.owed.reserved)), "error", err)
	}
}
