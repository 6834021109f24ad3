package segment

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// jitterStore and jitterCursor take a while for each call, before and after.
type jitterStore struct {
	persist.Store
	wait func()
}

func (s jitterStore) Counters() persist.Counters { return jitterCounters{s.Store.Counters(), s.wait} }

type jitterCounters struct {
	persist.Counters
	wait func()
}

func (c jitterCounters) Epoch(ctx context.Context, b string) (string, error) {
	c.wait()
	defer c.wait()
	return c.Counters.Epoch(context.WithoutCancel(ctx), b)
}

func (c jitterCounters) Read(ctx context.Context, b string) (persist.Counter, error) {
	c.wait()
	defer c.wait()
	return c.Counters.Read(context.WithoutCancel(ctx), b)
}

func (c jitterCounters) Allocate(ctx context.Context, r persist.Request) (persist.Range, error) {
	c.wait()
	defer c.wait()
	return c.Counters.Allocate(context.WithoutCancel(ctx), r)
}

func (c jitterCounters) GiveBack(ctx context.Context, b string, r persist.Range) (bool, error) {
	c.wait()
	defer c.wait()
	return c.Counters.GiveBack(context.WithoutCancel(ctx), b, r)
}

type jitterCursor struct {
	at   *atomic.Pointer[redisModel]
	wait func()
}

func (c jitterCursor) Take(ctx context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	c.wait()
	defer c.wait()
	return c.at.Load().Take(ctx, t)
}

func (c jitterCursor) Install(ctx context.Context, in rediscursor.Install) (rediscursor.Answer, error) {
	c.wait()
	defer c.wait()
	return c.at.Load().Install(ctx, in)
}

// Nodes are configured with different Redis servers and orderings for a while, and change in life.
// No number comes twice, each process keeps its order, and 5 s after the last of them was put right
// order holds over all nodes, above all that was issued before.
func TestEpochMixedConfigurations(t *testing.T) {
	for seed := range *seeds * 4 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { t.Parallel(); mixed(t, uint64(seed)) })
	}
}

func mixed(t *testing.T, seed uint64) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		rng := rand.New(rand.NewPCG(seed, 7))
		n := func(most int) int { mu.Lock(); defer mu.Unlock(); return rng.IntN(most) }
		storeWait, redisWait := 1+n(60), 1+n(40)
		store := jitterStore{memory.New(time.Now), func() { time.Sleep(time.Duration(n(storeWait*1000)) * time.Microsecond) }}
		servers := []*redisModel{{}, {}}
		all, o := ordercheck.New(), &observer{}
		type life struct {
			seqd.Strategy
			h    *ordercheck.Record
			good bool // strict and on server 0
		}
		const count = 4
		var nodes [count]atomic.Pointer[life]
		begin := func(before *life, good bool) *life {
			settings := DefaultSettings()
			settings.Step = int64(1 + n(50))
			settings.MaxStep = settings.Step * int64(1+n(4))
			settings.ReserveSegments = n(3)
			env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: o}
			b := seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}
			l := &life{h: ordercheck.New(), good: true}
			if !good && n(2) == 0 {
				s, err := New(env, b)
				if err != nil {
					t.Fatal(err)
				}
				l.Strategy, l.good = s, false
			} else {
				at := &atomic.Pointer[redisModel]{}
				at.Store(servers[0])
				if !good && n(2) == 0 {
					at.Store(servers[1])
					l.good = false
				}
				s, err := NewShared(env, b, jitterCursor{at, func() { time.Sleep(time.Duration(n(redisWait*1000)) * time.Microsecond) }})
				if err != nil {
					t.Fatal(err)
				}
				l.Strategy = s
			}
			inherits := before != nil && n(2) == 0
			if inherits { // the same process: the old strategy ends before the heir begins
				l.h = before.h
				_ = before.Close(context.Background())
				if h, ok := l.Strategy.(interface{ Inherit(seqd.Strategy) }); ok {
					h.Inherit(before.Strategy)
				}
			}
			if err := l.Init(context.Background(), true); err != nil {
				t.Fatal(err)
			}
			return l
		}
		for i := range nodes {
			nodes[i].Store(begin(nil, false))
		}
		stop := make(chan struct{})
		var settled atomic.Bool
		after := ordercheck.New()
		var wg sync.WaitGroup
		pauses := []int{5, 50, 500, 3000, 9000}
		for i := range nodes {
			for range 3 {
				pause := pauses[n(len(pauses))]
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(n(pause)) * time.Millisecond):
						}
						l := nodes[i].Load()
						counts, began := settled.Load(), all.Now()
						var seq seqd.Sequence
						if err := l.Generate(context.Background(), 1+n(20), &seq); err != nil {
							continue
						}
						call := ordercheck.Call{Start: began, End: all.Now(), Who: fmt.Sprint(i), Numbers: slices.Collect(seq.Numbers())}
						all.AddCall(call)
						l.h.AddCall(call)
						if counts {
							after.AddCall(call)
						}
					}
				})
			}
		}
		change := func(i int, good bool) {
			before := nodes[i].Load()
			next := begin(before, good)
			nodes[i].Store(next)
			_ = before.Close(context.Background())
		}
		for range 3 + n(20) {
			time.Sleep(time.Duration(n(6000)) * time.Millisecond)
			change(n(count), false)
		}
		for i := range nodes {
			if !nodes[i].Load().good {
				time.Sleep(time.Duration(n(2000)) * time.Millisecond)
				change(i, true)
			}
		}
		time.Sleep(cursor.TrustEpoch + 100*time.Millisecond) // and what the calls take
		top := all.Highest()
		settled.Store(true)
		time.Sleep(time.Minute)
		close(stop)
		wg.Wait()
		for i := range nodes {
			_ = nodes[i].Load().Close(context.Background())
		}
		if err := all.Duplicates(); err != nil {
			t.Error(err)
		}
		for i := range nodes {
			if err := nodes[i].Load().h.Order(); err != nil {
				t.Errorf("node %d: %v", i, err)
			}
		}
		if err := after.Order(); err != nil {
			t.Error("after all: ", err)
		}
		after.Each(func(c ordercheck.Call) {
			if c.Numbers[0] <= top {
				t.Errorf("%v, up to %d came before", c, top)
			}
		})
	})
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
		b := node(t, cutOffStore{restored, &away}, jitterCursor{at, func() {}}, &observer{}, nil)
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
