//go:build !linux

package doctor

import (
	"errors"
	"os"
)

func disk(string) (Disk, error) { return Disk{}, errors.ErrUnsupported }

func synchronised() (yes, known bool) { return false, false }

// writable goes by the mode, which says less than the system would.
func writable(folder string) bool {
	info, err := os.Stat(folder)
	return err == nil && info.Mode().Perm()&0o200 != 0
}
