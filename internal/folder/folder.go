// Package folder creates folders and names that survive a power loss, and locks files. A file
// survives only if its name and the names of its folders do.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrHeld is returned by [Lock] if another holder has the lock.
var ErrHeld = errors.New("held by another")

// Make is like [os.MkdirAll], and syncs the parent of each new folder.
func Make(dir string, mode fs.FileMode) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := filepath.Dir(dir)
	if above == dir {
		return fmt.Errorf("%s: %w", dir, fs.ErrNotExist)
	}
	if err := Make(above, mode); err != nil {
		return err
	}
	if err := os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return Sync(above)
}

// Sync makes the names in a folder durable: what was created, renamed or removed there.
func Sync(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
