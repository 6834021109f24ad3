package storeclock_test

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
)

// A clock that was set forward is known for a day at least, unless nodes begin anew. However it is
// set, the time that is due advances no faster than the monotonic clock.
func TestForward(t *testing.T) {
	c, passed := &clock{begin}, time.Duration(0)
	n := storeclock.New(c, c.now, func() time.Duration { return passed })
	a := storeclock.NewAttendance(memory.New(c.now).Documents(), n)
	must.Do(t, a.Beat(t.Context()))
	for _, step := range []struct {
		set, wait, want time.Duration
	}{
		{0, time.Hour, 0},
		{3 * time.Second, time.Second, 3 * time.Second},
		{2 * time.Second, time.Second, 5 * time.Second},
		{-4 * time.Second, time.Second, time.Second},
		{-4 * time.Second, time.Second, 0},
		{4 * time.Second, 20 * time.Hour, 4 * time.Second},
		{0, 20 * time.Hour, 4 * time.Second},
		{0, 20 * time.Hour, 0},
	} {
		c.pass(step.set)
		for range 10 {
			passed += step.wait / 10
			c.pass(step.wait / 10)
			must.Do(t, n.Ask(t.Context()))
		}
		must.Equal(t, must.Get(n.Times(t.Context()))(t).Forward, step.want.Milliseconds(), "set by %v, %v later: the ms set forward", step.set, step.wait)
	}
	c.pass(time.Hour)
	must.Do(t, n.Ask(t.Context()))
	must.Equal(t, must.Get(n.Times(t.Context()))(t).Forward, time.Hour.Milliseconds(), "the ms set forward by an hour")
	must.Do(t, a.Beat(t.Context()))
	must.Equal(t, must.Get(n.Times(t.Context()))(t).Forward, 0, "the ms set forward by an hour when all have their whole time again")
}
