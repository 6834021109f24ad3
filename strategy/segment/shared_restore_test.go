package segment

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// Redis refuses writes for a minute (MISCONF, OOM, NOREPLICAS): takes and installs fail, looks that
// change nothing work. A node that degrades continues to issue, and does not burn the store's
// numbers.
func TestSharedRedisRefusesWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readonly atomic.Bool
		c := &rcursor{redisModel: &redisModel{}}
		c.take = func(tk rediscursor.Take) error {
			time.Sleep(time.Millisecond)
			if tk.Count > 0 && readonly.Load() {
				return errOOM
			}
			return nil
		}
		c.install = func(rediscursor.Install) error {
			time.Sleep(time.Millisecond)
			if readonly.Load() {
				return errOOM
			}
			return nil
		}
		store := memory.New(time.Now)
		o := &observer{}
		s := node(t, store, c, o, nil)
		numbers(t, s, 10)
		synctest.Wait()
		readonly.Store(true)
		before := counter(t, store).Max
		began := time.Now()
		asked, failed := 0, 0
		for time.Since(began) < time.Minute {
			asked++
			if _, code := try(t, s, 1); code != "" {
				failed++
			}
			time.Sleep(10 * time.Millisecond)
		}
		burned := counter(t, store).Max - before
		t.Logf("%d of %d calls failed; %d numbers of the store for them, in %d ranges, health %v, degraded %v", failed, asked, burned, o.count(seqd.EventRefilled), s.Health(), s.Degraded())
		if failed > 0 || burned > 500_000 {
			t.Errorf("%d of %d calls failed; %d numbers were burned", failed, asked, burned)
		}
		readonly.Store(false)
		time.Sleep(3 * time.Minute)
		numbers(t, s, 1)
		closeAll(t, s)
	})
}

// restore takes the counter down to an older copy.
func restore(t testing.TB, store persist.Store, most int64) {
	t.Helper()
	old := counter(t, store)
	old.Max = most
	if err := store.Counters().Delete(t.Context(), "order"); err != nil {
		t.Fatal(err)
	}
	if err := store.Counters().Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
}

// A standby range is fetched with what the node had seen long ago.
func TestSharedStandbyAfterRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, redis := memory.New(time.Now), &redisModel{}
		storeB := &flaky{Store: mem}
		storeB.well.Store(true)
		a := node(t, mem, redis, &observer{}, func(s *Settings) { s.OnRedisDown = Reject })
		var cut atomic.Bool
		cb := &rcursor{redisModel: redis, take: func(rediscursor.Take) error {
			if cut.Load() {
				return errDown
			}
			return nil
		}}
		b := node(t, storeB, cb, &observer{}, nil)
		numbers(t, a, 1)
		synctest.Wait()
		storeB.down.Store(true) // b is cut off from the store
		numbers(t, b, 1)        // and looks for a standby range from now on
		given := map[int64]bool{}
		for _, n := range numbers(t, a, 20_000) {
			given[n] = true
		}
		synctest.Wait()
		restore(t, mem, 5000)
		storeB.down.Store(false)
		// b gets its standby range. Redis is well all the time until here.
		time.Sleep(5 * time.Second)
		cut.Store(true)
		for range 5 {
			for _, n := range numbers(t, b, 1) {
				if given[n] {
					t.Errorf("%d was given twice", n)
				}
			}
		}
		closeAll(t, a, b)
	})
}

// The store is restored while a node, cut off from Redis, is more than restoreGap ahead of what the
// others have seen.
func TestSharedRestoreGapTooSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, redis := memory.New(time.Now), &redisModel{}
		big := func(s *Settings) { s.Step, s.RestoreGap = 30_000, 10_000 }
		a := node(t, mem, redis, &observer{}, big)
		cb := &rcursor{redisModel: redis}
		b := node(t, mem, cb, &observer{}, big)
		numbers(t, a, 1)
		numbers(t, b, 1)
		synctest.Wait()
		cb.take = func(rediscursor.Take) error { return errDown }
		numbers(t, b, 1)
		given := map[int64]bool{}
		for range 20 { // past its standby range, and twice the gap further
			for _, n := range numbers(t, b, 1000) {
				given[n] = true
			}
		}
		synctest.Wait()
		restore(t, mem, 20_000)
		for range 100 {
			for _, n := range numbers(t, a, 1000) {
				if given[n] {
					t.Fatalf("%d was given twice", n)
				}
			}
			synctest.Wait()
		}
		closeAll(t, a, b)
	})
}

