package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/folder"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/driver"
)

// compactSuffix is appended to the name of a file for its compacted copy.
const compactSuffix = ".compact"

// compactBatch is how many bytes are copied in one transaction.
const compactBatch = 16 << 20

// compactFile replaces the store's file, and that of the history if there is one, by copies without
// free pages. Other processes are kept out meanwhile. It returns what it did, even with an error.
//
// A crash at any moment leaves the whole old file or the whole new one, and maybe a file whose name
// ends in ".compact", which the next call replaces.
func compactFile(opts Options) (done []driver.Compacted, err error) {
	files := []struct {
		suffix  string
		content content
	}{{"", storeContent()}, {historySuffix, historyContent()}}
	for _, file := range files {
		of := opts
		of.Path, of.content = opts.Path+file.suffix, file.content
		if _, err := os.Stat(of.Path); file.suffix != "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		one, err := compact(of, func(string) {})
		if err != nil {
			return done, fmt.Errorf("compact %s: %w", of.Path, err)
		}
		done = append(done, one)
	}
	return done, nil
}

// compact compacts one file. It calls reached after each step.
func compact(opts Options, reached func(step string)) (done driver.Compacted, err error) {
	done.Path = opts.Path
	if opts.Path, err = filepath.EvalSymlinks(opts.Path); err != nil { // a link stays a link
		return done, err
	}
	old, err := openFile(opts)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, old.close()) }()
	if err := errors.Join(guarded(func() error { return old.check(opts.content) }), old.stillThere()); err != nil {
		return done, err
	}
	info, err := os.Stat(opts.Path)
	if err != nil {
		return done, err
	}
	done.Before = info.Size()
	temporary := opts.Path + compactSuffix
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary) // err says more
		}
	}()
	reached("opened")
	if err := copyTo(temporary, &old, info); err != nil {
		return done, outOfSpace(err)
	}
	reached("copied")
	if done.Records, err = sameRecords(temporary, &old); err != nil {
		return done, err
	}
	reached("checked")
	info, err = os.Stat(temporary)
	if err := errors.Join(err, old.stillThere()); err != nil {
		return done, err
	}
	done.After = info.Size()
	if err := os.Rename(temporary, opts.Path); err != nil {
		return done, err
	}
	reached("renamed")
	return done, folder.Sync(filepath.Dir(opts.Path))
}

// copyTo writes all records to a new file, durably, with the mode and owner of the old one.
func copyTo(path string, old *opened, info fs.FileInfo) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = old.guard.run(func() error { return bbolt.Compact(db, old.db, compactBatch) })
	// Both meta pages must point to all of it: if the newer one is damaged, bbolt opens the older.
	for range 2 {
		if err == nil {
			err = db.Update(func(*bbolt.Tx) error { return nil })
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Chmod(info.Mode().Perm()), keepOwner(file, info), file.Sync(), file.Close())
}

// sameRecords returns how many records a file has, or an error if they differ from those of the old
// file.
func sameRecords(path string, old *opened) (records int, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = old.view(context.Background(), func(before *bbolt.Tx) error {
		return guarded(func() error {
			return db.View(func(after *bbolt.Tx) error {
				records, err = equal(before.Cursor().Bucket(), after.Cursor().Bucket())
				return err
			})
		})
	})
	return records, err
}

// equal returns how many records two equal buckets have, nested buckets included, or an error if
// they differ.
func equal(a, b *bbolt.Bucket) (records int, err error) {
	inA, inB := a.Cursor(), b.Cursor()
	keyA, valueA := inA.First()
	keyB, valueB := inB.First()
	for keyA != nil || keyB != nil {
		if !bytes.Equal(keyA, keyB) || !bytes.Equal(valueA, valueB) || (valueA == nil) != (valueB == nil) {
			return records, fmt.Errorf("%w: the new file differs from the old one at %.100q and %.100q; the old one stays", persist.ErrInvalid, keyA, keyB)
		}
		if valueA == nil {
			n, err := equal(a.Bucket(keyA), b.Bucket(keyB))
			if err != nil {
				return records, err
			}
			records += n
		} else {
			records++
		}
		keyA, valueA = inA.Next()
		keyB, valueB = inB.Next()
	}
	return records, nil
}
