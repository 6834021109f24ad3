//go:build unix && !solaris && !aix

package history

import (
	"errors"
	"os"
	"syscall"
)

var errHeld = errors.New("another process, or a biz type with other settings, writes there")

// lockFile takes an exclusive lock for as long as the file is open, or returns errHeld.
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
