//go:build linux || darwin

package server

import "golang.org/x/sys/unix"

// diskSpace returns the free space and the size of the disk of a folder, in bytes.
func diskSpace(folder string) (free, size int64, ok bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), true
}
