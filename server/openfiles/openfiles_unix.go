//go:build unix

package openfiles

import "syscall"

// Limit returns how many files this process may have open. known is false if the limit cannot be
// read.
func Limit() (most uint64, known bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Cur), true // signed on some systems
}
