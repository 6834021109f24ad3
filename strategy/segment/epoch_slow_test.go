package segment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// slowEpochs answers about epochs after a while, and honours ctx, as persist/mongo does.
type slowEpochs struct {
	persist.Store
	slow  atomic.Int64 // ns
	alloc atomic.Int64 // ns, ahead of and after an allocation
	fail  atomic.Int64 // how many questions fail
}

func (s *slowEpochs) Counters() persist.Counters { return slowEpochCounters{s.Store.Counters(), s} }

type slowEpochCounters struct {
	persist.Counters
	store *slowEpochs
}

func (c slowEpochCounters) Epoch(ctx context.Context, bizTag string) (string, error) {
	select {
	case <-time.After(time.Duration(c.store.slow.Load())):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if c.store.fail.Load() > 0 {
		c.store.fail.Add(-1)
		return "", errors.New("connection reset")
	}
	return c.Counters.Epoch(ctx, bizTag)
}

func (c slowEpochCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	r, err := c.Counters.Allocate(ctx, req)
	time.Sleep(time.Duration(c.store.alloc.Load()))
	return r, err
}

// A node with sparse traffic over a store that answers questions in 300 ms never learns that its
// cursor does not count.
func TestEpochSparseTrafficAndSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := &slowEpochs{Store: memory.New(time.Now)}, &redisModel{}
		store.slow.Store(int64(300 * time.Millisecond))
		s := node(t, store, redis, &observer{}, nil)
		numbers(t, s, 1)
		synctest.Wait()
		time.Sleep(time.Minute)
		theirs := own(t, store, 10)
		began := time.Now()
		var wrong int
		for range 100 {
			time.Sleep(10 * time.Second)
			if n := numbers(t, s, 1)[0]; n <= theirs.Last {
				wrong++
			}
		}
		if wrong > 0 {
			t.Errorf("%d of 100 numbers within %s were below %d", wrong, time.Since(began), theirs.Last)
		}
		closeAll(t, s)
	})
}

// One question that fails must not make beliefs older than 5 s count while the store answers.
func TestEpochOneFailedQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := &slowEpochs{Store: memory.New(time.Now)}, &redisModel{}
		s := node(t, store, redis, &observer{}, nil)
		numbers(t, s, 1)
		synctest.Wait()
		time.Sleep(cursor.RecheckEpoch)
		numbers(t, s, 1) // asks in the background
		synctest.Wait()
		store.fail.Store(1)
		theirs := own(t, store, 10)
		began := time.Now()
		var worst time.Duration
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			if n := numbers(t, s, 1)[0]; n <= theirs.Last {
				worst = time.Since(began)
			}
		}
		if worst > cursor.TrustEpoch {
			t.Errorf("%s after", worst)
		}
		closeAll(t, s)
	})
}

// Close must not wait for a question.
func TestEpochCloseAndHangingQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := &slowEpochs{Store: memory.New(time.Now)}, &redisModel{}
		s := node(t, store, redis, &observer{}, nil)
		numbers(t, s, 1)
		time.Sleep(cursor.RecheckEpoch)
		store.slow.Store(int64(time.Minute))
		numbers(t, s, 1)
		began := time.Now()
		closeAll(t, s)
		if d := time.Since(began); d > time.Second {
			t.Errorf("Close took %s", d)
		}
	})
}

// Nodes that all find their cursor gone, or not counting any more, agree on one, whatever the
// distances.
func TestEpochSeedsSettle(t *testing.T) {
	const nodes = 4
	for _, redisTakes := range sweep {
		for _, storeTakes := range longtest.Or([]time.Duration{2}, []time.Duration{2, 100}) {
			for _, how := range []string{"lose", "own"} {
				t.Run(fmt.Sprint("redis ", int(redisTakes), " store ", int(storeTakes), " ", how), func(t *testing.T) {
					settles(t, nodes, redisTakes*time.Millisecond, storeTakes*time.Millisecond, how)
				})
			}
		}
	}
}

