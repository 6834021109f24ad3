package segment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// hookedStore is a store that nodes share, whose operations on counters can be slow or fail.
type hookedStore struct {
	persist.Store
	mu     sync.Mutex // guards what follows
	before func(op string) error
	after  func(op string) error // the reply is lost if it returns an error
	waits  string                // the operation that lasts until it is cancelled
	calls  map[string]int
}

func newHooked() *hookedStore {
	return &hookedStore{Store: memory.New(time.Now), calls: make(map[string]int)}
}

func (h *hookedStore) Shared() bool               { return true }
func (h *hookedStore) Counters() persist.Counters { return hookedShared{h.Store.Counters(), h} }

func (h *hookedStore) change(f func(*hookedStore)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(h)
}

// fails lets one operation fail with err, or none if err is nil.
func (h *hookedStore) fails(op string, err error) {
	h.change(func(h *hookedStore) {
		h.before = func(called string) error {
			if called == op {
				return err
			}
			return nil
		}
	})
}

// hangs lets one operation last until it is cancelled, none if it is "".
func (h *hookedStore) hangs(op string) { h.change(func(h *hookedStore) { h.waits = op }) }

func (h *hookedStore) called(op string) (n int) {
	h.change(func(h *hookedStore) { n = h.calls[op] })
	return n
}

// call runs an operation with what goes before and after it.
func (h *hookedStore) call(ctx context.Context, op string, f func() error) error {
	h.mu.Lock()
	h.calls[op]++
	before, after, waits := h.before, h.after, h.waits == op
	h.mu.Unlock()
	if before != nil {
		if err := before(op); err != nil {
			return err
		}
	}
	if waits {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := f(); err != nil || after == nil {
		return err
	}
	return after(op)
}

type hookedShared struct {
	persist.Counters
	h *hookedStore
}

func (c hookedShared) Read(ctx context.Context, name string) (counter persist.Counter, err error) {
	err = c.h.call(ctx, "read", func() error { counter, err = c.Counters.Read(ctx, name); return err })
	return counter, err
}

func (c hookedShared) Allocate(ctx context.Context, req persist.Request) (r persist.Range, err error) {
	err = c.h.call(ctx, "allocate", func() error { r, err = c.Counters.Allocate(ctx, req); return err })
	if err != nil {
		return persist.Range{}, err
	}
	return r, nil
}

func (c hookedShared) Create(ctx context.Context, counter persist.Counter) error {
	return c.h.call(ctx, "create", func() error { return c.Counters.Create(ctx, counter) })
}

// newStored is a node that takes from the store. retire, if it is not nil, removes the cursor.
// retired is the cursor that retire removes, nil if it is nil.
func retired(retire func(context.Context) error) sharedCursor {
	if retire == nil {
		return nil
	}
	return dropped(retire)
}

// dropped is a cursor that can only be removed.
type dropped func(context.Context) error

func (d dropped) Drop(ctx context.Context) error { return d(ctx) }

func (dropped) Take(context.Context, rediscursor.Take) (t rediscursor.Taken, err error) {
	return t, errDown
}

func (dropped) Install(context.Context, rediscursor.Install) (a rediscursor.Answer, err error) {
	return a, errDown
}

func newStored(t testing.TB, store persist.Store, retire func(context.Context) error, change func(*Settings)) (*Counter, *observer) {
	t.Helper()
	settings, o := usual(), &observer{}
	if change != nil {
		change(&settings)
	}
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: o}
	s := newSequenced(must.Get(originOf(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, "order"))(t), retired(retire))
	must.Do(t, s.Init(t.Context(), true))
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s, o
}

func byStore(s *Settings) { s.Sequencer = SequencerStore }

// Nodes take turns: every number is issued, in order, and one take costs one call.
func TestStoredNodesCountTogether(t *testing.T) {
	store := newHooked()
	from100 := func(s *Settings) { s.Start = 100 }
	a, _ := newStored(t, store, nil, from100)
	b, _ := newStored(t, store, nil, from100)
	next := int64(100)
	for i := range 50 {
		for _, s := range []*Counter{a, b} {
			for _, n := range numbers(t, s, 1+i%3) {
				if n != next {
					t.Fatalf("got %d, want %d", n, next)
				}
				next++
			}
		}
	}
	// b was opened before a took over, so its first take was refused and it read once more.
	must.Equal(t, store.called("allocate"), 101, "the calls that 100 takes cost")
	must.Equal(t, store.called("read"), 3, "the reads, one for each start and one for the take-over,")
	if c := counter(t, store); c.Epoch != persist.StoreEpoch || c.Max != next-1 {
		t.Errorf("the counter is %+v", c)
	}
}

