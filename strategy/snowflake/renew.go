package snowflake

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
)

// hold renews the lease until it is lost or ctx ends.
func (h *holder) hold(ctx context.Context) {
	for pause := h.settings.RenewInterval; h.pause(ctx, pause); {
		err := h.renewOnce(ctx)
		if errors.Is(err, errLost) {
			h.lose(err)
			return
		}
		if err != nil && ctx.Err() != nil {
			return
		}
		if err == nil {
			h.survey(ctx)
			pause = h.settings.RenewInterval
		} else {
			err = h.bridge(err)
			pause = min(h.settings.RenewInterval, h.settings.Horizon/10)
		}
		h.note(err)
	}
}

// bridge bridges a failed renewal. It lets the generator continue on the reservation if there is
// one, and updates the list of biz types in the file. It returns err joined with its own errors.
func (h *holder) bridge(err error) error {
	var aloneErr error
	// Only if the registry cannot be reached: a wrong clock, or a registry that refuses this node,
	// is no reason to issue without it.
	if h.settings.OfflineStart > 0 && callerError(err).Code == seqd.CodeStoreUnavailable {
		aloneErr = h.goAlone()
	}
	return errors.Join(err, aloneErr, h.vouch())
}

// renewOnce extends the lease in the registry, then in the file, then for the generator.
func (h *holder) renewOnce(ctx context.Context) error {
	// an attempt that hangs must leave time for another
	ctx, cancel := context.WithTimeout(ctx, h.settings.Horizon/3)
	defer cancel()
	h.mu.Lock()
	l, progress := h.lease, h.bound
	h.mu.Unlock()
	for {
		t, err := h.prepared(ctx, l.id)
		if err != nil {
			return err
		}
		swap, next, err := h.renew(t, l, h.ms(), progress)
		if errors.Is(err, errLost) {
			h.owed = l
		}
		if err != nil {
			return err
		}
		made, err := h.registry.Swap(ctx, h.name, swap)
		if err != nil {
			return err
		}
		if made {
			if swap.NewSet != nil {
				h.behind(l.id, swap.NewSet.Floor)
			}
			return h.use(next, next.until)
		}
	}
}

// cover raises the floor of a registry above a lease that it does not know any more. It does
// nothing if no lease is owed.
func (h *holder) cover(ctx context.Context) error {
	for h.owed.token != "" {
		t, err := h.prepared(ctx, h.owed.id)
		if err != nil {
			return err
		}
		swap := h.covered(t, h.owed)
		if swap == nil {
			h.owed = lease{}
			return nil
		}
		made, err := h.registry.Swap(ctx, h.name, *swap)
		if err != nil {
			return err
		}
		if made {
			h.behind(h.owed.id, swap.NewSet.Floor)
			h.owed = lease{}
		}
	}
	return nil
}

// behind reports that the registry was put back to an older copy.
func (h *holder) behind(id, floor int64) {
	h.env.Log.Error("the registry of machine IDs was put back to an older copy; new leases begin above everything that it may have granted",
		"registry", h.name, "machineId", id, "from", at(floor+1))
	h.event(seqd.EventStoreBehind, nil)
}

// goAlone lets the generator continue on the reservation if the lease is about to end.
func (h *holder) goAlone() error {
	h.mu.Lock()
	l, bound := h.lease, h.bound
	h.mu.Unlock()
	want := min(h.ms()+h.horizon, l.reserved)
	if want <= bound {
		return nil
	}
	return h.use(l, want)
}

// lose stops issuing at once.
func (h *holder) lose(err error) {
	h.gen.stop(&seqd.Error{Code: seqd.CodeNoMachineID, Detail: "the machine ID was lost; looking for another one", RetryAfter: time.Second, Err: err})
	h.mu.Lock()
	id := h.lease.id
	h.state, h.lease, h.bound = seeking, lease{}, 0
	h.mu.Unlock()
	h.env.Log.Error("the machine ID was lost; nothing is issued until there is another one", "machineId", id, "error", err)
	h.event(seqd.EventMachineIDLost, err)
}
