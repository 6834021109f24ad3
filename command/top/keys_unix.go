//go:build linux || darwin

package top

import "golang.org/x/sys/unix"

// readKeys makes a terminal give each key at once and unseen. restore gives it back its modes.
func readKeys(fd int) (restore func(), err error) {
	before, err := unix.IoctlGetTermios(fd, getModes)
	if err != nil {
		return nil, err
	}
	modes := *before
	modes.Lflag &^= unix.ICANON | unix.ECHO
	modes.Cc[unix.VMIN], modes.Cc[unix.VTIME] = 1, 0
	return func() { _ = unix.IoctlSetTermios(fd, setModes, before) }, unix.IoctlSetTermios(fd, setModes, &modes)
}
