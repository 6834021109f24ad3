package ratelimit_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/seqd/seqd/plugin/ratelimit"
)

// TestHeldUpBetweenClockAndBucket delays a request between reading the clock and taking its token.
// Such a request once set the bucket's clock back, so that the delay counted twice and added rate ×
// delay tokens.
func TestHeldUpBetweenClockAndBucket(t *testing.T) {
	start := time.Now()
	var offset atomic.Int64
	stale, goOn := make(chan struct{}), make(chan struct{})
	var hold atomic.Bool
	now := func() time.Time {
		at := start.Add(time.Duration(offset.Load()))
		if hold.CompareAndSwap(true, false) {
			close(stale)
			<-goOn
		}
		return at
	}
	p := ratelimit.New(settings(10, 10), now)
	total := passes(p, "shop", 1) // 10, the burst
	offset.Store(int64(time.Second - 1))
	total += passes(p, "shop", 1) // 9 more
	hold.Store(true)
	held := make(chan int)
	go func() {
		n := 0
		if _, err := ask(p, "shop", 1); err == nil {
			n++
		}
		held <- n
	}()
	<-stale
	offset.Store(int64(2 * time.Second)) // the delayed request read 1s, and it is 2s now
	if _, err := ask(p, "shop", 1); err == nil {
		total++
	}
	close(goOn)
	total += <-held
	total += passes(p, "shop", 1)
	if most := 10 + 2*10; total > most {
		t.Errorf("%d passed in 2 s, at most %d may", total, most)
	}
}
