//go:build linux || darwin

package statefile

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile takes an exclusive lock for as long as the file is open, or returns errHeld. Unlike locks of fcntl it also holds between two that
// opened the file in one process, and does not go when another of them closes it.
func lockFile(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errHeld
		default:
			return err
		}
	}
}

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
