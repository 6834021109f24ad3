package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seqd/seqd/internal/folder"
	"github.com/seqd/seqd/persist"
)

// opened is a data file that this process has locked.
type opened struct {
	path    string
	db      *bbolt.DB
	file    os.FileInfo // of the file itself: its name may lead to another one by now
	created bool
	guard   *guard
	settled *settled
	wrote   func(took time.Duration) // Synced of [Options]
}

// openFile opens a data file under an exclusive lock, creating it first if it does not exist.
func openFile(opts Options) (o opened, err error) {
	o.path, o.wrote, o.guard = opts.Path, opts.Synced, &guard{path: opts.Path, advice: opts.content.advice}
	dir := filepath.Dir(opts.Path)
	if err := folder.Make(dir, 0o750); err != nil {
		return o, fmt.Errorf("create the data folder for %s: %w", opts.Path, outOfSpace(err))
	}
	switch info, err := os.Stat(opts.Path); {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(opts); err != nil {
			return o, fmt.Errorf("create store file %s: %w", opts.Path, outOfSpace(err))
		}
		o.created = true
	case err != nil:
		return o, fmt.Errorf("open store file %s: %w", opts.Path, err)
	case info.Size() == 0:
		return o, fmt.Errorf("open store file %s: it is empty, which seqd never leaves behind, so its numbers were lost: "+
			"restore a backup, or remove the file to start from the beginning", opts.Path)
	}
	o.db, err = openBolt(opts, &o.file)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return o, fmt.Errorf("open store file %s: another process is using it (waited %s for its lock)", opts.Path, opts.LockTimeout)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrInvalidMapping), errors.Is(err, errPanicked):
		return o, fmt.Errorf("open store file %s: it is damaged or not a store of seqd: %w", opts.Path, err)
	case err != nil:
		return o, fmt.Errorf("open store file %s: %w", opts.Path, outOfSpace(err))
	}
	// The name must survive a power loss before any number is issued, and so must what a process
	// that was killed had not synced: it can be read.
	if err := errors.Join(folder.Sync(dir), o.db.Sync()); err != nil {
		return o, errors.Join(fmt.Errorf("sync data folder %s: %w", dir, err), o.db.Close())
	}
	o.settled = newSettled(&o)
	return o, nil
}

// openBolt opens the file with bbolt.
func openBolt(opts Options, file *os.FileInfo) (db *bbolt.DB, err error) {
	err = guarded(func() (err error) {
		db, err = bbolt.Open(opts.Path, 0o600, &bbolt.Options{
			Timeout:      opts.LockTimeout,
			FreelistType: bbolt.FreelistMapType,
			NoSync:       opts.noSync,
			OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
				// Without O_CREATE: a file that was removed meanwhile must not come back empty.
				f, err := os.OpenFile(name, flag&^os.O_CREATE, perm)
				if err != nil {
					return nil, err
				}
				// Before bbolt waits for the lock: the name may lead to another file afterwards.
				*file, err = f.Stat()
				return f, err
			},
		})
		return err
	})
	return db, err
}

// create makes a complete store under a temporary name and then links it into place. So a crash or
// a full disk leaves nothing that looks like a store, and of two processes that create at once
// exactly one wins. With a rename the loser's file would replace the winner's, which would then
// issue from a file without a name.
func create(opts Options) error {
	tmp, err := os.CreateTemp(filepath.Dir(opts.Path), filepath.Base(opts.Path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err := tmp.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(tmp.Name(), 0o600, &bbolt.Options{NoSync: opts.noSync})
	if err == nil {
		err = errors.Join(db.Update(opts.content.write), db.Close())
	}
	if err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), opts.Path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// write makes the buckets of a new file.
func (c content) write(tx *bbolt.Tx) error {
	for _, name := range append(c.buckets, metaBucket) {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return tx.Bucket(metaBucket).Put(formatKey, formatValue(c.format))
}

// noSpace reports whether an error says that there is no space left, which can pass.
func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// outOfSpace marks a lack of space as persist.ErrUnavailable.
func outOfSpace(err error) error {
	if noSpace(err) {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	return err
}