// One failed look long ago, and one now, are not 250 ms of failing.
func TestSharedOldFailureForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		store := &flaky{Store: memory.New(time.Now)}
		store.well.Store(true)
		o := &observer{}
		c := &rcursor{redisModel: redis}
		var fail atomic.Bool
		c.take = func(tk rediscursor.Take) error {
			if fail.CompareAndSwap(true, false) {
				return errDown
			}
			return nil
		}
		s := node(t, store, c, o, nil)
		numbers(t, s, 10)
		synctest.Wait()
		store.down.Store(true)
		redis.lose()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_ = s.Generate(ctx, 1, &seqd.Sequence{})
		fail.Store(true)
		time.Sleep(10 * time.Minute)
		fail.Store(true)
		time.Sleep(10 * time.Second)
		if o.count(seqd.EventRedisAway) > 0 {
			t.Error("the node left the cursor after one failed look")
		}
		store.down.Store(false)
		time.Sleep(10 * time.Second)
		closeAll(t, s)
	})
}

// One take that failed long ago, whose caller had gone, and 60 ms without Redis now are not 250 ms
// of failing.
func TestSharedOldFailedTakeForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		o := &observer{}
		c, down := cuttable(redis)
		s := node(t, memory.New(time.Now), c, o, nil)
		numbers(t, s, 10)
		time.Sleep(5 * time.Second)
		down.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_ = s.Generate(ctx, 1, &seqd.Sequence{}) // its caller leaves
		down.Store(false)
		time.Sleep(10 * time.Minute)
		if s.Health() != nil || s.Degraded() != nil {
			t.Fatal(s.Health(), s.Degraded())
		}
		down.Store(true)
		go func() { time.Sleep(60 * time.Millisecond); down.Store(false) }()
		numbers(t, s, 1)
		if n := o.count(seqd.EventRedisAway); n > 0 {
			t.Errorf("the node left a cursor that was away for 60 ms")
		}
		time.Sleep(5 * time.Second)
		closeAll(t, s)
	})
}

// Every node was stopped, the store restored from an older copy and raised above all that was
// issued; Redis kept its cursor. A new node learns from its first take, which finds plenty, what
// waits there: its standby range lies above.
func TestSharedStandbyOfANewNodeAfterRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		old, _ := newShared(t, store, redis, nil)
		numbers(t, old, 10)
		time.Sleep(5 * time.Second)
		closeAll(t, old)
		restore(t, store, 500)
		ca, cut := cuttable(redis)
		a := node(t, store, ca, &observer{}, nil)
		b := node(t, store, redis, &observer{}, func(s *Settings) { s.OnRedisDown = Reject })
		given := map[int64]bool{}
		note := func(got []int64) {
			for _, n := range got {
				if given[n] {
					t.Errorf("%d was given twice", n)
				}
				given[n] = true
			}
		}
		note(numbers(t, a, 1))
		synctest.Wait()
		note(numbers(t, b, 900))
		synctest.Wait()
		cut.Store(true)
		note(numbers(t, a, 1))
		closeAll(t, a, b)
	})
}

// A node looks at the cursor right before it allocates its first standby range: what its take saw
// may be old by then.
func TestSharedLooksBeforeTheFirstStandby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		old, _ := newShared(t, store, redis, nil)
		numbers(t, old, 10)
		time.Sleep(5 * time.Second)
		closeAll(t, old)
		const theirs = 700_000 // what other nodes bring in between
		c := &rcursor{redisModel: redis, take: func(tk rediscursor.Take) error {
			if tk.Count == 0 {
				redis.change(func(r *redisModel) { r.hash.ceil = theirs })
			}
			return nil
		}}
		s := node(t, store, c, &observer{}, nil)
		numbers(t, s, 1)
		synctest.Wait()
		s.mu.Lock()
		if rest := s.machine.Finish(); len(rest) != 1 || rest[0].First <= theirs {
			t.Errorf("the standby range is %+v, the cursor goes up to %d", rest, theirs)
		}
		s.mu.Unlock()
		closeAll(t, s)
	})
}
