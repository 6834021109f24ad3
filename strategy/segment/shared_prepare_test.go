package segment

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// hangable returns the cursor of one node, whose calls time out while hang is set, and hang.
func hangable(redis *redisModel) (*rcursor, *atomic.Bool) {
	hang := &atomic.Bool{}
	return &rcursor{redisModel: redis, take: func(t rediscursor.Take) error {
		if !hang.Load() {
			return nil
		}
		timeout := time.Second // redis.timeout
		if t.Count == 0 {
			timeout = cursor.PeekTimeout
		}
		time.Sleep(timeout)
		return context.DeadlineExceeded
	}}, hang
}

// wantAscending asks node s for one number after the other for a time. Each must be above the one
// before.
func wantAscending(t *testing.T, s *Counter, d time.Duration) {
	t.Helper()
	top := int64(0)
	for began := time.Now(); time.Since(began) < d; time.Sleep(100 * time.Millisecond) {
		n := numbers(t, s, 1)[0]
		if n <= top {
			t.Errorf("got %d after %d, %v after Redis began to hang", n, top, time.Since(began))
			return
		}
		top = n
	}
}

// A counter is prepared while a take of it hangs, as the next period's is when a clock is ahead.
// The node leaves the cursor once, and returns once.
func TestSharedPrepareWhileTaking(t *testing.T) {
	for recovers := 500 * time.Millisecond; recovers < 8*time.Second; recovers += 100 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			store, redis, o := memory.New(time.Now), &redisModel{}, &observer{}
			c, hang := hangable(redis)
			s, other := node(t, store, c, o, small), node(t, store, redis, &observer{}, small)
			numbers(t, other, 1)
			synctest.Wait()
			hang.Store(true)
			time.AfterFunc(recovers, func() { hang.Store(false) })
			go func() { _ = s.Generate(context.Background(), 1, &seqd.Sequence{}) }()
			synctest.Wait()
			s.prepare()
			go func() { // what the cursor hands out meanwhile is below what the node has of its own
				time.Sleep(700 * time.Millisecond)
				numbers(t, other, 60)
			}()
			wantAscending(t, s, 15*time.Second)
			if away, guarded := o.count(seqd.EventRedisAway), o.count(seqd.EventGuard); away > 1 || guarded > 0 {
				t.Errorf("Redis away for %v: left the cursor %d times, %d alarms", recovers, away, guarded)
			}
			closeAll(t, s, other)
		})
	}
}

// A counter is prepared while the node is on its own. It continues so, and returns once.
func TestSharedPrepareOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis, o := memory.New(time.Now), &redisModel{}, &observer{}
		c, cut := cuttable(redis)
		s := node(t, store, c, o, small)
		numbers(t, s, 1)
		synctest.Wait()
		cut.Store(true)
		before := numbers(t, s, 3)[2]
		if over(s).local.Load() == nil {
			t.Fatal("the node is not on its own")
		}
		s.prepare()
		time.Sleep(5 * time.Second)
		if n := numbers(t, s, 1)[0]; n <= before {
			t.Errorf("got %d after %d", n, before)
		}
		must.Equal(t, o.count(seqd.EventRedisAway), 1, "the times that it left the cursor")
		cut.Store(false)
		time.Sleep(5 * time.Second)
		if back := o.count(seqd.EventRedisBack); back != 1 || s.Degraded() != nil {
			t.Errorf("returned %d times, degraded: %v", back, s.Degraded())
		}
		closeAll(t, s)
	})
}
