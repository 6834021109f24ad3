package snowflake

import (
	"context"
	"errors"
	"fmt"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
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
	saved, err := h.file.open(&h.registry.Member)
	if err != nil || saved == nil || !h.fromFile {
		return err
	}
	err = h.resume(ctx, *saved)
	elsewhere := errors.Is(err, errUnnamed)
	if !elsewhere && !errors.Is(err, machineid.ErrLost) {
		return err
	}
	// remember that, even if the registry or the store cannot be reached next time
	h.fromFile = false
	if elsewhere {
		return h.file.disown()
	}
	return nil
}

// resume continues with the reservation of an earlier process: with the registry, or without it if
// it cannot be reached.
func (h *holder) resume(ctx context.Context, saved statefile.State) error {
	l := machineid.Lease{ID: saved.MachineID, Token: saved.Token, Until: saved.Until, Reserved: saved.Reserved}
	// above all that the earlier process may have used
	l.Lower = max(saved.Lower, saved.Until, saved.Progress)
	err := h.extend(ctx, l, l.Lower)
	if errors.Is(err, machineid.ErrLost) || errors.Is(err, errUnnamed) {
		h.registry.Spent = machineid.Spent{ID: l.ID, Until: l.Lower}
		return err
	}
	if err == nil || callerError(err).Code != seqd.CodeStoreUnavailable {
		return err
	}
	now := h.env.ms()
	if now > l.Reserved {
		return fmt.Errorf("%w; the reservation on disk ended at %s", err, at(l.Reserved))
	}
	if useErr := h.use(l, max(l.Lower, min(now+h.registry.Horizon, l.Reserved))); useErr != nil {
		return errors.Join(err, useErr)
	}
	h.env.Log.Warn("the registry of machine IDs cannot be asked: this node issues on its reservation", "machineId", l.ID, "until", at(l.Reserved), "error", err)
	return nil
}
