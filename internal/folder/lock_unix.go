//go:build unix && !solaris && !aix

package folder

import (
	"errors"
	"os"
	"syscall"
)

// Lock takes an exclusive lock for as long as the file is open, or returns [ErrHeld]. Unlike locks
// of fcntl it also holds between two that opened the file in one process, and does not go when
// another of them closes it.
func Lock(f *os.File) error {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrHeld
		default:
			return err
		}
	}
}
