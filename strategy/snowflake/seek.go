package snowflake

import (
	"context"
	"errors"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
)

// seek gets a machine ID: the one reserved in the file, else a free one.
func (h *holder) seek(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if h.registry.check != nil {
		if err := h.registry.check(ctx); errors.Is(err, redisslots.ErrUnfit) || err != nil && h.settings.OfflineStart == 0 {
			return err
		}
	}
	if err := h.reservation(ctx); err != nil || h.tenure.held() {
		return err
	}
	if err := h.debt.cover(ctx); err != nil {
		return err
	}
	for {
		t, err := h.registry.prepared(ctx)
		if err != nil {
			return err
		}
		swap, l, err := h.next(t)
		if err != nil {
			return err
		}
		// If the swap renews the pending lease, its outcome is unknown for now: keep the lease that
		// is known.
		if l.Token != h.pending.Token {
			h.pending = l
		}
		made, err := h.registry.swap(ctx, swap)
		if err != nil {
			return err
		}
		if made {
			return h.use(l, l.Until)
		}
	}
}

// next returns the change that continues with the pending lease if it is on record, else the one
// that leases a free machine ID.
func (h *holder) next(t persist.SlotTable) (persist.SlotSwap, machineid.Lease, error) {
	if h.pending.Token != "" {
		if swap, l, err := h.registry.Renew(t, h.pending, h.env.ms(), 0); err == nil {
			return swap, l, nil
		}
	}
	return h.registry.Acquire(t, h.env.ms())
}
