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
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// epochStore counts who asks for epochs, and can be cut off from that or give an old answer.
type epochStore struct {
	persist.Store
	asked atomic.Int64
	away  atomic.Bool
	slow  time.Duration // how long an answer about an epoch takes
	stale atomic.Int64  // the maximum that the next read tells, 0 for the true one
}

func (s *epochStore) Counters() persist.Counters { return epochCounters{s.Store.Counters(), s} }

type epochCounters struct {
	persist.Counters
	store *epochStore
}

func (c epochCounters) Epoch(ctx context.Context, bizTag string) (string, error) {
	c.store.asked.Add(1)
	time.Sleep(c.store.slow)
	if c.store.away.Load() {
		return "", errDown
	}
	return c.Counters.Epoch(ctx, bizTag)
}

func (c epochCounters) Read(ctx context.Context, bizTag string) (persist.Counter, error) {
	counter, err := c.Counters.Read(ctx, bizTag)
	if old := c.store.stale.Swap(0); old > 0 {
		counter.Max = old
	}
	return counter, err
}

// own takes numbers as a node with an ordering per node does.
func own(t *testing.T, store persist.Store, n int64) persist.Range {
	t.Helper()
	r, err := store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: n})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A cursor that the store does not believe in any more is not taken from once the node knows, which
// it does within seconds, also where nobody tells it and it fetches nothing.
func TestEpochIsReread(t *testing.T) {
	for name, pause := range map[string]time.Duration{"in use": 10 * time.Millisecond, "idle": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, redis := &epochStore{Store: memory.New(time.Now)}, &redisModel{}
				s := node(t, store, redis, &observer{}, nil) // a step of 1000
				numbers(t, s, 1)
				synctest.Wait()
				if pause > time.Minute {
					time.Sleep(pause)
				}
				theirs := own(t, store, 10)
				began := time.Now()
				for {
					n := numbers(t, s, 1)[0]
					if n > theirs.Last {
						break
					}
					if pause > time.Minute || time.Since(began) > cursor.TrustEpoch {
						t.Fatalf("%d %s after %d was handed out", n, time.Since(began), theirs.Last)
					}
					time.Sleep(pause)
				}
				closeAll(t, s)
			})
		})
	}
}

// While the store is away, what is in hand carries on under the last belief, and no caller waits
// for it again and again.
func TestEpochWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := &epochStore{Store: memory.New(time.Now)}, &redisModel{}
		s := node(t, store, redis, &observer{}, nil)
		numbers(t, s, 1)
		synctest.Wait()
		store.away.Store(true)
		for range 20 {
			time.Sleep(10 * time.Second)
			numbers(t, s, 1)
		}
		closeAll(t, s)
	})
}

// Redis lost the cursor, another node has begun it anew, and then the store went away. A node that
// has taken from it before continues; one that never has does not know whether that is the cursor
// that counts, and refuses.
func TestEpochAfterALossWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := &epochStore{Store: memory.New(time.Now)}, &redisModel{}
		a, b, fresh := node(t, store, redis, &observer{}, nil), node(t, store, redis, &observer{}, nil), node(t, store, redis, &observer{}, nil)
		numbers(t, a, 1)
		numbers(t, b, 1)
		redis.lose()
		numbers(t, a, 1)
		synctest.Wait()
		store.away.Store(true)
		numbers(t, b, 1)
		if _, code := try(t, fresh, 1); code != seqd.CodeStoreUnavailable {
			t.Errorf("a node that never took: %q", code)
		}
		store.away.Store(false)
		time.Sleep(time.Second)
		numbers(t, fresh, 1)
		closeAll(t, a, b, fresh)
	})
}

// An active counter asks every few seconds, not with each take, and no take waits for the answer.
func TestEpochIsAskedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := &epochStore{Store: memory.New(time.Now), slow: 200 * time.Millisecond}, &redisModel{}
		s := node(t, store, redis, &observer{}, nil)
		numbers(t, s, 1)
		began := time.Now()
		for time.Since(began) < time.Minute {
			asked := time.Now()
			if numbers(t, s, 1); time.Since(asked) > 0 {
				t.Errorf("a caller waited %s", time.Since(asked))
			}
			time.Sleep(100 * time.Millisecond)
		}
		if most := int64(time.Minute/cursor.RecheckEpoch) + 1; store.asked.Load() > most {
			t.Errorf("asked %d times in a minute, %d expected", store.asked.Load(), most)
		}
		closeAll(t, s)
	})
}

// A process that begins believes nothing but the store: not a cursor that is there.
func TestEpochOfACursorLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		a := node(t, store, redis, &observer{}, small)
		numbers(t, a, 3)
		synctest.Wait()
		closeAll(t, a)
		theirs := own(t, store, 30)
		b := node(t, store, redis, &observer{}, small)
		if n := numbers(t, b, 1)[0]; n <= theirs.Last {
			t.Errorf("%d after %d", n, theirs.Last)
		}
		closeAll(t, b)
	})
}