// While the store is away callers are refused after acquireTimeout, the store gets about one call a
// second, and the node is back by itself; only numbers in flight are skipped.
func TestStoredStoreAwayAndBack(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := newHooked()
			s, o := newStored(t, store, nil, func(s *Settings) { s.AcquireTimeout = time.Second })
			numbers(t, s, 1)
			away := func(string) error { return errDown }
			store.change(func(h *hookedStore) {
				if h.calls = make(map[string]int); lost {
					h.after = away
				} else {
					h.before = away
				}
			})
			must.Equal(t, s.Health(), nil, "health when nobody has noticed")
			began := time.Now()
			var wg sync.WaitGroup
			for range 20 {
				wg.Go(func() {
					for time.Since(began) < 30*time.Second {
						if _, code := try(t, s, 1); code != seqd.CodeStoreUnavailable {
							t.Errorf("code %q", code)
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			wg.Wait()
			must.Code(t, s.Health(), seqd.CodeStoreUnavailable, "health")
			if takes, reads := store.called("allocate"), store.called("read"); takes != 1 || reads > 40 {
				t.Errorf("in 30 s of outage there were %d takes and %d reads", takes, reads)
			}
			store.change(func(h *hookedStore) { h.before, h.after = nil, nil })
			time.Sleep(2 * time.Second)
			must.Equal(t, s.Health(), nil, "health when the store is back")
			want := int64(2)
			if lost {
				want = 2 + 1 // one caller led the take whose answer was lost, before the others came
			}
			if got := numbers(t, s, 1)[0]; got < want || got > want+19 || !lost && got != want {
				t.Errorf("got %d, want %d", got, want)
			}
			for kind, want := range map[seqd.EventKind]int{seqd.EventStoreAway: 1, seqd.EventStoreBack: 1} {
				must.Equal(t, o.count(kind), want, "the times of %s", kind)
			}
			_ = s.Close(t.Context())
		})
	}
}

// The gap above a store that was restored follows the step on record, which another node may have
// set.
func TestStoredKnowsTheRecord(t *testing.T) {
	store := memory.New(time.Now)
	must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 5, Step: 700}))
	s, _ := newStored(t, store, nil, func(s *Settings) { s.RestoreGap, s.Step = 0, 100 })
	numbers(t, s, 1)
	restore(t, store, 3)
	must.Equal(t, numbers(t, s, 1)[0], int64(6+7001+1), "the next number")
}

// Only numbers above all that this process has seen are issued from a store that was restored.
func TestStoredRestored(t *testing.T) {
	store := memory.New(time.Now)
	a, o := newStored(t, store, nil, func(s *Settings) { s.RestoreGap = 5000; s.Step = 1 })
	numbers(t, a, 100)
	numbers(t, a, 50)
	restore(t, store, 100)
	must.Equal(t, numbers(t, a, 1)[0], int64(150+5001+1), "the next number")
	must.Equal(t, o.count(seqd.EventStoreBehind), 1, "events %v", o.counts)
	if got := numbers(t, a, 1)[0]; got != 5153 || o.count(seqd.EventStoreBehind) != 1 {
		t.Errorf("then got %d; events %v", got, o.counts)
	}
}

