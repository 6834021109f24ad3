//go:build !linux

package doctor

import (
	"errors"
	"os"
)

func disk(string) (Disk, error) { return Disk{}, errors.ErrUnsupported }

func synchronised() (yes, known bool) { return false, false }

// writable looks at the mode only; the system may still refuse.
func writable(folder string) bool {
	info, err := os.Stat(folder)
	return err == nil && info.Mode().Perm()&0o200 != 0
}
