//go:build linux || darwin

package statefile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// identify returns which file it is, and how many names it has.
func identify(f *os.File) (id inode, names uint64, err error) {
	info, err := f.Stat()
	if err != nil {
		return id, 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return id, 0, fmt.Errorf("no inode: %w", errors.ErrUnsupported)
	}
	return inode{device: uint64(stat.Dev), number: stat.Ino, born: born(f, stat)}, uint64(stat.Nlink), nil
}
