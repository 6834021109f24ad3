//go:build unix

package server

import "syscall"

// openFiles returns how many files this process may have open; known is false when that cannot be
// told.
func openFiles() (most uint64, known bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Cur), true // some systems count with a sign
}