// At the end of all numbers each of them is issued, then callers are refused, which is healthy.
func TestStoredExhausted(t *testing.T) {
	store := newHooked()
	s, o := newStored(t, store, nil, func(s *Settings) { s.Start = seqd.MaxNumber - 9 })
	must.Equal(t, numbers(t, s, 8)[7], seqd.MaxNumber-2)
	var wg sync.WaitGroup
	h := ordercheck.New()
	for i := range 10 {
		wg.Go(func() {
			began := h.Now()
			if got, code := try(t, s, 1); code == "" {
				h.Add(began, fmt.Sprint(i), got)
			} else if code != seqd.CodeExhausted {
				t.Errorf("code %s", code)
			}
		})
	}
	wg.Wait()
	if err := h.Check(); err != nil || h.Numbers() != 2 {
		t.Errorf("%d of the last 2 numbers were issued; %v", h.Numbers(), err)
	}
	if s.Health() != nil || o.count(seqd.EventNearlyExhausted) != 1 {
		t.Errorf("health %v, events %v", s.Health(), o.counts)
	}
}

// A counter that the store has lost is refused, and issued from again when it is back.
func TestStoredCounterLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s, _ := newStored(t, store, nil, nil)
		numbers(t, s, 10)
		kept := counter(t, store)
		must.Do(t, store.Counters().Delete(t.Context(), "order"))
		for range 2 {
			if _, code := try(t, s, 1); code != seqd.CodeConflict {
				t.Errorf("code %s", code)
			}
		}
		must.Code(t, s.Health(), seqd.CodeConflict, "health")
		must.Do(t, store.Counters().Create(t.Context(), kept))
		time.Sleep(2 * time.Second)
		if got := numbers(t, s, 1)[0]; got != 11 || s.Health() != nil {
			t.Errorf("got %d, health %v", got, s.Health())
		}
		_ = s.Close(t.Context())
	})
}

// The step in the store follows consumption, so that restoreGap can.
func TestStoredRecordsTheStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s, _ := newStored(t, store, nil, func(s *Settings) { s.Step, s.TargetDuration = 100, 10*time.Second })
		for range 100 {
			numbers(t, s, 10)
			time.Sleep(100 * time.Millisecond) // 100 numbers a second
			synctest.Wait()
		}
		for range 100 {
			numbers(t, s, 100)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if step := counter(t, store).Step; step < 500 || step > 2000 {
			t.Errorf("at 100 numbers a second and a target of 10 s the step is %d", step)
		}
		if reads := store.called("read"); reads > 60 {
			t.Errorf("200 takes cost %d reads", reads)
		}
		_ = s.Close(t.Context())
	})
}

// What `sequencer` does about a counter that a cursor in Redis sequences.
func TestStoredFindsACursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		c := node(t, store, redis, &observer{}, nil)
		issued := numbers(t, c, 100)[99]
		synctest.Wait()
		closeAll(t, c)

		auto, _ := newStored(t, store, nil, nil)
		_, code := try(t, auto, 1)
		if code != seqd.CodeConflict || !errors.Is(auto.Health(), error(storetake.ErrCursor)) {
			t.Errorf("auto without Redis: code %q, health %v", code, auto.Health())
		}
		if redis.hash == nil {
			t.Fatal("there is no cursor")
		}
		a, _ := newStored(t, store, redis.Drop, byStore)
		b, _ := newStored(t, store, redis.Drop, byStore)
		last := issued
		for range 3 {
			for _, s := range []*Counter{a, b} {
				got := numbers(t, s, 1)[0]
				if got <= last {
					t.Errorf("got %d after %d", got, last)
				}
				last = got
			}
		}
		if redis.hash != nil {
			t.Error("the cursor was not removed")
		}
		time.Sleep(2 * time.Second)
		must.Equal(t, numbers(t, auto, 1)[0], last+1, "the next number of auto")
		for _, s := range []*Counter{auto, a, b} {
			_ = s.Close(t.Context())
		}
	})
}

// A node takes over from a cursor once. If a cursor takes over later, the node refuses until the
// store sequences the counter again, or its definition changes.
func TestStoredTakesOverOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		old, _ := newStored(t, store, redis.Drop, byStore)
		numbers(t, old, 10)
		c := node(t, store, redis, &observer{}, func(s *Settings) { s.Sequencer = SequencerRedis })
		last := numbers(t, c, 10)[9]
		for range 5 {
			if _, code := try(t, old, 1); code != seqd.CodeStarting {
				t.Errorf("the node with the old definition answered %q", code)
			}
			got := numbers(t, c, 1)[0]
			if got <= last {
				t.Errorf("%d after %d", got, last)
			}
			last = got
			time.Sleep(time.Second)
		}
		must.Code(t, old.Health(), seqd.CodeStarting, "health")
		// The definition changes back: the cursor's node is closed, and another one takes over.
		closeAll(t, c)
		again, _ := newStored(t, store, redis.Drop, byStore)
		if got := numbers(t, again, 1)[0]; got <= last {
			t.Errorf("%d after %d", got, last)
		}
		time.Sleep(2 * time.Second)
		numbers(t, old, 1)
		_ = old.Close(t.Context())
		_ = again.Close(t.Context())
	})
}

