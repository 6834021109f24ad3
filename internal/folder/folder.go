// Package folder makes folders and names that survive a power loss (a file does only when its name
// does, and the names of its folders), and locks files.
package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrHeld is returned by [Lock] when somebody else has the lock.
var ErrHeld = errors.New("held by another")

// Make is os.MkdirAll that syncs the folder above each new one.
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

// Sync makes what was created, renamed or removed in a folder survive a power loss.
func Sync(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
