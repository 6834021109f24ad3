package segment

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

// newMover is a node with Redis whose sequencer is auto.
func newMover(t testing.TB, store persist.Store, redis *redisModel, change func(*Settings)) *Counter {
	t.Helper()
	settings := usual()
	if change != nil {
		change(&settings)
	}
	log := new(testlog.Text)
	t.Cleanup(func() {
		if log.Count("not be closed cleanly") > 0 {
			t.Error(log)
		}
	})
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.NewTextHandler(log, nil)), Observer: &observer{}}
	o := must.Get(originOf(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, "order"))(t)
	f := newSequenced(o, redis)
	must.Do(t, f.Init(t.Context(), true))
	return f
}

// A new counter is sequenced by Redis if there is one, and stays so; one that the store sequences
// stays there, although this node has Redis.
func TestFollowingFindsTheSequencer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		f := newMover(t, store, redis, nil)
		last := numbers(t, f, 10)[9]
		if epoch := counter(t, store).Epoch; len(epoch) != 32 {
			t.Errorf("the epoch is %q", epoch)
		}
		_ = f.Close(t.Context())

		s, _ := newStored(t, store, redis.Drop, byStore)
		last = max(last, numbers(t, s, 1)[0])
		_ = s.Close(t.Context())
		f = newMover(t, store, redis, nil)
		redis.change(func(r *redisModel) { r.down = errDown })
		must.Equal(t, numbers(t, f, 1)[0], last+1, "the next number")
		must.Equal(t, counter(t, store).Epoch, persist.StoreEpoch, "the epoch")
		if f.Health() != nil || f.Degraded() != nil || f.knows().issued != last+1 {
			t.Errorf("health %v, degraded %v, knows %+v", f.Health(), f.Degraded(), f.knows())
		}
		_ = f.Close(t.Context())
		// A counter whose ordering is per-node has no sequencer: what a cursor has left is skipped.
		local, _ := newStrategy(t, store, nil)
		generate(t, local, 1)
		must.Equal(t, counter(t, store).Epoch, "", "the epoch of per-node")
		_ = local.Close(t.Context())
	})
}

// Nodes that get Redis one by one do not split the order: whoever is first decides, the others
// follow.
func TestFollowingOfBothKinds(t *testing.T) {
	for seed := range uint64(longtest.Or(6, 500)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 3))
				store, redis, h := newHooked(), &redisModel{}, ordercheck.New()
				slow(store, redis, seed)
				a, b := newMover(t, store, redis, nil), newMover(t, store, redis, nil)
				plain, _ := newStored(t, store, nil, nil)
				var wg sync.WaitGroup
				for i, s := range []*Counter{a, b, plain} {
					first := time.Duration(random.IntN(20)) * time.Millisecond
					wg.Go(func() {
						time.Sleep(first)
						for range 50 {
							askOne(t, h, s, fmt.Sprint(i))
						}
					})
				}
				wg.Wait()
				must.Report(t, h.Check())
				if h.Numbers() < 100 {
					t.Errorf("two nodes at least issue, and there are %d numbers", h.Numbers())
				}
				for _, s := range []*Counter{a, b, plain} {
					_ = s.Close(t.Context())
				}
			})
		})
	}
}

// slow lets each operation take a while.
func slow(store *hookedStore, redis *redisModel, seed uint64) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 4))
	nap := func(string) error {
		mu.Lock()
		d := time.Duration(random.IntN(2000)) * time.Microsecond
		mu.Unlock()
		time.Sleep(d)
		return nil
	}
	store.change(func(s *hookedStore) { s.before, s.after = nap, nap })
	redis.change(func(r *redisModel) { r.before = nap })
}

// askOne asks for one number and records it if it came.
func askOne(t testing.TB, h *ordercheck.Record, s seqd.Strategy, who string) (ok bool) {
	t.Helper()
	var seq seqd.Sequence
	began := h.Now()
	if err := s.Generate(t.Context(), 1, &seq); err != nil {
		return false
	}
	h.Add(began, who, slices.Collect(seq.Numbers()))
	return true
}

