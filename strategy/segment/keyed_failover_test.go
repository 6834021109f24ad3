package segment

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/counters"
)

// observedKeys is a node of a keyed biz type with per-node ordering, and what it reports.
func observedKeys(t *testing.T, store persist.Store, change func(*Settings)) (*family, *observer) {
	t.Helper()
	o, settings := &observer{}, usual()
	settings.Keyed, settings.Ordering = true, PerNode
	change(&settings)
	validate(t, &settings)
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: o, Addr: strconv.Itoa(rand.Int())}
	built := must.Get(build(env, seqd.BizType{Name: "invoice", Strategy: Name, Settings: &settings}))(t)
	return built.(*family), o
}

// The gap of a key follows the step in the counter's record, although the first range of a node is
// of the smallest step and the node has not read the record.
func TestGapOfAColdKey(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"all numbers": func(*Settings) {}, "every third": func(s *Settings) { s.Increment, s.Offset = 3, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFailingOver()
				growing := func(s *Settings) { s.Step, s.MaxStep, s.RestoreGap = 10, 100_000, AutoGap; change(s) }
				a, _ := observedKeys(t, store, growing)
				step := func() int64 {
					c := must.Get(store.Counters().Read(t.Context(), "invoice/t"))(t)
					return c.Step
				}
				for i := 0; i == 0 || step() < 1280; i++ {
					if _, _, err := of(t.Context(), a, "t", 100); err != nil || i > 1000 {
						t.Fatal(i, err)
					}
					synctest.Wait()
				}
				copied := store.copied()
				held, _, err := of(t.Context(), a, "t", 5000)
				must.Do(t, err)
				synctest.Wait()
				store.failOver(copied)
				b, events := observedKeys(t, store, growing)
				issued := make(map[int64]bool)
				for _, n := range held {
					issued[n] = true
				}
				for _, s := range []*family{b, a} {
					more, _, err := of(t.Context(), s, "t", 1000)
					must.Do(t, err)
					for _, n := range more {
						if issued[n] {
							t.Fatalf("%d was issued twice", n)
						}
						issued[n] = true
					}
				}
				if events.count(seqd.EventStoreFailedOver) != 1 || events.count(seqd.EventStoreBehind) != 0 {
					t.Errorf("events %v", events.counts)
				}
				closed(t, a)
				closed(t, b)
			})
		})
	}
}

// A failover is reported although nobody reads cold keys: at most one a second is read for it.
func TestFailoverOfColdKeysIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFailingOver()
		few := func(s *Settings) { s.Step, s.MaxStep, s.RestoreGap = 10, 10, AutoGap }
		keys := []string{"a", "b", "c", "d"}
		first, _ := observedKeys(t, store, few)
		for _, key := range keys {
			wantOf(t, first, key, 1, "[1]")
		}
		closed(t, first)
		store.failOver(store.copied())
		s, events := observedKeys(t, store, few)
		for i, key := range keys {
			wantOf(t, s, key, 1, "[502]")
			if i == 2 {
				time.Sleep(2 * time.Second)
			}
		}
		if n := events.count(seqd.EventStoreFailedOver); n != 2 || events.numbers(seqd.EventStoreFailedOver) != 1000 {
			t.Errorf("%d events of %d numbers", n, events.numbers(seqd.EventStoreFailedOver))
		}
		closed(t, s)
	})
}

// A node that issued on its own while Redis was away retires the cursor with a gap that follows the
// step in the record. Otherwise it would use up the failover for a smaller gap than others need.
func TestGapOfARetiredCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newFailingOver(), map[string]*redisModel{"invoice/t": {}}
		s := keyed(t, store, time.Now, redis, func(s *Settings) { s.RestoreGap = AutoGap })
		wantOf(t, s, "t", 1, "[1]")
		redis["invoice/t"].change(func(r *redisModel) { r.down = errDown })
		if _, _, err := of(t.Context(), s, "t", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		req := persist.Request{BizTag: "invoice/t", Step: 10_000, To: persist.Beside} // other nodes use it more
		must.Get(store.Counters().Allocate(context.Background(), req))(t)
		before := must.Get(store.Counters().Read(t.Context(), "invoice/t"))(t)
		store.failOver(store.copied())
		closed(t, s)
		after, err := store.Counters().Read(t.Context(), "invoice/t")
		if err != nil || after.FailedOver || after.Max < before.Max+100_000 {
			t.Errorf("%+v, before it was %+v, %v", after, before, err)
		}
		must.Equal(t, s.Env.Observer.(*observer).numbers(seqd.EventStoreFailedOver), after.Max-before.Max, "the numbers in the gap that was reported")
	})
}

// A node that issued on its own closes a key that the store sequences by now. There is no cursor to
// retire, so the sequencer stays. The store may take over before the node looks, or just after.
func TestSequencedKeyIsNotRetired(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %t", late), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, redis := newHooked(), map[string]*redisModel{"invoice/t": {}}
				alone := keyed(t, store, time.Now, redis, nil)
				wantOf(t, alone, "t", 1, "[1]")
				redis["invoice/t"].change(func(r *redisModel) { r.down = errDown })
				held, _, err := of(t.Context(), alone, "t", 1)
				must.Do(t, err)
				synctest.Wait()
				next := keyed(t, store, time.Now, nil, byStore)
				var last int64
				takeOver := func() {
					got, _, err := of(t.Context(), next, "t", 1)
					if err != nil || got[0] <= max(held[0], last) {
						t.Errorf("%v after %v, %d, %v", got, held, last, err)
					}
					last = got[0]
				}
				if late {
					var came atomic.Bool
					store.change(func(h *hookedStore) {
						h.before = func(op string) error {
							if op == "allocate" && came.CompareAndSwap(false, true) {
								takeOver()
							}
							return nil
						}
					})
				} else {
					takeOver()
				}
				closed(t, alone)
				must.Equal(t, must.Get(store.Counters().Epoch(t.Context(), "invoice/t"))(t), persist.StoreEpoch, "the epoch")
				takeOver()
				closed(t, next)
			})
		})
	}
}

