package snowflake

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/snowflake/redisslots"
)

// attempt limits the duration of one read and one change of the registry.
const attempt = 5 * time.Second

// look reads the registry. It returns an error if the clocks are too far apart.
func (h *holder) look(ctx context.Context, ids ...int64) (persist.SlotTable, error) {
	before := h.ms()
	t, err := h.registry.Look(ctx, h.name, ids...)
	if err != nil {
		return t, err
	}
	after := h.ms()
	h.compared(before, after, t)
	if len(ids) == 0 {
		h.counted(t)
	}
	return t, h.skewed(before, after, t)
}

// prepared reads the registry after making the changes that its bootstrap part needs.
func (h *holder) prepared(ctx context.Context, ids ...int64) (persist.SlotTable, error) {
	for {
		t, err := h.look(ctx, ids...)
		if err == nil && t.Set == nil {
			t, err = h.look(ctx) // without a bootstrap part, only all slots show whether the registry is new
		}
		if err != nil {
			return t, err
		}
		swap, err := h.prepare(t)
		if err != nil || swap == nil {
			return t, err
		}
		made, err := h.registry.Swap(ctx, h.name, *swap)
		if err != nil {
			return t, err
		}
		if made && swap.NewSet.Floor > 0 {
			h.env.Log.Warn("the registry of machine IDs is new or may have lost something: leases begin later, except those that have not ended",
				"registry", h.name, "from", at(swap.NewSet.Floor+1))
		}
	}
}

// seek gets a machine ID: the one reserved in the file, else a free one.
func (h *holder) seek(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if h.check != nil {
		if err := h.check(ctx); errors.Is(err, redisslots.ErrUnfit) || err != nil && h.settings.OfflineStart == 0 {
			return err
		}
	}
	if err := h.reservation(ctx); err != nil || h.held() {
		return err
	}
	if err := h.cover(ctx); err != nil {
		return err
	}
	for {
		t, err := h.prepared(ctx)
		if err != nil {
			return err
		}
		swap, l, err := h.next(t)
		if err != nil {
			return err
		}
		// If the swap renews the pending lease, its outcome is unknown for now: keep the lease that
		// is known.
		if l.token != h.pending.token {
			h.pending = l
		}
		made, err := h.registry.Swap(ctx, h.name, swap)
		if err != nil {
			return err
		}
		if made {
			return h.use(l, l.until)
		}
	}
}

// next returns the change that continues with the pending lease if it is on record, else the one
// that leases a free machine ID.
func (h *holder) next(t persist.SlotTable) (persist.SlotSwap, lease, error) {
	if h.pending.token != "" {
		if swap, l, err := h.renew(t, h.pending, h.ms(), 0); err == nil {
			return swap, l, nil
		}
	}
	return h.acquire(t, h.ms())
}