// A caller who comes while the node moves to the other sequencer waits, and is not refused.
func TestFollowingCallersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		f := newMover(t, store, redis, nil)
		last := numbers(t, f, 10)[9]
		synctest.Wait()
		s, _ := newStored(t, store, redis.Drop, byStore)
		last = max(last, numbers(t, s, 1)[0])
		var wg sync.WaitGroup
		h := ordercheck.New()
		for i := range 20 {
			wg.Go(func() {
				if !askOne(t, h, f, fmt.Sprint(i)) {
					t.Error("a caller was refused")
				}
			})
		}
		wg.Wait()
		if err := h.Check(); err != nil || h.Highest() <= last {
			t.Errorf("the highest number is %d after %d; %v", h.Highest(), last, err)
		}
		must.Equal(t, f.source().sequencer(), SequencerStore, "it did not follow")
		_ = s.Close(t.Context())
		// and back, although nobody asks this node
		c := node(t, store, redis, &observer{}, func(s *Settings) { s.Sequencer = SequencerRedis })
		last = numbers(t, c, 1)[0]
		if got := numbers(t, f, 1)[0]; got <= last || f.source().sequencer() != SequencerRedis {
			t.Errorf("got %d after %d from %s", got, last, f.source().sequencer())
		}
		closeAll(t, c)
		last = numbers(t, f, 1)[0]
		f.noteStore(errDown)
		// a move reads the store, and the next source knows what the one before it has issued
		if <-f.move(f.source()); f.whyAway() != nil || f.redisSource.Load() != nil || f.source().knows().issued != last {
			t.Errorf("the store is away: %v; the cursor is still told: %t; known are %+v, and %d was issued", f.whyAway(), f.redisSource.Load() != nil, f.source().knows(), last)
		}
		must.Report(t, f.Close(t.Context()))
		if _, code := try(t, f, 1); code != seqd.CodeStopping {
			t.Errorf("code %q", code)
		}
	})
}

// A caller who has got some of its numbers when the node moves to the other sequencer gets the
// others from there.
func TestFollowingCallersKeepWhatTheyHave(t *testing.T) {
	for k := range ranged {
		t.Run(fmt.Sprint("kind ", k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, redis := newHooked(), &redisModel{}
				f := newMover(t, store, redis, func(s *Settings) { s.Step, s.MaxStep = 10, 10 })
				last := numbers(t, f, 3)[2]
				synctest.Wait()
				taken := false
				redis.change(func(r *redisModel) {
					r.before = func(call string) error { // the store takes over while the cursor is mended
						if call != "take" && call != "drop" && !taken {
							taken = true
							s, _ := newStored(t, store, redis.Drop, byStore)
							_ = numbers(t, s, 1)
							_ = s.Close(t.Context())
						}
						return nil
					}
				})
				got, err := k.get(t.Context(), t, f, 500)
				if err != nil || len(got) != 500 || got[0] <= last || !slices.IsSorted(got) {
					t.Errorf("got %d numbers: %v", len(got), err)
				}
				if !taken || f.source().sequencer() != SequencerStore {
					t.Error("it did not follow")
				}
				end(t, f)
			})
		})
	}
}

// A node that cannot open the other sequencer tries again until it can, or is closed. Callers wait
// as long as they may.
func TestFollowingOpensLate(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store, redis := newHooked(), &redisModel{}
			f := newMover(t, store, redis, func(s *Settings) { s.AcquireTimeout = 1500 * time.Millisecond })
			numbers(t, f, 10)
			synctest.Wait()
			if !f.Idle() || f.Details() != nil {
				t.Errorf("idle %t, details %v", f.Idle(), f.Details())
			}
			s, _ := newStored(t, store, redis.Drop, byStore)
			last := numbers(t, s, 1)[0]
			store.change(func(h *hookedStore) {
				h.before = func(op string) error {
					f.moves.mu.Lock()
					defer f.moves.mu.Unlock()
					if f.moves.stopping != nil && op == "read" {
						return errDown
					}
					return nil
				}
			})
			began := time.Now()
			if _, code := try(t, f, 1); code != seqd.CodeStarting || time.Since(began).Truncate(100*time.Millisecond) != 1500*time.Millisecond {
				t.Errorf("%q after %v", code, time.Since(began))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			must.Code(t, f.Generate(ctx, 1, new(seqd.Sequence)), seqd.CodeTimeout)
			if back {
				store.change(func(h *hookedStore) { h.before = nil })
				time.Sleep(2 * time.Second)
				if got := numbers(t, f, 1)[0]; got <= last || fmt.Sprint(f.Details()) != "map[sequencer:store]" {
					t.Errorf("got %d after %d, details %v", got, last, f.Details())
				}
			}
			end(t, f)
			if _, code := try(t, f, 1); code != seqd.CodeStopping {
				t.Errorf("after Close: %q", code)
			}
		})
	}
}

// slowly observes what the strategy waits for.
type slowly struct{ seqd.NopObserver }

func (slowly) Event(seqd.Event) { time.Sleep(time.Second) }

// A counter that is not closed in time issues nothing any more, also if it moves at that moment.
func TestFollowingClosesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := newHooked(), &redisModel{}
		f := newMover(t, store, redis, nil)
		last := numbers(t, f, 10)[9]
		synctest.Wait()
		s, _ := newStored(t, store, redis.Drop, byStore)
		_ = numbers(t, s, 1)
		end(t, s)
		f.env.Observer = slowly{}
		over := f.move(f.source())
		synctest.Wait() // the cursor is being closed
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_ = f.Close(ended)
		<-over
		if got, code := try(t, f, 1); code != seqd.CodeStopping || f.knows().issued != last {
			t.Errorf("after Close: %v %q; known are %+v, and %d was issued", got, code, f.knows(), last)
		}
	})
}
