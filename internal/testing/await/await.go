// Package await waits in tests until something is so. It is the only place that decides how long:
// long enough that a slow machine never makes a test fail. A test that must show that something
// does not take long measures it in a benchmark instead, or uses a fake clock.
package await

import (
	"errors"
	"testing"
	"time"
)

// Patience is how long tests wait for what has to happen. A test that passes hardly waits, so a
// long patience costs nothing.
const Patience = 3 * time.Minute

// The first pause between two looks, and the longest.
const (
	firstPause = 2 * time.Millisecond
	lastPause  = 100 * time.Millisecond
)

var errNotYet = errors.New("it is not so yet")

// Eventually calls check until it returns nil. After [Patience] it ends the test with the last error.
// What names the thing that is awaited: "the cursor is full".
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	for end, pause := time.Now().Add(Patience), firstPause; ; pause = min(2*pause, lastPause) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain until %s: %v", Patience, what, err)
		}
		time.Sleep(pause)
	}
}

// True calls condition until it returns true. After [Patience] it ends the test.
func True(t testing.TB, what string, condition func() bool) {
	t.Helper()
	Eventually(t, what, func() error {
		if condition() {
			return nil
		}
		return errNotYet
	})
}