// sweep is how many ms Redis takes. From 250 on it counts as away.
var sweep = longtest.Or([]time.Duration{249}, []time.Duration{80, 230, 245, 249})

func settles(t *testing.T, count int, redisTakes, storeTakes time.Duration, how string) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		o := &observer{}
		var nodes []*Counter
		for range count {
			nodes = append(nodes, node(t, store, slowCursor{redis, redisTakes}, o, func(s *Settings) { s.OnRedisDown = Degrade }))
		}
		for _, s := range nodes {
			_, _ = try(t, s, 1)
		}
		time.Sleep(20 * time.Second)
		half := func(string) error { time.Sleep(storeTakes / 2); return nil }
		store.change(func(h *hookedStore) { h.before, h.after = half, half })
		stop := make(chan struct{})
		var wg sync.WaitGroup
		var answered, refused atomic.Int64
		for _, s := range nodes {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(37 * time.Millisecond):
					}
					if _, code := try(t, s, 1); code != "" {
						refused.Add(1)
					} else {
						answered.Add(1)
					}
				}
			})
		}
		time.Sleep(10 * time.Second)
		if how == "lose" {
			redis.lose()
		} else {
			own(t, store.Store, 1)
		}
		seeded, top := o.count("seeded"), counter(t, store.Store).Max
		time.Sleep(2 * time.Minute)
		first, firstTop := o.count("seeded")-seeded, counter(t, store.Store).Max-top
		seeded, top = o.count("seeded"), counter(t, store.Store).Max
		a0, r0 := answered.Load(), refused.Load()
		time.Sleep(5 * time.Minute)
		later, laterTop := o.count("seeded")-seeded, counter(t, store.Store).Max-top
		if later > 1 || first > 3*count || o.count("cursor_contested") > 0 {
			t.Errorf("seeds: %d in the first 2 min (%d numbers), %d in the next 5 min (%d numbers for %d answered, %d refused); contested %d", first, firstTop, later, laterTop,
				answered.Load()-a0, refused.Load()-r0, o.count("cursor_contested"))
		}
		close(stop)
		wg.Wait()
		closeAll(t, nodes...)
	})
}

// After the epoch was emptied a single node, which learns that and draws one, does not wait for
// another node.
func TestEpochOwnDraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		s := node(t, store, redis, &observer{}, nil)
		numbers(t, s, 1)
		synctest.Wait()
		own(t, store, 1)
		time.Sleep(time.Minute)
		began := time.Now()
		numbers(t, s, 1)
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("the only node waited %s for itself", d)
		}
		closeAll(t, s)
	})
}

// The cursor is used up, and the store has forgotten its epoch. While questions fail, or take 300
// ms, and allocations work.
func TestEpochUsedUpAndNoAnswer(t *testing.T) {
	for _, how := range []string{"slow", "failing"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, redis := &slowEpochs{Store: memory.New(time.Now)}, &redisModel{}
				counted := newHooked()
				counted.Store = store
				s := node(t, counted, redis, &observer{}, small)
				numbers(t, s, 1)
				synctest.Wait()
				own(t, store, 1)
				store.alloc.Store(int64(time.Millisecond))
				if how == "slow" {
					store.slow.Store(int64(300 * time.Millisecond))
				} else {
					store.slow.Store(int64(time.Millisecond))
					store.fail.Store(1 << 40)
				}
				calls, allocations, refused := redis.calls, counted.called("allocate"), 0
				began := time.Now()
				for time.Since(began) < 5*time.Second {
					if _, code := try(t, s, 1); code != "" {
						refused++
					}
				}
				if refused > 1 && how == "slow" {
					t.Errorf("%d calls refused", refused)
				}
				if n := counted.called("allocate") - allocations; n > 20 && how == "failing" {
					t.Errorf("%d allocations tried and %d calls to Redis", n, redis.calls-calls)
				}
				store.fail.Store(0)
				closeAll(t, s)
			})
		})
	}
}
