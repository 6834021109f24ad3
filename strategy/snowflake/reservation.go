package snowflake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// reservation continues with what an earlier process reserved, if possible. Without offlineStart it
// invalidates the reservation.
func (h *holder) reservation(ctx context.Context) error {
	if h.settings.OfflineStart == 0 {
		if !h.fromFile {
			return nil
		}
		if err := h.discardFile(); err != nil {
			return fmt.Errorf("%w: offlineStart is off, but an older reservation cannot be removed: %w", errFile, err)
		}
		h.fromFile = false
		return nil
	}
	saved, err := h.openFile()
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

// errFile means that something could not be written to disk before its use.
var errFile = errors.New("the file of the reservation")

// path returns the path of the file.
func (h *holder) path() string { return filepath.Join(h.settings.StateDir, h.fileName) }

// discardFile invalidates the reservation of an earlier process.
func (h *holder) discardFile() error {
	if holders.reserves(h.path()) {
		return nil // it belongs to another holder of this process
	}
	if _, err := os.Lstat(h.path()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := statefile.Open(h.settings.StateDir, h.fileName, h.identity)
	if err != nil {
		return err
	}
	return errors.Join(file.Invalidate(), file.Close())
}

// openFile opens the file and returns its reservation, nil if there is none that can be used.
func (h *holder) openFile() (*statefile.State, error) {
	if h.file == nil {
		file, err := statefile.Open(h.settings.StateDir, h.fileName, h.identity)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errFile, err)
		}
		h.file = file
	}
	saved, err := h.file.Load()
	h.kept = statefile.State{}
	switch {
	case errors.Is(err, statefile.ErrNone):
		return nil, nil
	case errors.Is(err, statefile.ErrForeign) && h.floored, errors.Is(err, statefile.ErrNewer):
		return nil, err // another holder may still need it
	case err == nil && (saved.MachineID < h.member.first || saved.MachineID > h.last):
		err = fmt.Errorf("machine ID %d is not one of those that this node may use, %d to %d", saved.MachineID, h.member.first, h.last)
	}
	if err != nil {
		h.env.Log.Warn("the reservation on disk cannot be used", "error", err)
		return nil, nil
	}
	h.kept = saved
	h.remember(saved.Users)
	if err := h.vouch(); err != nil {
		return nil, err
	}
	return &saved, nil
}

// resume continues with the reservation of an earlier process: with the registry, or without it if
// it cannot be reached.
func (h *holder) resume(ctx context.Context, saved statefile.State) error {
	l := lease{id: saved.MachineID, token: saved.Token, until: saved.Until, reserved: saved.Reserved}
	// above all that the earlier process may have used
	l.lower = max(saved.Lower, saved.Until, saved.Progress)
	t, err := h.prepared(ctx, l.id)
	if err == nil {
		return h.resumeOnline(ctx, t, l)
	}
	if r := callerError(err); r.Code != seqd.CodeStoreUnavailable {
		return err
	}
	now := h.ms()
	if now > l.reserved {
		return fmt.Errorf("%w; the reservation on disk ended at %s", err, at(l.reserved))
	}
	if useErr := h.use(l, max(l.lower, min(now+h.horizon, l.reserved))); useErr != nil {
		return errors.Join(err, useErr)
	}
	h.env.Log.Warn("the registry of machine IDs cannot be asked: this node issues on its reservation", "machineId", l.id, "until", at(l.reserved), "error", err)
	return nil
}

func (h *holder) resumeOnline(ctx context.Context, t persist.SlotTable, l lease) error {
	for {
		swap, next, err := h.renew(t, l, h.ms(), l.lower)
		if errors.Is(err, errLost) {
			h.owed, h.spent = l, spent{l.id, l.lower}
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
		if t, err = h.prepared(ctx, l.id); err != nil {
			return err
		}
	}
}

// keep writes the file.
func (h *holder) keep(s statefile.State) error {
	if err := h.file.Store(s); err != nil {
		return fmt.Errorf("%w: %w", errFile, err)
	}
	h.kept = s
	return nil
}