// Two nodes find the cursor of another epoch at the same time. One of them begins it anew; the
// other takes from that.
func TestEpochHasOneWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		oa, ob := &observer{}, &observer{}
		a, b := node(t, store, redis, oa, small), node(t, store, redis, ob, small)
		numbers(t, a, 1)
		numbers(t, b, 1)
		synctest.Wait()
		theirs := own(t, store, 10)
		seeded := oa.count("seeded") + ob.count("seeded")
		time.Sleep(time.Minute)
		done := make(chan int64, 2)
		for _, s := range []*Shared{a, b} {
			go func() { done <- numbers(t, s, 1)[0] }()
		}
		for range 2 {
			if n := <-done; n <= theirs.Last {
				t.Errorf("%d after %d", n, theirs.Last)
			}
		}
		if n := oa.count("seeded") + ob.count("seeded") - seeded; n != 1 {
			t.Errorf("the cursor was begun %d times", n)
		}
		if a.Degraded() != nil || b.Degraded() != nil {
			t.Error(a.Degraded(), b.Degraded())
		}
		closeAll(t, a, b)
	})
}

// Nodes with different Redis servers issue no number twice, say that cursors alternate, and go on
// in order when they use the same.
func TestEpochOfTwoRedisServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, left, right := memory.New(time.Now), &redisModel{}, &redisModel{}
		oa, ob := &observer{}, &observer{}
		a, b := node(t, store, left, oa, nil), node(t, store, right, ob, nil)
		seen := map[int64]bool{}
		for range 600 {
			for _, s := range []*Shared{a, b} {
				n := numbers(t, s, 1)[0]
				if seen[n] {
					t.Fatalf("%d came twice", n)
				}
				seen[n] = true
			}
			time.Sleep(50 * time.Millisecond)
		}
		for i, s := range []*Shared{a, b} {
			if d := s.Degraded(); d == nil || d.Code != seqd.CodeCursorContested {
				t.Errorf("node %d: %v", i, d)
			}
		}
		if oa.count("cursor_contested") == 0 || ob.count("cursor_contested") == 0 {
			t.Error("no event")
		}
		closeAll(t, b)
		time.Sleep(cursor.ContestedFor)
		before := numbers(t, a, 1)[0]
		if d := a.Degraded(); d != nil {
			t.Errorf("a minute after the other has gone: %v", d)
		}
		for n := range seen {
			if n >= before {
				t.Errorf("%d came before %d", n, before)
			}
		}
		closeAll(t, a)
	})
}

// A node that was away comes back to a cursor that another one has begun under another epoch
// meanwhile.
func TestEpochChangesWhileANodeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		c := &rcursor{redisModel: redis}
		var cut atomic.Bool
		c.take = func(rediscursor.Take) error {
			if cut.Load() {
				return errDown
			}
			return nil
		}
		a, b := node(t, store, c, &observer{}, small), node(t, store, redis, &observer{}, small)
		numbers(t, a, 1)
		numbers(t, b, 1)
		cut.Store(true)
		top := numbers(t, a, 25)[24]
		redis.lose()
		top = max(top, numbers(t, b, 25)[24])
		cut.Store(false)
		for a.Degraded() != nil {
			time.Sleep(time.Millisecond)
		}
		for _, s := range []*Shared{a, b, a} {
			n := numbers(t, s, 1)[0]
			if n <= top {
				t.Errorf("%d after %d", n, top)
			}
			top = n
		}
		closeAll(t, a, b)
	})
}

// A seed whose allocation was carried out and not answered leaves an epoch that nobody installs.
// The node continues with another.
func TestEpochOfASeedNobodyHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unheard{Store: memory.New(time.Now)}
		s := node(t, store, &redisModel{}, &observer{}, small)
		store.lost.Store(true)
		time.AfterFunc(50*time.Millisecond, func() { store.lost.Store(false) })
		began := time.Now()
		numbers(t, s, 1)
		if time.Since(began) < 50*time.Millisecond {
			t.Error("nothing was lost")
		}
		closeAll(t, s)
	})
}

// A read that says what the counter was a moment ago, as one of a new primary may, is not taken for
// a restored store.
func TestStaleReadIsNoRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &epochStore{Store: memory.New(time.Now)}
		o := &observer{}
		s := node(t, store, &redisModel{}, o, small)
		numbers(t, s, 25)
		synctest.Wait()
		store.stale.Store(20)
		got := numbers(t, s, 200)
		if last := got[len(got)-1]; last > 1000 || o.count("store_behind") > 0 {
			t.Errorf("up to %d, %d events", last, o.count("store_behind"))
		}
		if store.stale.Load() != 0 {
			t.Error("nothing was read")
		}
		closeAll(t, s)
	})
}
