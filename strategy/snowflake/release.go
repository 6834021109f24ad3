package snowflake

import (
	"context"
	"errors"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// release releases the machine ID. The order matters: first issuing stops, then the file is
// invalidated, then the registry lets others continue above the last time. If the registry cannot
// be reached, the file stays, because the next start may need it.
func (h *holder) release() {
	last := h.tenure.gen.stop(errStopping)
	if h.file.handle != nil {
		defer func() { _ = h.file.handle.Close() }() // the process is about to end
		if err := h.file.vouch(); err != nil {
			h.env.Log.Error("the file of the reservation still lists biz types that it must not", "error", err)
		}
	}
	_, l, _ := h.tenure.now()
	granted := l.Token != "" // a pending lease may never have been granted
	if !granted {
		l = h.pending
	}
	if l.Token == "" {
		h.debt.coverLast()
		return
	}
	err := h.giveUp(l, last)
	if granted && errors.Is(err, machineid.ErrLost) {
		h.debt.owed = l
		h.debt.coverLast()
	}
	if err != nil {
		h.env.Log.Warn("the machine ID could not be released; it stays taken until its lease ends", "machineId", l.ID, "until", at(max(l.Until, l.Reserved)), "error", err)
	}
}

// giveUp invalidates the file and removes the lease from the registry.
func (h *holder) giveUp(l machineid.Lease, last int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	for first := true; ; first = false {
		t, err := h.registry.slots.Look(ctx, h.registry.name, l.ID)
		if err != nil {
			return err
		}
		if first {
			if err := h.file.invalidate(); err != nil {
				return err
			}
		}
		swap, err := h.registry.Release(t, l, last)
		if err != nil {
			return err
		}
		if made, err := h.registry.swap(ctx, swap); made || err != nil {
			return err
		}
	}
}
