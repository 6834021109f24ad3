package snowflake

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/seqd/seqd/strategy/snowflake/machineid"
	"github.com/seqd/seqd/strategy/snowflake/statefile"
)

// leaseFile is the file in which a holder keeps its lease with offlineStart. Only the run goroutine
// of the holder uses it, except path and strike.
type leaseFile struct {
	dir, name string
	identity  statefile.Identity
	users     *users
	log       *slog.Logger

	handle *statefile.File // nil without offlineStart
	kept   statefile.State // the content of the file, the zero State if it is useless
}

// errFile means that something could not be written to disk before its use.
var errFile = errors.New("the file of the reservation")

// path returns the path of the file.
func (f *leaseFile) path() string { return filepath.Join(f.dir, f.name) }

// discard invalidates the reservation of an earlier process.
func (f *leaseFile) discard() error {
	if f.dir == "" || holders.reserves(f.path()) {
		return nil // there is none, or it belongs to another holder of this process
	}
	if _, err := os.Lstat(f.path()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := statefile.Open(f.dir, f.name, f.identity)
	if err != nil {
		return err
	}
	return errors.Join(file.Invalidate(), file.Close())
}

// open opens the file and returns its reservation, nil if there is none that m can use.
func (f *leaseFile) open(m *machineid.Member) (*statefile.State, error) {
	if f.handle == nil {
		file, err := statefile.Open(f.dir, f.name, f.identity)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errFile, err)
		}
		f.handle = file
	}
	saved, err := f.handle.Load()
	f.kept = statefile.State{}
	switch {
	case errors.Is(err, statefile.ErrNone):
		return nil, nil
	case errors.Is(err, statefile.ErrForeign) && m.Floored, errors.Is(err, statefile.ErrNewer):
		return nil, err // another holder may still need it
	case err == nil && (saved.MachineID < m.First || saved.MachineID > m.Last):
		err = fmt.Errorf("machine ID %d is not one of those that this node may use, %d to %d", saved.MachineID, m.First, m.Last)
	}
	if err != nil {
		f.log.Warn("the reservation on disk cannot be used", "error", err)
		return nil, nil
	}
	f.kept = saved
	f.users.remember(saved.Users)
	if err := f.vouch(); err != nil {
		return nil, err
	}
	return &saved, nil
}

// use records that a lease may be used up to bound. It does nothing without offlineStart.
func (f *leaseFile) use(l machineid.Lease, bound int64) error {
	if f.handle == nil {
		return nil
	}
	// After an offline start the interval begins above until. Progress, which is never below lower,
	// records that.
	return f.keep(statefile.State{
		MachineID: l.ID, Token: l.Token, Lower: min(l.Lower, l.Until), Until: l.Until, Reserved: l.Reserved, Progress: max(bound, l.Until),
		Users: f.users.names(),
	})
}

// keep writes the file.
func (f *leaseFile) keep(s statefile.State) error {
	if err := f.handle.Store(s); err != nil {
		return fmt.Errorf("%w: %w", errFile, err)
	}
	f.kept = s
	return nil
}

// invalidate makes the reservation useless. It does nothing without offlineStart.
func (f *leaseFile) invalidate() error {
	if f.handle == nil {
		return nil
	}
	f.kept = statefile.State{}
	return f.handle.Invalidate()
}

// disown gives the reservation a token that no registry knows, because the store names another
// registry than the one that granted it. So no later process renews it there while the store is away.
// What was used and reserved stays.
func (f *leaseFile) disown() error {
	s := f.kept
	if s.Token == "" {
		return nil
	}
	s.Token = machineid.Drawn()
	return f.keep(s)
}

// strike rewrites the list in the file while the holder is not running.
func (f *leaseFile) strike() (err error) {
	if _, err := os.Lstat(f.path()); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	file, err := statefile.Open(f.dir, f.name, f.identity)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	saved, err := file.Load()
	if err != nil {
		return nil // nobody can start from it
	}
	f.users.remember(saved.Users)
	saved.Users = f.users.names()
	return file.Store(saved)
}

// vouch updates the list in the file and changes nothing else there.
func (f *leaseFile) vouch() error {
	s := f.kept
	if s.Users = f.users.names(); s.Token == "" || s.Users == f.kept.Users {
		return nil
	}
	return f.keep(s)
}
