package snowflake

import (
	"context"
	"errors"
	"fmt"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// reservation continues with what an earlier process reserved, if possible. Without offlineStart it
// invalidates the reservation.
func (h *holder) reservation(ctx context.Context) error {
	if h.settings.OfflineStart == 0 {
		if !h.fromFile {
			return nil
		}
		if err := h.file.discard(); err != nil {
			return fmt.Errorf("%w: offlineStart is off, but an older reservation cannot be removed: %w", errFile, err)
		}
		h.fromFile = false
		return nil
	}
	saved, err := h.file.open(&h.registry.member)
	if err != nil || saved == nil || !h.fromFile {
		return err
	}
	if err := h.resume(ctx, *saved); !errors.Is(err, errLost) {
		return err
	}
	// remember that it is lost, even if the registry cannot be reached next time
	h.fromFile = false
	return nil
}

// resume continues with the reservation of an earlier process: with the registry, or without it if
// it cannot be reached.
func (h *holder) resume(ctx context.Context, saved statefile.State) error {
	l := lease{id: saved.MachineID, token: saved.Token, until: saved.Until, reserved: saved.Reserved}
	// above all that the earlier process may have used
	l.lower = max(saved.Lower, saved.Until, saved.Progress)
	err := h.extend(ctx, l, l.lower)
	if errors.Is(err, errLost) {
		h.registry.spent = spent{l.id, l.lower}
		return err
	}
	if err == nil || callerError(err).Code != seqd.CodeStoreUnavailable {
		return err
	}
	now := h.env.ms()
	if now > l.reserved {
		return fmt.Errorf("%w; the reservation on disk ended at %s", err, at(l.reserved))
	}
	if useErr := h.use(l, max(l.lower, min(now+h.registry.horizon, l.reserved))); useErr != nil {
		return errors.Join(err, useErr)
	}
	h.env.Log.Warn("the registry of machine IDs cannot be asked: this node issues on its reservation", "machineId", l.id, "until", at(l.reserved), "error", err)
	return nil
}
