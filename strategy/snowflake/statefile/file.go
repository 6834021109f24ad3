package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/seqd/seqd/internal/folder"
)

// File is the state file of one instance, locked by this process. Its methods are safe for
// concurrent use. They run one at a time, and each takes as long as the disk does.
//
// Invariants:
//  1. A file with the name of the state file is complete: it is synced under another name first.
//  2. Under one token until, reserved and progress never decrease, compared with what this File
//     stored or loaded, and with what is on disk.
//  3. After Invalidate nothing is stored under the token that was invalidated.
type File struct {
	path     string
	identity Identity
	// before is called before each step that changes the disk. Tests use it to make the step fail.
	before func(step string) error

	mu       sync.Mutex // guards everything below, and the folder
	root     *os.Root   // nil after Close
	lock     *os.File
	held     os.FileInfo // of the lock file
	last     State       // what may be on disk; the zero State if nothing is known
	looked   bool        // whether last is set
	released string      // the token that was invalidated, or ""
}

// Steps that change the disk, in their order.
const (
	stepWrite    = "write the temporary file"
	stepSync     = "sync the temporary file"
	stepRename   = "rename the temporary file"
	stepSyncDir  = "sync the folder"
	stepTruncate = "truncate the state file"
	stepRemove   = "remove the state file"
)

// Open takes the lock of the state file with the given name, which Name makes, in the folder dir.
// It creates the folder (0700) if necessary, and removes what a crash left behind. It does not read
// the state file.
//
// The errors are ErrInvalid, ErrLocked, which says which process has the lock, and those of the
// file system. On systems on which seqd cannot lock and recognize files (all except Linux and
// macOS) it returns errors.ErrUnsupported.
func Open(dir, name string, identity Identity) (_ *File, err error) {
	if name == "" || name != filepath.Base(name) || !filepath.IsLocal(name) || name == "." {
		return nil, fmt.Errorf("open state file: %w: %q is not the name of a file", ErrInvalid, name)
	}
	f := &File{path: filepath.Join(dir, name), identity: identity, before: func(string) error { return nil }}
	if err := identity.validate(); err != nil {
		return nil, fmt.Errorf("open state file %s: %w", f.path, err)
	}
	if err := folder.Make(filepath.Clean(dir), 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of state file %s: %w", f.path, err)
	}
	if f.root, err = os.OpenRoot(dir); err != nil {
		return nil, fmt.Errorf("open the folder of state file %s: %w", f.path, err)
	}
	if err := f.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("open state file %s: %w", f.path, err), f.Close())
	}
	return f, nil
}

// Peek reads a state file, whose identity is not known, without the lock. The errors are those of
// Load.
func Peek(dir, name string) (Identity, State, error) {
	f := &File{path: filepath.Join(dir, name)}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Identity{}, State{}, fmt.Errorf("read state file %s: %w", f.path, err)
	}
	defer root.Close()
	f.root = root
	r, err := f.read()
	if err != nil {
		return Identity{}, State{}, fmt.Errorf("read state file %s: %w", f.path, err)
	}
	return r.identity, r.state, nil
}