// A cursor takes over from the store once, too. It does not issue on its own while the store has
// the order.
func TestSharedYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		old := node(t, store, redis, &observer{}, func(s *Settings) { s.Sequencer = SequencerRedis })
		last := numbers(t, old, 10)[9]
		synctest.Wait()
		s, _ := newStored(t, store, redis.Drop, byStore)
		if got := numbers(t, s, 1)[0]; got <= last {
			t.Errorf("%d after %d", got, last)
		}
		for round := range 4 {
			if round == 2 { // nor if Redis goes away
				redis.change(func(r *redisModel) { r.down = errDown })
			}
			if got, code := try(t, old, 1); code != seqd.CodeStarting {
				t.Errorf("the node with the old definition answered %q %v", code, got)
			}
			time.Sleep(2 * time.Second)
		}
		must.Code(t, old.Health(), seqd.CodeStarting, "health")
		redis.change(func(r *redisModel) { r.down = nil })
		last = numbers(t, s, 1)[0]
		_ = s.Close(t.Context())
		again := node(t, store, redis, &observer{}, func(s *Settings) { s.Sequencer = SequencerRedis })
		if got := numbers(t, again, 1)[0]; got <= last {
			t.Errorf("%d after %d", got, last)
		}
		time.Sleep(3 * time.Second)
		numbers(t, old, 1)
		closeAll(t, old, again)
	})
}

// A node whose `sequencer` is redis refuses while Redis is away, if the store has the order.
func TestSharedWaitsForRedisToTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{down: errDown}
		s, _ := newStored(t, store, nil, nil)
		last := numbers(t, s, 1)[0]
		c := node(t, store, redis, &observer{}, func(s *Settings) { s.Sequencer = SequencerRedis })
		if got, code := try(t, c, 1); code != seqd.CodeRedisUnavailable {
			t.Errorf("got %v, code %q", got, code)
		}
		last = max(last, numbers(t, s, 1)[0])
		redis.change(func(r *redisModel) { r.down = nil })
		time.Sleep(2 * time.Second)
		if got := numbers(t, c, 1)[0]; got <= last {
			t.Errorf("%d after %d", got, last)
		}
		closeAll(t, c)
		_ = s.Close(t.Context())
	})
}

// Over nodes, a store that comes and goes, lost replies, and callers who leave: order and no number
// twice, and every number that left the store is accounted for.
func TestStoredRandom(t *testing.T) {
	for seed := range uint64(longtest.Or(6, 100)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 7))
				store, h := newHooked(), newBoth()
				var nodes []*Counter
				for range 3 {
					s, _ := newStored(t, store, nil, func(s *Settings) { s.AcquireTimeout = 300 * time.Millisecond })
					nodes = append(nodes, s)
				}
				var wg sync.WaitGroup
				for caller := range 12 {
					random := rand.New(rand.NewPCG(seed, uint64(caller)))
					wg.Go(func() {
						for range 60 {
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(500))*time.Millisecond)
							_ = h.ask(ctx, t, nodes[caller%3], anyKind(random), 1+random.IntN(5), fmt.Sprint(caller))
							cancel()
							time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
						}
					})
				}
				for range 20 {
					fault := random.IntN(3)
					store.change(func(s *hookedStore) {
						s.before = func(string) error { time.Sleep(time.Millisecond); return nil }
						s.after = nil
						switch fault {
						case 1:
							s.before = func(string) error { return errDown }
						case 2:
							s.after = func(string) error { time.Sleep(time.Millisecond); return errDown }
						}
					})
					time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
				}
				store.change(func(s *hookedStore) { s.before, s.after = nil, nil })
				wg.Wait()
				must.Report(t, errors.Join(h.duplicates(), h.ordered.Order()))
				if h.ordered.Numbers() == 0 || h.ranges.Numbers() == 0 {
					t.Error("nothing was issued")
				}
				for _, s := range nodes {
					_ = s.Close(t.Context())
				}
			})
		})
	}
}

