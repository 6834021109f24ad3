package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seqd/seqd/persist"
)

// openFile opens the data file under an exclusive lock, creating it first when it does not exist.
func openFile(opts Options) (*bbolt.DB, error) {
	dir := filepath.Dir(opts.Path)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create the data folder: %w", outOfSpace(err))
	}
	switch info, err := os.Stat(opts.Path); {
	case errors.Is(err, fs.ErrNotExist):
		if err := create(opts.Path); err != nil {
			return nil, fmt.Errorf("create store file %s: %w", opts.Path, outOfSpace(err))
		}
	case err != nil:
		return nil, fmt.Errorf("open store file %s: %w", opts.Path, err)
	case info.Size() == 0:
		return nil, fmt.Errorf("open store file %s: it is empty, which seqd never leaves behind, so its numbers were lost: "+
			"restore a backup, or remove the file to start from the beginning", opts.Path)
	}
	db, err := bbolt.Open(opts.Path, 0o600, &bbolt.Options{
		Timeout:      opts.LockTimeout,
		FreelistType: bbolt.FreelistMapType,
		// Without O_CREATE: a file that vanished since must not come back empty.
		OpenFile: func(name string, flag int, perm os.FileMode) (*os.File, error) {
			return os.OpenFile(name, flag&^os.O_CREATE, perm)
		},
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("open store file %s: another process is using it (waited %s for its lock)", opts.Path, opts.LockTimeout)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, fmt.Errorf("open store file %s: it is damaged or not a store of seqd: %w", opts.Path, err)
	case err != nil:
		return nil, fmt.Errorf("open store file %s: %w", opts.Path, outOfSpace(err))
	}
	// The name must survive a power loss before any number does.
	if err := syncDir(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("sync data folder %s: %w", dir, err), db.Close())
	}
	return db, nil
}

// create makes a complete store under a temporary name and then links it into place. So a crash or a full disk in between
// leaves nothing that looks like a store, and of two processes that create at once exactly one wins (a rename would put the
// loser's file over the winner's, which then issues from a file without a name).
func create(path string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	if err := tmp.Close(); err != nil {
		return err
	}
	db, err := bbolt.Open(tmp.Name(), 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{metaBucket, countersBucket, shapesBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(metaBucket).Put(formatKey, formatValue(persist.FormatVersion))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// outOfSpace marks a lack of space, which can pass without anybody touching seqd, as persist.ErrUnavailable.
func outOfSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
	}
	return err
}
