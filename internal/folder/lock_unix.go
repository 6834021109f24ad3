//go:build unix && !solaris && !aix

package folder

import (
	"errors"
	"os"
	"syscall"
)

// Lock takes an exclusive lock for as long as the file is open, or returns [ErrHeld]. Unlike a lock
// of fcntl, it also excludes other open files of the same process, and stays when one of those is
// closed.
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
