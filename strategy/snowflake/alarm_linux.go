package snowflake

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm lets a caller sleep for less than a millisecond. Go's timers end up to a millisecond late if
// the process has nothing else to do: its poller then waits for whole milliseconds. A timer of the
// kernel wakes the poller within some 50 µs, as a file that becomes readable. The caller itself sleeps
// on a timer of Go, because a process that is busy looks at those more often than at files. An alarm
// is not safe for concurrent use. Its file is closed when it is garbage.
type alarm struct {
	file *os.File // nil before the first sleep
	fd   int      // of file, whose method Fd would take it from the poller
	none bool     // the system has no such timers
}

// sleep sleeps for d, which must be short, because nothing interrupts it. It returns false if the
// system has no such timers.
func (a *alarm) sleep(d time.Duration) bool {
	if !a.open() {
		return false
	}
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, d.Nanoseconds()))} // 0 would never end
	err := unix.TimerfdSettime(a.fd, 0, &once, nil)
	time.Sleep(d)
	return err == nil
}

// open makes the timer, once.
func (a *alarm) open() bool {
	if a.file != nil || a.none {
		return !a.none
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		a.none = !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) // those pass
		return false
	}
	a.fd, a.file = fd, os.NewFile(uintptr(fd), "timer")
	return true
}
