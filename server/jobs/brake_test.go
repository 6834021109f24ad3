package jobs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
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
				b := &brake{served: func() int64 {
					if c.every == 0 {
						return 0
					}
					return 1 + int64(time.Since(began)/c.every)
				}}
				for range all / step {
					time.Sleep(step)
					b.yield()
				}
				if rested := time.Since(began) - all; rested < c.least || rested > c.most {
					t.Errorf("it rested for %s, want %s to %s", rested, c.least, c.most)
				}
			})
		})
	}
}

// TestChunkGivesWay is about a chunk whose numbers a plugin shows, which is nearly all of the work.
func TestChunkGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, false)
		c.load.Store(1)
		c.refuse = func(call *seqd.Call) error {
			began := time.Now()
			call.Sequence.Show(func(dst []byte, _ int64, shown []byte) []byte {
				time.Sleep(time.Microsecond)
				return append(dst, shown...)
			})
			if took := time.Since(began); took < 15*rest {
				t.Errorf("%d numbers took %s: it did not rest", call.Count, took)
			}
			return nil
		}
		c.await(c.first, c.create(1000), done)
	})
}
