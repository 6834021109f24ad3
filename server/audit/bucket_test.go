package audit

import (
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// The bucket is full at first, fills slowly, and neither overflows nor stops if the clock is set.
func TestBucket(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	b := bucket{tokens: mostRefused, filled: now}
	take := func() (n int) {
		for b.take(now) {
			n++
		}
		return n
	}
	for i, step := range []struct {
		pass time.Duration
		want int
	}{
		{0, mostRefused}, {refusedPause - 1, 0}, {1, 1}, {5*refusedPause + refusedPause/2, 5}, {refusedPause / 2, 1},
		{365 * 24 * time.Hour, mostRefused}, {-time.Hour, 0}, {refusedPause, 1}, {-time.Second, 0}, {1000 * refusedPause, mostRefused},
	} {
		now = now.Add(step.pass)
		must.Equal(t, take(), step.want, "step %d", i)
	}
}