// A stop waits for the take under way, and callers who come later are refused.
func TestStoredClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s, _ := newStored(t, store, nil, nil)
		numbers(t, s, 1)
		store.change(func(h *hookedStore) { h.before = func(string) error { time.Sleep(time.Second); return nil } })
		got := make(chan []int64, 1)
		go func() { got <- numbers(t, s, 3) }()
		synctest.Wait()
		began := time.Now()
		must.Report(t, s.Close(t.Context()))
		must.Equal(t, time.Since(began), time.Second, "the stop, with a take of a second under way, took")
		if n := <-got; len(n) != 3 {
			t.Errorf("got %v", n)
		}
		if _, code := try(t, s, 1); code != seqd.CodeStopping {
			t.Errorf("code %q", code)
		}
		must.Equal(t, counter(t, store).Max, 4, "the maximum after a clean stop, which skips none,")
		if k := s.knows(); k.issued != 4 || k.alone != 4 {
			t.Errorf("it knows %+v", k)
		}
	})
}

// Another node creates the counter just before this one does: then the counter is read again, and
// an answer that does not come is no success.
func TestInitBesideAnother(t *testing.T) {
	for name, test := range map[string]struct {
		lost string // the operation whose answer does not come, once the other node was there
		code seqd.Code
	}{"well": {"", ""}, "create": {"create", seqd.CodeStoreUnavailable}, "read": {"read", seqd.CodeStoreUnavailable}} {
		synctest.Test(t, func(t *testing.T) {
			store, settings := newHooked(), DefaultSettings()
			env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: &observer{}}
			s := newSequenced(must.Get(originOf(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, "order"))(t), nil)
			created := false
			store.before = func(op string) error {
				if op == "create" {
					created = true
					must.Report(t, store.Store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 500, Step: 1, Epoch: persist.StoreEpoch}))
				}
				if created && op == test.lost {
					return persist.ErrUnavailable
				}
				return nil
			}
			must.Code(t, s.Init(t.Context(), true), test.code, "%s", name)
			if reads := store.called("read"); test.code == "" && reads != 2 {
				t.Errorf("%s: %d reads", name, reads)
			}
			store.change(func(h *hookedStore) { h.before = nil })
			if test.code != "" {
				if err := s.Init(t.Context(), false); err != nil {
					t.Errorf("%s, once more: %v", name, err)
				}
			}
			must.Equal(t, numbers(t, s, 1)[0], 501, "%s: the next number", name)
			_ = s.Close(t.Context())
		})
	}
}

// A stop cancels a read of the counter that is under way: after a take that failed, or for the
// step.
func TestStoredCloseCancelsReads(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, s *Counter, store *hookedStore){
		"after a failure": func(t *testing.T, s *Counter, store *hookedStore) {
			store.change(func(h *hookedStore) { h.before = func(string) error { return errDown } })
			go func() { _, _ = try(t, s, 1) }()
			time.Sleep(50 * time.Millisecond)
		},
		"for the step": func(t *testing.T, s *Counter, _ *hookedStore) {
			numbers(t, s, int(s.settings.Step))
			synctest.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newHooked()
				s, _ := newStored(t, store, nil, nil)
				numbers(t, s, 1)
				store.hangs("read")
				begin(t, s, store)
				began := time.Now()
				if err := s.Close(t.Context()); err != nil || time.Since(began) != 0 {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			})
		})
	}
}

// Nothing is in hand, and the rate is that of the store.
func TestMeasureStored(t *testing.T) {
	s, _ := newStored(t, newHooked(), nil, func(s *Settings) { s.Start = 101 })
	wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugeInHand: 0, seqd.GaugeStep: 0, seqd.GaugeFill: missing, seqd.GaugeHighest: missing, seqd.GaugeRate: 0})
	numbers(t, s, 10)
	wantGauges(t, s, map[seqd.Gauge]float64{seqd.GaugeInHand: 0, seqd.GaugeStep: 0, seqd.GaugeFill: missing, seqd.GaugeHighest: 110})
}

