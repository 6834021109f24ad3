package snowflake

import (
	"context"
	"errors"

	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// release releases the machine ID. The order matters: first issuing stops, then the file is
// invalidated, then the registry lets others continue above the last time. If the registry cannot
// be reached, the file stays, because the next start may need it.
func (h *holder) release() {
	last := h.gen.stop(errStopping)
	if h.file != nil {
		defer func() { _ = h.file.Close() }() // the process is about to end
		if err := h.vouch(); err != nil {
			h.env.Log.Error("the file of the reservation still lists biz types that it must not", "error", err)
		}
	}
	h.mu.Lock()
	l := h.lease
	h.mu.Unlock()
	granted := l.token != "" // a pending lease may never have been granted
	if !granted {
		l = h.pending
	}
	if l.token == "" {
		h.coverLast()
		return
	}
	err := h.giveUp(l, last)
	if granted && errors.Is(err, errLost) {
		h.owed = l
		h.coverLast()
	}
	if err != nil {
		h.env.Log.Warn("the machine ID could not be released; it stays taken until its lease ends", "machineId", l.id, "until", at(max(l.until, l.reserved)), "error", err)
	}
}

// coverLast tries once to raise the floor above an owed lease.
func (h *holder) coverLast() {
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	if err := h.cover(ctx); err != nil {
		h.env.Log.Error("the registry of machine IDs does not know a lease that it granted, and could not be told to grant only later times; if it was put back to an older copy, run seqd restored",
			"registry", h.name, "machineId", h.owed.id, "until", at(max(h.owed.until, h.owed.reserved)), "error", err)
	}
}

func (h *holder) giveUp(l lease, last int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), attempt)
	defer cancel()
	for first := true; ; first = false {
		t, err := h.registry.Look(ctx, h.name, l.id)
		if err != nil {
			return err
		}
		if first && h.file != nil {
			h.kept = statefile.State{}
			if err := h.file.Invalidate(); err != nil {
				return err
			}
		}
		swap, err := h.member.release(t, l, last)
		if err != nil {
			return err
		}
		if made, err := h.registry.Swap(ctx, h.name, swap); made || err != nil {
			return err
		}
	}
}
