package segment

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/memory"
)

// The store was away for some seconds while the cursor had plenty. When it is back the refill must be repeated before the cursor is
// used up: no caller notices.
func TestSharedRefillStarvedByOwnTakes(t *testing.T) {
	for _, every := range []time.Duration{510, 733, 1000, 1411, 2000, 3333, 5000} {
		every *= time.Microsecond
		t.Run(every.String(), func(t *testing.T) { starved(t, every) })
	}
}

func starved(t *testing.T, every time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		redis.before = func(string) error { time.Sleep(500 * time.Microsecond); return nil }
		store := &flaky{Store: memory.New(time.Now)}
		store.well.Store(true)
		o := &observer{}
		s := node(t, store, redis, o, func(s *Settings) {
			s.Step, s.MaxStep, s.OnRedisDown, s.ReserveSegments = 10_000, 10_000, Reject, 1
			s.AcquireTimeout = 500 * time.Millisecond
		})
		for range 5 {
			numbers(t, s, 500)
		}
		time.Sleep(time.Second)
		store.down.Store(true)
		for range 20 {
			numbers(t, s, 500)
		}
		// That asks for a refill, which fails; 19,500 are left
		for range 4000 { // 4 s, of 19,500 numbers in hand
			numbers(t, s, 1)
			time.Sleep(every)
		}
		store.down.Store(false)
		back := time.Now()
		var worst, refilled time.Duration
		refused := 0
		before := o.count(seqd.EventRefilled)
		for time.Since(back) < time.Minute {
			began := time.Now()
			if _, code := try(t, s, 1); code != "" {
				refused++
			}
			worst = max(worst, time.Since(began))
			if refilled == 0 && o.count(seqd.EventRefilled) > before {
				refilled = time.Since(back)
			}
			time.Sleep(every)
		}
		t.Logf("refilled %v after the store was back; the slowest call took %v, %d were refused", refilled, worst, refused)
		if refilled > 5*time.Second || worst > 50*time.Millisecond || refused > 0 {
			t.Error("see above")
		}
		closeAll(t, s)
	})
}