// Periods are sequenced by the store each on its own, and a period that was removed is not issued
// from again.
func TestStoredPeriods(t *testing.T) {
	store := newHooked()
	settings := DefaultSettings()
	settings.Reset = seqd.ResetDaily
	var clock clock
	clock.set("2026-11-20T12:00:00Z")
	env := strategy.Env{Store: store, Now: clock.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
	built := must.Get(build(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}))(t)
	s := built.(*family)
	defer func() { _ = s.Close(context.Background()) }()
	must.Do(t, s.Init(t.Context(), true))
	first := numbers(t, s, 3)
	clock.set("2026-11-21T12:00:00Z")
	if second := numbers(t, s, 3); !slices.Equal(first, []int64{1, 2, 3}) || !slices.Equal(second, first) {
		t.Errorf("got %v, then %v", first, second)
	}
	if details := s.Details(); details["sequencer"] != "store" || details["period"] != "2026-11-21" {
		t.Errorf("details %v", details)
	}
	for _, day := range []string{"order@20261120", "order@20261121"} {
		counter, err := store.Counters().Read(t.Context(), day)
		if err != nil || counter.Epoch != persist.StoreEpoch || counter.Max != 3 {
			t.Errorf("%+v, %v", counter, err)
		}
	}
}

// floorless is a store that ignores the floor of an allocation.
type floorless struct{ *hookedStore }

func (f floorless) Counters() persist.Counters { return floorlessCounters{f.hookedStore.Counters()} }

type floorlessCounters struct{ persist.Counters }

func (c floorlessCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	req.Floor = 0
	return c.Counters.Allocate(ctx, req)
}

// A node refuses what it has seen already, whatever the store says, and reports it.
func TestStoredRefusesWhatItHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := floorless{newHooked()}
		s, o := newStored(t, store, nil, byStore)
		last := numbers(t, s, 20)[19]
		restore(t, store, 15)
		if got := numbers(t, s, 10)[0]; got <= last || o.numbers(seqd.EventOutOfOrder) != 10 || o.numbers(seqd.EventAbandoned) != 10 {
			t.Errorf("got %d after %d; events %v", got, last, o.counts)
		}
	})
}

// A cursor that cannot be removed is no reason to wait, and is logged.
func TestStoredLogsWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s, _ := newStored(t, store, func(context.Context) error { return errDown }, byStore)
		var log strings.Builder
		s.env.Log = slog.New(slog.NewTextHandler(&log, nil))
		numbers(t, s, 1)
		numbers(t, s, 1)
		must.Equal(t, strings.Count(log.String(), "could not be removed"), 1, "the times logged in %s", &log)
	})
}

// A counter that is read again is used only if it is still the one that was opened.
func TestStoredReadsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s, _ := newStored(t, store, nil, byStore)
		var gone error
		watched(s, func() error { return gone })
		store.change(func(h *hookedStore) { h.before = func(string) error { return errDown } })
		if _, code := try(t, s, 1); code != seqd.CodeStoreUnavailable {
			t.Errorf("code %q", code)
		}
		gone = purged()
		store.change(func(h *hookedStore) { h.before = nil })
		for _, want := range []bool{false, true} {
			time.Sleep(3 * time.Second)
			from := s.source().(*stored)
			from.mu.Lock()
			must.Equal(t, from.machine.Mode() == storetake.Online, want, "it takes")
			gone = nil
			from.mu.Unlock()
		}
	})
}

// After a failover of the store, which may have lost takes, the take that takes over says so.
func TestStoredTellsOfAFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFailingOver()
		s, o := newStored(t, store, nil, func(s *Settings) { byStore(s); s.RestoreGap = 1000 })
		last := numbers(t, s, 10)[9]
		store.failOver(store.copied())
		store.confirm()
		got := numbers(t, s, 1)[0]
		if got <= last+1000 || o.count(seqd.EventStoreFailedOver) != 1 || o.numbers(seqd.EventStoreFailedOver) != got-1-last {
			t.Errorf("got %d after %d; events %v", got, last, o.counts)
		}
	})
}
