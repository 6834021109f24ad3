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

// movable is a cursor behind a name that can lead to another server.
type movable struct{ at *atomic.Pointer[redisModel] }

func (c movable) Take(ctx context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	return c.at.Load().Take(ctx, t)
}

func (c movable) Install(ctx context.Context, in rediscursor.Install) (rediscursor.Answer, error) {
	return c.at.Load().Install(ctx, in)
}

// cutOffStore can be cut off altogether.
type cutOffStore struct {
	persist.Store
	away *atomic.Bool
}

func (s cutOffStore) Counters() persist.Counters { return cutOffCounters{s.Store.Counters(), s.away} }

type cutOffCounters struct {
	persist.Counters
	away *atomic.Bool
}

func (c cutOffCounters) Epoch(ctx context.Context, b string) (string, error) {
	if c.away.Load() {
		return "", errDown
	}
	return c.Counters.Epoch(ctx, b)
}

func (c cutOffCounters) Read(ctx context.Context, b string) (persist.Counter, error) {
	if c.away.Load() {
		return persist.Counter{}, errDown
	}
	return c.Counters.Read(ctx, b)
}

func (c cutOffCounters) Allocate(ctx context.Context, r persist.Request) (persist.Range, error) {
	if c.away.Load() {
		return persist.Range{}, errDown
	}
	return c.Counters.Allocate(ctx, r)
}

// The name or virtual address of Redis leads a node to another server, with a cursor that was left
// behind before a restore that was done by the documented steps. The node cannot reach the store.
// It must not issue what the restored store has handed out again.
func TestEpochOldCursorBehindTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left, right := &redisModel{}, &redisModel{}
		before := memory.New(time.Now)
		a := node(t, before, left, &observer{}, nil)
		highest := numbers(t, a, 100)[99]
		synctest.Wait()
		// A take whose answer is lost, or whose caller has left: nobody got these.
		if _, err := left.Take(t.Context(), rediscursor.Take{Count: 50, Threshold: 1, Epoch: left.hash.epoch}); err != nil {
			t.Fatal(err)
		}
		closeAll(t, a)
		// All are stopped, Redis is another server, the store is restored, and raised above all
		// that callers got.
		restored := memory.New(time.Now)
		if err := restored.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: highest, Step: 1}); err != nil {
			t.Fatal(err)
		}
		var away atomic.Bool
		at := &atomic.Pointer[redisModel]{}
		at.Store(right)
		b := node(t, cutOffStore{restored, &away}, movable{at}, &observer{}, nil)
		c := node(t, restored, right, &observer{}, nil)
		seen := map[int64]bool{}
		for _, n := range numbers(t, b, 1) {
			seen[n] = true
		}
		for _, n := range numbers(t, c, 300) {
			seen[n] = true
		}
		synctest.Wait()
		away.Store(true)
		at.Store(left)
		time.Sleep(10 * time.Second)
		for range 20 {
			got, code := try(t, b, 5)
			for _, n := range got {
				if seen[n] {
					t.Fatalf("%d came twice", n)
				}
				seen[n] = true
			}
			if code != "" {
				t.Log(code)
			}
		}
		away.Store(false)
		closeAll(t, b, c)
	})
}

// After a restore, a biz type that was raised without Redis above all that callers got, or made
// again with such a start, as docs/OPERATIONS.md says: what waits in the previous cursor says
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
					if err := restored.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: highest, Step: 1}); err != nil {
						t.Fatal(err)
					}
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
