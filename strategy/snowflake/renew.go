package snowflake

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// hold renews the lease until it is lost or ctx ends.
func (h *holder) hold(ctx context.Context) {
	for pause := h.settings.RenewInterval; h.pause(ctx, pause); {
		err := h.renewOnce(ctx)
		if errors.Is(err, machineid.ErrLost) || errors.Is(err, errUnnamed) {
			h.lose(err)
			return
		}
		if err != nil && ctx.Err() != nil {
			return
		}
		if err == nil {
			if h.putRight(ctx) {
				h.moveOn()
				return
			}
			h.registry.survey(ctx)
			pause = h.settings.RenewInterval
		} else {
			err = h.bridge(err)
			pause = min(h.settings.RenewInterval, h.settings.Horizon/10)
		}
		h.tenure.note(err)
	}
}

// bridge bridges a failed renewal. It lets the generator continue on the reservation if there is
// one, and updates the list of biz types in the file. It returns err joined with its own errors.
func (h *holder) bridge(err error) error {
	var aloneErr error
	// Only if the registry cannot be reached: a wrong clock, or a registry that refuses this node,
	// is no reason to issue without it.
	if h.settings.OfflineStart != 0 && callerError(err).Code == seqd.CodeStoreUnavailable {
		aloneErr = h.goAlone()
	}
	return errors.Join(err, aloneErr, h.file.vouch())
}

// renewOnce extends the lease that is held.
func (h *holder) renewOnce(ctx context.Context) error {
	// an attempt that hangs must leave time for another
	ctx, cancel := context.WithTimeout(ctx, h.settings.Horizon/3)
	defer cancel()
	_, l, progress := h.tenure.now()
	return h.extend(ctx, l, progress)
}

// extend extends a lease in the registry, then in the file, then for the generator. progress is the
// highest time that may have been used already.
func (h *holder) extend(ctx context.Context, l machineid.Lease, progress int64) error {
	for {
		t, err := h.registry.prepared(ctx, l.ID)
		if err != nil {
			return err
		}
		swap, next, err := h.registry.Renew(t, l, h.env.ms(), progress)
		if errors.Is(err, machineid.ErrLost) {
			h.debt.owed = l
		}
		if err != nil {
			return err
		}
		made, err := h.registry.swap(ctx, swap)
		if err != nil {
			return err
		}
		if made {
			if swap.NewSet != nil {
				h.registry.behind(l.ID, swap.NewSet.Floor)
			}
			return h.use(next, next.Until)
		}
	}
}

// goAlone lets the generator continue on the reservation if the lease is about to end.
func (h *holder) goAlone() error {
	_, l, bound := h.tenure.now()
	want := min(h.env.ms()+h.registry.Horizon, l.Reserved)
	if want <= bound {
		return nil
	}
	return h.use(l, want)
}

// lose stops issuing at once.
func (h *holder) lose(err error) {
	h.tenure.gen.stop(&seqd.Error{Code: seqd.CodeNoMachineID, Detail: "the machine ID was lost; looking for another one", RetryAfter: time.Second, Err: err})
	id := h.tenure.clear()
	h.env.Log.Error("the machine ID was lost; nothing is issued until there is another one", "machineId", id, "error", err)
	h.env.event(seqd.EventMachineIDLost, err)
	if errors.Is(err, errUnnamed) {
		if err := h.file.disown(); err != nil {
			h.env.Log.Error("the reservation can still be renewed in a registry that the store does not name: remove the file of the reservation before the next start", "error", err)
		}
	}
}
