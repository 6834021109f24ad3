package statefile

import (
	"os"
	"syscall"
)

// born returns when a file was created, in ns since the Unix epoch.
func born(_ *os.File, stat *syscall.Stat_t) int64 { return stat.Birthtimespec.Nano() }