// buryingStore lets reads of documents fail.
type buryingStore struct {
	*hookedStore
	fails *atomic.Bool
}

type buryingDocuments struct {
	persist.Documents
	fails *atomic.Bool
}

func (s buryingStore) Documents() persist.Documents {
	return buryingDocuments{s.Store.Documents(), s.fails}
}

func (d buryingDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if d.fails.Load() {
		return persist.Document{}, persist.ErrUnavailable
	}
	return d.Documents.Read(ctx, kind, key)
}

// A virtual machine was suspended while a period was purged, and its clocks stood still. So it
// still relies on what it read of the tombstone before. It creates no key of that period again.
func TestSuspendedWhilePurged(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"per node":     func(s *Settings) { daily(s); s.Ordering = PerNode },
		"by the store": func(s *Settings) { daily(s); byStore(s) },
		"redis":        daily,
	} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reads fail %t", name, fails), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := buryingStore{newHooked(), new(atomic.Bool)}
					node := func() *family {
						var redis map[string]*redisModel
						if name == "redis" {
							redis = map[string]*redisModel{}
						}
						return keyed(t, store, time.Now, redis, change)
					}
					first, suspended, other := node(), node(), node()
					wantOf(t, first, "t", 1, "[1]")
					for _, s := range []*family{suspended, other} {
						if _, _, err := of(t.Context(), s, "x", 1); err != nil { // it knows the tombstone
							t.Fatal(err)
						}
					}
					closed(t, first)
					p := suspended.present().Period
					mark := persist.PurgedDocument("invoice", int64(p), 1, 0)
					must.Do(t, store.Documents().Create(t.Context(), mark))
					counters := must.Get(store.Counters().List(t.Context(), "", 100))(t)
					for _, c := range counters {
						must.Do(t, store.Counters().Delete(t.Context(), c.BizTag))
					}
					if fails {
						store.change(func(h *hookedStore) { // first the answer to the creation is lost
							h.after = func(op string) error {
								if op == "create" {
									return persist.ErrUnavailable
								}
								return nil
							}
						})
						if got, _, err := of(t.Context(), suspended, "lost", 1); err == nil {
							t.Errorf("got %v, %v", got, err)
						}
						store.change(func(h *hookedStore) { h.after = nil })
						if err := suspended.purger.Check(t.Context(), p); err == nil {
							t.Error("an old tombstone is trusted although a key may have been created")
						}
						must.Do(t, store.Documents().Delete(t.Context(), mark.Kind, mark.Key, mark.Revision))
						must.Do(t, suspended.purger.CheckAnew(t.Context(), p)) // as it was before
						must.Do(t, store.Documents().Create(t.Context(), mark))
						store.fails.Store(true)
						if got, _, err := of(t.Context(), suspended, "t", 1); seqd.CodeOf(err) != seqd.CodeStoreUnavailable {
							t.Errorf("got %v, %v", got, err)
						}
						store.fails.Store(false)
					}
					for range 2 {
						if got, _, err := of(t.Context(), suspended, "t", 1); seqd.CodeOf(err) != seqd.CodeClockRollback {
							t.Errorf("got %v, %v", got, err)
						}
					}
					if got, _, err := of(t.Context(), other, "t", 1); !fails && err == nil {
						t.Errorf("another suspended node got %v", got)
					}
					_, _ = suspended.Close(t.Context()), other.Close(t.Context()) // nothing can be given back
				})
			})
		}
	}
}

// A node that cannot retire the cursor of a key that it closes says so. If others take over again
// and again it gives up, and a store that was restored is raised, and stays the sequencer.
func TestRetiringFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), map[string]*redisModel{"invoice/t": {}}
		s := keyed(t, store, time.Now, redis, nil)
		wantOf(t, s, "t", 1, "[1]")
		redis["invoice/t"].change(func(r *redisModel) { r.down = errDown })
		held, _, err := of(t.Context(), s, "t", 1)
		must.Do(t, err)
		synctest.Wait()
		open, _ := s.Peek(counters.Name{Key: "t"})
		c := over(open)
		for op, fails := range map[string]error{"read": errDown, "allocate": persist.ErrEpoch} {
			store.change(func(h *hookedStore) {
				h.calls = make(map[string]int)
				h.before = func(called string) error { return map[string]error{op: fails}[called] }
			})
			must.Is(t, c.retireBehind(t.Context()), fails)
			if n := store.called(op); fails == persist.ErrEpoch && n != mostRaces {
				t.Errorf("it tried %d times", n)
			}
		}
		store.change(func(h *hookedStore) { h.before = nil })
		counters := store.Store.Counters()
		must.Do(t, counters.Delete(t.Context(), "invoice/t"))
		must.Do(t, counters.Create(t.Context(), persist.Counter{BizTag: "invoice/t", Step: 10, Timestamp: 1, Max: held[0] - 1, Epoch: persist.StoreEpoch}))
		for range 2 {
			must.Do(t, c.retireBehind(t.Context()))
			if got := must.Get(counters.Read(t.Context(), "invoice/t"))(t); got.Epoch != persist.StoreEpoch || got.Max < held[0] {
				t.Errorf("the counter is %+v, and %d was issued", got, held[0])
			}
		}
		closed(t, s)
	})
}
