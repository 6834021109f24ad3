package statefile

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// born returns when a file was created, in ns since the Unix epoch, or 0 if the kernel or the file
// system does not know.
func born(f *os.File, _ *syscall.Stat_t) int64 {
	var stat unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &stat); err != nil || stat.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return stat.Btime.Sec*1e9 + int64(stat.Btime.Nsec)
}
