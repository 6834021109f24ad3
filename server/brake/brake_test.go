package brake

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestBrake works for a second in steps of a microsecond, and looks how long that takes.
func TestBrake(t *testing.T) {
	const all, step = time.Second, time.Microsecond
	for name, c := range map[string]struct {
		every time.Duration // between two requests
		least time.Duration // how long a brake must rest
		most  time.Duration
	}{
		"no requests":       {0, 0, 0},
		"requests":          {10 * time.Millisecond, all / slice * rest, all / slice * rest},
		"a request a while": {10 * calm, calm / 2, 30 * calm},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				b := New(func() int64 {
					if c.every == 0 {
						return 0
					}
					return 1 + int64(time.Since(began)/c.every)
				})
				for range all / step {
					time.Sleep(step)
					b.Yield()
				}
				if rested := time.Since(began) - all; rested < c.least || rested > c.most {
					t.Errorf("it rested for %s, want %s to %s", rested, c.least, c.most)
				}
			})
		})
	}
}
