package snowflake

import (
	"syscall"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// TestAlarm checks that the kernel has timers, that they do not end early, and that a wait of 0
// ends.
func TestAlarm(t *testing.T) {
	var a alarm
	for _, d := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond} {
		began := time.Now()
		if !a.sleep(d) {
			t.Fatal("there is no timer")
		}
		if slept := time.Since(began); slept < d {
			t.Errorf("slept %s instead of %s", slept, d)
		}
	}
}

// TestWithoutAlarm checks that a caller waits with Go's timers if the kernel refuses its own.
func TestWithoutAlarm(t *testing.T) {
	g, _ := testGenerator(t, generatorOptions{now: time.Now})
	g.alarm.none = true
	now := time.Now().UnixMilli()
	g.set(5, now-1000, now+time.Hour.Milliseconds(), false)
	numbers(t, g, 10_000)
}

// TestAlarmAfterAMomentWithoutFiles checks that a moment without free files does not turn the timers of
// the kernel off.
func TestAlarmAfterAMomentWithoutFiles(t *testing.T) {
	var old syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	few := old
	few.Cur = 3
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few))
	var a alarm
	slept := a.sleep(time.Microsecond)
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old))
	if slept || !a.sleep(time.Microsecond) {
		t.Errorf("it slept without a file: %v; or not with one", slept)
	}
}
