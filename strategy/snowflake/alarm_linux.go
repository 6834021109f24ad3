package snowflake

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timer of the kernel that ends within some 50 µs. Go's timers end up to a millisecond
// late if the process has nothing else to do: its poller then waits for whole milliseconds. A file
// that becomes readable wakes the poller at once, and no thread waits for it. It is not safe for
// concurrent use. Its file is closed when it is garbage.
type alarm struct {
	file *os.File // nil before the first sleep
	fd   int      // of file, whose method Fd would take it from the poller
	none bool     // the system has no such timers
}

// sleep sleeps for d, which must be short, because nothing interrupts it. It returns false at once
// if the system has no such timers.
func (a *alarm) sleep(d time.Duration) bool {
	if !a.open() {
		return false
	}
	once := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, d.Nanoseconds()))} // 0 would never end
	if err := unix.TimerfdSettime(a.fd, 0, &once, nil); err != nil {
		return false
	}
	var ends [8]byte // how often it ended
	_, err := a.file.Read(ends[:])
	return err == nil
}

// open makes the timer, once.
func (a *alarm) open() bool {
	if a.file != nil || a.none {
		return !a.none
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if a.none = err != nil; a.none {
		return false
	}
	a.fd, a.file = fd, os.NewFile(uintptr(fd), "timer")
	return true
}
