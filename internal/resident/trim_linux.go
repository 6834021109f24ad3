package resident

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Trim takes the clean pages of the executable out of the memory of the process. They stay in the
// cache of the system, so a page that is used again costs a page fault and no reading.
func Trim() error {
	var program unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &program); err != nil {
		return err
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return err
	}
	defer smaps.Close()
	list, err := clean(smaps, strconv.FormatUint(program.Ino, 10))
	for _, s := range list {
		if _, _, failed := unix.Syscall(unix.SYS_MADVISE, s.first, s.end-s.first, unix.MADV_DONTNEED); failed != 0 {
			err = errors.Join(err, failed)
		}
	}
	return err
}
