package segment

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/cursor"
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
	return must.Get(store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: n}))(t)
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
		must.Equal(t, store.stale.Load(), 0, "nothing was read")
		closeAll(t, s)
	})
}

// After a restore, a biz type that was raised without Redis above all that callers got, or made
// again with such a start, as docs/operations/restore.md says: what waits in the previous cursor says
// nothing about the store, and costs no restoreGap.
func TestEpochRaisedBelowTheOldCursor(t *testing.T) {
	for _, how := range []string{"raised", "made again"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, redis, o := memory.New(time.Now), &redisModel{}, &observer{}
				a := node(t, store, redis, o, nil)
				highest := numbers(t, a, 400)[399]
				synctest.Wait()
				closeAll(t, a)
				restored := memory.New(time.Now)
				start := int64(1)
				if how == "raised" { // without Redis
					must.Do(t, restored.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: highest, Step: 1}))
				} else {
					start = highest + 1
				}
				b := node(t, restored, redis, o, func(s *Settings) { s.Start = start })
				n := numbers(t, b, 1)[0]
				if n > 999_999 || o.count(seqd.EventStoreBehind) > 0 {
					t.Errorf("callers had up to %d, the cursor up to %d; the next number is %d; store_behind %d times", highest, 2000, n, o.count(seqd.EventStoreBehind))
				}
				closeAll(t, b)
			})
		})
	}
}