// start takes the lock and cleans up.
func (f *File) start() error {
	if err := f.takeLock(); err != nil {
		return err
	}
	if err := f.root.Remove(f.temporary()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// from here on the lock file and the last rename survive a power loss
	return f.syncDir()
}

// takeLock locks the lock file and writes this process into it.
func (f *File) takeLock() (err error) {
	if f.lock, err = f.root.OpenFile(f.lockName(), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	switch err := folder.Lock(f.lock); {
	case errors.Is(err, folder.ErrHeld):
		return fmt.Errorf("%w: its lock %s is held by %s", ErrLocked, f.path+".lock", holder(f.lock))
	case err != nil:
		return fmt.Errorf("lock %s: %w", f.path+".lock", err)
	}
	if f.held, err = f.lock.Stat(); err != nil {
		return err
	}
	if err := f.stillThere(); err != nil {
		return err
	}
	if err := f.lock.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintf(f.lock, "pid=%d\n", os.Getpid())
	return err
}

// holder returns which process is named in a lock file. A process that just took the lock may not
// be there yet.
func holder(lock *os.File) string {
	text, err := io.ReadAll(io.LimitReader(lock, 64))
	pid, found := strings.CutPrefix(strings.TrimSpace(string(text)), "pid=")
	if err != nil || !found {
		return "another process"
	}
	return "process " + pid
}

// name, lockName and temporary return names of files in the folder. The temporary name is no
// longer than that of the lock, so that Open notices a name that is too long. One temporary name is
// enough, because only one process has the lock.
func (f *File) name() string      { return filepath.Base(f.path) }
func (f *File) lockName() string  { return f.name() + ".lock" }
func (f *File) temporary() string { return f.name() + ".tmp" }

// Load reads the state. The errors are ErrNone, ErrDamaged, ErrForeign, ErrCopied, ErrNewer,
// ErrMoved, ErrClosed, and those of the file system. None of them changes anything on disk.
func (f *File) Load() (State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, err := f.load()
	if err != nil {
		return State{}, fmt.Errorf("load state file %s: %w", f.path, err)
	}
	return s, nil
}

func (f *File) load() (State, error) {
	if err := f.stillThere(); err != nil {
		return State{}, err
	}
	r, err := f.read()
	if err == nil {
		err = f.belongs(&r.identity)
	}
	if err == nil && f.last.Token != "" && f.last != r.state { // nobody else may write it
		err = fmt.Errorf("%w: it does not hold what was stored last, but a lease until %d", ErrCopied, r.state.Until)
	}
	switch {
	case err == nil:
		f.last, f.looked = r.state, true
	case errors.Is(err, ErrNone), errors.Is(err, ErrDamaged), errors.Is(err, ErrForeign), errors.Is(err, ErrCopied), errors.Is(err, ErrNewer):
		// last stays: a file that vanished does not make the times unused
		f.looked = true
	}
	if err != nil {
		return State{}, err
	}
	return r.state, nil
}

// read returns the content of the file if it is in the file to which it was written.
func (f *File) read() (r record, err error) {
	switch info, err := f.root.Lstat(f.name()); {
	case errors.Is(err, fs.ErrNotExist):
		return r, ErrNone
	case err != nil:
		return r, err
	case !info.Mode().IsRegular():
		// a link leads to a file that belongs elsewhere; reading a pipe may never end
		return r, fmt.Errorf("%w: it is not a regular file", ErrDamaged)
	}
	file, err := f.root.Open(f.name())
	if err != nil {
		return r, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return r, err
	}
	if len(text) == 0 { // Invalidate was interrupted; nothing else empties it
		return r, fmt.Errorf("%w: the file is empty", ErrNone)
	}
	if r, err = parse(text); err != nil {
		return r, err
	}
	switch id, names, err := identify(file); {
	case err != nil:
		return r, err
	case !id.is(r.inode):
		return r, fmt.Errorf("%w: it was written as inode %d of device %d, born at %d ns, and is inode %d of device %d, born at %d ns",
			ErrCopied, r.inode.number, r.inode.device, r.inode.born, id.number, id.device, id.born)
	case names != 1:
		return r, fmt.Errorf("%w: it has %d names (hard links)", ErrCopied, names)
	}
	return r, nil
}

// belongs returns ErrForeign if the file was written by another node.
func (f *File) belongs(is *Identity) error {
	switch want := &f.identity; {
	case is.Cluster != want.Cluster:
		return fmt.Errorf("%w: its cluster is %s, this node's is %s", ErrForeign, is.Cluster, want.Cluster)
	case is.Layout != want.Layout:
		return fmt.Errorf("%w: its layout is %q, this node's is %q", ErrForeign, is.Layout, want.Layout)
	case is.Key != want.Key:
		return fmt.Errorf("%w: its key is %q, this node's is %q", ErrForeign, is.Key, want.Key)
	}
	return nil
}

// Store replaces the state, whatever the file contains, including what Load refuses. If it
// succeeds, the state survives a power loss. If it fails, the old state is intact; if only the sync
// of the folder failed or the folder was moved, the file may contain the new state instead, which
// must not be used before a Store succeeds. A Store before the first Load reads the file, because
// some values must not decrease.
//
// The errors are ErrInvalid, ErrLowered, ErrReleased, ErrMoved, ErrClosed, and those of the file
// system. Store may be called again after any of them.
func (f *File) Store(s State) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.store(s); err != nil {
		return fmt.Errorf("store state file %s: %w", f.path, err)
	}
	return nil
}

func (f *File) store(s State) error {
	if err := s.validate(); err != nil {
		return err
	}
	if err := f.stillThere(); err != nil {
		return err
	}
	if !f.looked {
		if _, err := f.load(); !f.looked {
			return err
		}
	}
	if s.Token == f.released {
		return ErrReleased
	}
	if err := goesOn(&f.last, &s); err != nil {
		return err
	}
	if err := f.writeTemporary(s); err != nil {
		return errors.Join(err, f.discard())
	}
	if err := f.before(stepRename); err != nil {
		return errors.Join(err, f.discard())
	}
	if err := f.root.Rename(f.temporary(), f.name()); err != nil {
		return errors.Join(err, f.discard())
	}
	f.last = s // whether or not the rest succeeds
	if err := f.syncDir(); err != nil {
		return err
	}
	return f.stillThere()
}

// goesOn returns ErrLowered if a state does not continue the last one.
func goesOn(last, s *State) error {
	if last.Token != s.Token {
		return nil
	}
	for _, field := range []struct {
		name      string
		from, now int64
	}{{"until", last.Until, s.Until}, {"reserved", last.Reserved, s.Reserved}, {"progress", last.Progress, s.Progress}} {
		if field.now < field.from {
			return fmt.Errorf("%w: %s from %d to %d under one token", ErrLowered, field.name, field.from, field.now)
		}
	}
	return nil
}

// writeTemporary writes a state to a new file. It must be a new one, because copies are recognized
// by their inodes.
func (f *File) writeTemporary(s State) (err error) {
	if err := f.before(stepWrite); err != nil {
		return err
	}
	if err := f.discard(); err != nil { // of a Store that failed and could not remove it
		return err
	}
	file, err := f.root.OpenFile(f.temporary(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	r := record{identity: f.identity, state: s}
	if r.inode, _, err = identify(file); err != nil {
		return err
	}
	if _, err := file.Write(r.encode()); err != nil {
		return err
	}
	if err := f.before(stepSync); err != nil {
		return err
	}
	return file.Sync()
}

// discard removes the temporary file.
func (f *File) discard() error {
	if err := f.root.Remove(f.temporary()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Invalidate makes Load return ErrNone, whatever the file contains. If it succeeds, that survives a
// power loss. If it fails, Load returns ErrNone or what it returned before, nothing is stored under
// the token, and Invalidate may be called again. The errors are ErrMoved, ErrClosed, and those of
// the file system. It needs no space on disk.
//
// It empties the file before it removes it, so that the file stays worthless if the folder reverts,
// and under its other names too.
func (f *File) Invalidate() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.invalidate(); err != nil {
		return fmt.Errorf("invalidate state file %s: %w", f.path, err)
	}
	return nil
}

func (f *File) invalidate() error {
	if err := f.stillThere(); err != nil {
		return err
	}
	if !f.looked {
		_, _ = f.load() // for its token; what cannot be read is removed too
	}
	if f.last.Token != "" { // first, because the caller's intention holds even if this fails half-way
		f.released = f.last.Token
	}
	switch info, err := f.root.Lstat(f.name()); {
	case errors.Is(err, fs.ErrNotExist):
		return f.syncDir() // an earlier call may have failed just there
	case err != nil:
		return err
	case info.Mode().IsRegular():
		if err := f.empty(); err != nil {
			return err
		}
	}
	if err := f.before(stepRemove); err != nil {
		return err
	}
	if err := f.root.Remove(f.name()); err != nil {
		return err
	}
	if err := f.syncDir(); err != nil {
		return err
	}
	return f.stillThere()
}

// empty truncates the state file.
func (f *File) empty() error {
	if err := f.before(stepTruncate); err != nil {
		return err
	}
	file, err := f.root.OpenFile(f.name(), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Close releases the lock. The state stays. Further calls do nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.root == nil {
		return nil
	}
	var err error
	if f.lock != nil {
		if f.held != nil {
			err = f.lock.Truncate(0) // while we have the lock: nobody should be told of a process that has ended
		}
		err = errors.Join(err, f.lock.Close())
	}
	err = errors.Join(err, f.root.Close())
	f.root, f.lock = nil, nil
	if err != nil {
		return fmt.Errorf("close state file %s: %w", f.path, err)
	}
	return nil
}

// stillThere returns an error if another process may have the lock.
func (f *File) stillThere() error {
	if f.root == nil {
		return ErrClosed
	}
	info, err := os.Stat(f.path + ".lock")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(info, f.held) {
		return fmt.Errorf("%w: %s", ErrMoved, f.path+".lock")
	}
	return nil
}

func (f *File) syncDir() error {
	if err := f.before(stepSyncDir); err != nil {
		return err
	}
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
