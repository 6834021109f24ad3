package segment

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// perNode is a store that nodes share, for nodes with buffers of their own.
type perNode struct{ persist.Store }

func (perNode) Shared() bool { return true }

// world makes nodes of one counter.
type world struct {
	store persist.Store
	redis *redisModel
}

// shapes make a node of each strategy. A mover is one over the cursor.
var shapes = map[string]func(t *testing.T, w *world, change func(*Settings)) (allKinds, *observer){
	"alone": func(t *testing.T, w *world, change func(*Settings)) (allKinds, *observer) {
		s, o := newStrategy(t, w.store, change)
		start(t, s, true)
		return s, o
	},
	"cursor": func(t *testing.T, w *world, change func(*Settings)) (allKinds, *observer) {
		return newShared(t, w.store, w.redis, change)
	},
	"store": func(t *testing.T, w *world, change func(*Settings)) (allKinds, *observer) {
		return newStored(t, w.store, nil, change)
	},
	"moving": func(t *testing.T, w *world, change func(*Settings)) (allKinds, *observer) {
		f := newMover(t, w.store, w.redis, change)
		return f, f.env.Observer.(*observer)
	},
}

// eachShape runs a test with each strategy.
func eachShape(t *testing.T, test func(t *testing.T, w *world, node func(change func(*Settings)) (allKinds, *observer))) {
	for name, make := range shapes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{store: memory.New(time.Now), redis: &redisModel{}}
				test(t, w, func(change func(*Settings)) (allKinds, *observer) { return make(t, w, change) })
			})
		})
	}
}

// rangeOf takes a range and returns it.
func rangeOf(t testing.TB, s allKinds, n int64) persist.Range {
	t.Helper()
	var seq seqd.Sequence
	must.Do(t, s.GenerateRange(t.Context(), n, &seq))
	if !seq.Consecutive() {
		t.Errorf("the range is %v", seq.Runs())
	}
	return persist.Range{First: seq.First(), Last: seq.Last()}
}

// Every strategy that is well says so, tells where it stands, and leaves that to its heir.
func TestEveryShape(t *testing.T) {
	eachShape(t, func(t *testing.T, w *world, node func(change func(*Settings)) (allKinds, *observer)) {
		made, _ := node(small)
		s := made.(*Counter)
		must.Equal(t, s.Knowledge(), nil, "what it leaves of nothing")
		s.prepare()
		last := numbers(t, s, 3)[2]
		synctest.Wait()
		if degraded := s.Degraded(); !s.Idle() || s.Health() != nil || degraded != nil {
			t.Errorf("idle %t, health %v, degraded %v", s.Idle(), s.Health(), degraded)
		}
		if got := gauges(t, s)[seqd.GaugeHighest]; got < float64(last) {
			t.Errorf("the highest number is %v, and it has issued %d", got, last)
		}
		left := s.Knowledge()
		for range 2 {
			end(t, s)
		}
		must.Do(t, s.forget(t.Context()))
		if w.redis.hash != nil {
			t.Error("the cursor is still there")
		}
		made, _ = node(small)
		heir := made.(*Counter)
		if heir.Learn(left); heir.knows().issued != last {
			t.Errorf("the heir knows %+v", heir.knows())
		}
		end(t, heir)
	})
}

// A range has exactly as many numbers as are wanted. It changes neither the step nor the sequencer
// epoch, and other numbers stay in order.
func TestRange(t *testing.T) {
	eachShape(t, func(t *testing.T, w *world, node func(change func(*Settings)) (allKinds, *observer)) {
		s, o := node(small)
		last := numbers(t, s, 3)[2]
		synctest.Wait()
		before := counter(t, w.store)
		var got []persist.Range
		for _, n := range []int64{1, 7, seqd.MaxCount, 0} {
			r := rangeOf(t, s, n)
			if n == 0 {
				n = 10 // the step
			}
			must.Equal(t, r.Size(), n, "the numbers of %v", r)
			got = append(got, r)
		}
		after := counter(t, w.store)
		if after.Epoch != before.Epoch || after.Step != before.Step || after.Timestamp != before.Timestamp {
			t.Errorf("the counter was %+v and is %+v", before, after)
		}
		must.Equal(t, after.Max, before.Max+1+7+seqd.MaxCount+10, "the maximum")
		for range 10 {
			for _, n := range numbers(t, s, 5) {
				if n <= last || slices.ContainsFunc(got, func(r persist.Range) bool { return r.First <= n && n <= r.Last }) {
					t.Fatalf("got %d after %d; %v were handed out", n, last, got)
				}
				last = n
			}
			synctest.Wait()
		}
		for _, kind := range []seqd.EventKind{
			seqd.EventStoreBehind, seqd.EventGuard, seqd.EventOutOfOrder, seqd.EventFenced, seqd.EventCursorContested, seqd.EventAdvanced,
		} {
			if o.count(kind) > 0 {
				t.Errorf("event %s", kind)
			}
		}
		for _, n := range []int64{-1, seqd.MaxCount + 1} {
			must.Code(t, s.GenerateRange(t.Context(), n, &seqd.Sequence{}), seqd.CodeInvalidCount)
		}
		end(t, s)
		must.Code(t, s.GenerateRange(t.Context(), 1, &seqd.Sequence{}), seqd.CodeStopping)
	})
}

// Near the end there is no smaller range, and what is left can still be issued.
func TestRangeAtTheEndOfAllNumbers(t *testing.T) {
	eachShape(t, func(t *testing.T, w *world, node func(change func(*Settings)) (allKinds, *observer)) {
		s, o := node(func(s *Settings) { small(s); s.Start = seqd.MaxNumber - 29 })
		must.Code(t, s.GenerateRange(t.Context(), 31, &seqd.Sequence{}), seqd.CodeExhausted)
		must.Equal(t, counter(t, w.store).Max, seqd.MaxNumber-30, "the maximum")
		if s.Generate(t.Context(), 1, &seqd.Sequence{}) != nil || o.count(seqd.EventStoreAway) > 0 {
			t.Error("the store counts as away")
		}
		synctest.Wait()
		left := seqd.MaxNumber - counter(t, w.store).Max
		if left > 0 {
			rangeOf(t, s, left)
		}
		for _, n := range []int64{0, 1} {
			must.Code(t, s.GenerateRange(t.Context(), n, &seqd.Sequence{}), seqd.CodeExhausted)
		}
		end(t, s)
	})
}

// A store that was restored from a copy older than a range is told from one that was not, by this
// process and by its heir: numbers begin a gap above the range (U1).
func TestRangeThenRestoredStore(t *testing.T) {
	pairs := [][2]string{{"alone", ""}, {"alone", "cursor"}, {"alone", "store"}, {"cursor", ""}, {"cursor", "cursor"}, {"cursor", "alone"},
		{"store", ""}, {"store", "store"}, {"store", "alone"}, {"store", "moving"}, {"moving", ""}, {"moving", "cursor"}}
	for _, pair := range pairs {
		t.Run(pair[0]+" then "+pair[1], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, heir := &world{store: memory.New(time.Now), redis: &redisModel{}}, pair[1]
				change := func(s *Settings) { small(s); s.RestoreGap = 5000 }
				s, o := shapes[pair[0]](t, w, change)
				_ = numbers(t, s, 1)
				synctest.Wait()
				restoreTo := counter(t, w.store).Max
				r := rangeOf(t, s, 1000)
				must.Equal(t, r.First, restoreTo+1, "the range is %v after %d", r, restoreTo)
				if heir != "" {
					end(t, s)
					next, events := shapes[heir](t, w, change)
					next.(seqd.Learner).Learn(s.(seqd.Learner).Knowledge())
					s, o = next, events
				}
				restore(t, w.store, restoreTo)
				before := o.count(seqd.EventStoreBehind)
				again := rangeOf(t, s, 10)
				if again.First != r.Last+5001 || o.count(seqd.EventStoreBehind) != before+1 {
					t.Errorf("after %v the next range is %v; events %v", r, again, o.counts)
				}
				restore(t, w.store, restoreTo)
				var last int64
				for range 10 {
					last = numbers(t, s, 10)[9]
					synctest.Wait()
				}
				if last <= again.Last {
					t.Errorf("got %d after %v", last, again)
				}
				end(t, s)
			})
		})
	}
}

// An empty epoch is no evidence that the store was restored, but a maximum below a range is.
func TestRangeThenRestoredStoreWithoutEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		s, o := newShared(t, store, redis, func(s *Settings) { small(s); s.RestoreGap = 5000 })
		_ = numbers(t, s, 1)
		synctest.Wait()
		most := counter(t, store).Max
		r := rangeOf(t, s, 1000)
		old := counter(t, store)
		old.Max, old.Epoch = most, ""
		must.Do(t, errors.Join(store.Counters().Delete(t.Context(), "order"), store.Counters().Create(t.Context(), old)))
		redis.lose()
		if got := numbers(t, s, 1)[0]; got <= r.Last+5000 || o.count(seqd.EventStoreBehind) == 0 {
			t.Errorf("got %d after %v; events %v", got, r, o.counts)
		}
		closeAll(t, s)
	})
}

// A range that a failover may lose is no larger than the gap, so that no other node issues its
// numbers.
func TestRangeThatAFailoverLoses(t *testing.T) {
	for name, make := range shapes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newFailingOver()
				change := func(s *Settings) { small(s); s.RestoreGap = 5000 }
				a, o := make(t, &world{store: store, redis: &redisModel{}}, change)
				_ = numbers(t, a, 1)
				synctest.Wait()
				copied := store.copied()
				for _, n := range []int64{5001, seqd.MaxCount} {
					must.Code(t, a.GenerateRange(t.Context(), n, &seqd.Sequence{}), seqd.CodeInvalidCount)
				}
				if o.count(seqd.EventRefillFailed) > 0 {
					t.Errorf("events %v", o.counts)
				}
				lost := rangeOf(t, a, 5000)
				store.failOver(copied)
				b, _ := make(t, &world{store: store, redis: &redisModel{}}, change)
				for _, n := range numbers(t, b, 20) {
					if n <= lost.Last {
						t.Fatalf("%d is in %v", n, lost)
					}
				}
				end(t, a)
				end(t, b)
				store.lossless = true
				c, _ := make(t, &world{store: store, redis: &redisModel{}}, change)
				rangeOf(t, c, seqd.MaxCount)
				end(t, c)
			})
		})
	}
}

// Every number of a range that left the store and that nobody gets is reported; a range whose
// outcome is unknown is not used.
func TestRangeFails(t *testing.T) {
	eachShape(t, func(t *testing.T, w *world, node func(change func(*Settings)) (allKinds, *observer)) {
		store := newHooked()
		w.store = store
		s, o := node(small)
		_ = numbers(t, s, 1)
		synctest.Wait()
		store.change(func(h *hookedStore) {
			h.after = func(op string) error {
				if op == "allocate" {
					return errDown
				}
				return nil
			}
		})
		lost := counter(t, store.Store).Max
		must.Code(t, s.GenerateRange(t.Context(), 50, &seqd.Sequence{}), seqd.CodeStoreUnavailable)
		store.change(func(h *hookedStore) { h.after = nil })
		if got := counter(t, store.Store).Max; got != lost+50 {
			t.Fatalf("the maximum is %d; the range was not allocated", got)
		}
		must.Equal(t, rangeOf(t, s, 5).First, lost+51, "the first number")
		if o.count(seqd.EventRefillFailed) == 0 {
			t.Errorf("events %v", o.counts)
		}
		// a caller who has left costs nothing
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.GenerateRange(ctx, 5, &seqd.Sequence{}); err == nil || seqd.CodeOf(err) != seqd.CodeCanceled {
			t.Errorf("error %v", err)
		}
		must.Equal(t, counter(t, store.Store).Max, lost+55, "the maximum")
		end(t, s)
	})
}

// Nobody tries again to hand out a range. So the store does not count as away for ever because that
// failed once, and the biz type is not used again.
func TestRangeFailsOnce(t *testing.T) {
	eachShape(t, func(t *testing.T, w *world, node func(change func(*Settings)) (allKinds, *observer)) {
		store := newHooked()
		w.store = store
		s, o := node(small)
		_ = numbers(t, s, 1)
		synctest.Wait()
		store.change(func(h *hookedStore) { h.before = func(string) error { return errDown } })
		must.Code(t, s.GenerateRange(t.Context(), 50, &seqd.Sequence{}), seqd.CodeStoreUnavailable)
		store.change(func(h *hookedStore) { h.before = nil })
		time.Sleep(time.Minute)
		must.Equal(t, s.(seqd.Reporter).Degraded(), nil, "the node is degraded")
		must.Equal(t, o.count(seqd.EventStoreAway), o.count(seqd.EventStoreBack), "the times that the store was away, as often as it came back,")
		end(t, s)
	})
}

// A stop waits for a range that is being handed out, so that the heir knows of it.
func TestStopWaitsForARange(t *testing.T) {
	eachShape(t, func(t *testing.T, w *world, node func(change func(*Settings)) (allKinds, *observer)) {
		store := newHooked()
		w.store = store
		s, _ := node(small)
		_ = numbers(t, s, 1)
		synctest.Wait()
		store.change(func(h *hookedStore) { h.before = func(string) error { time.Sleep(time.Second); return nil } })
		got := make(chan persist.Range)
		go func() { got <- rangeOf(t, s, 500) }()
		synctest.Wait()
		ended := make(chan struct{})
		go func() { defer close(ended); end(t, s) }()
		r := <-got
		<-ended
		must.Equal(t, s.(*Counter).knows().beside, r.Last, "what it knows of %v", r)
	})
}

// A stop that must not wait does not. Then nobody gets the range, because the heir does not know of
// it.
func TestStopGivesUpARange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked()
		s, o := newStored(t, store, nil, small)
		store.change(func(h *hookedStore) { h.before = func(string) error { time.Sleep(4 * time.Second); return nil } })
		got := make(chan error)
		var seq seqd.Sequence
		go func() { got <- s.GenerateRange(t.Context(), 500, &seq) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_ = s.Close(ctx)
		must.Equal(t, time.Since(began), time.Second, "close took")
		most := s.knows().beside
		must.Code(t, <-got, seqd.CodeStopping)
		if counter(t, store.Store).Max != 500 || seq.Len() > 0 || most != 0 || o.numbers(seqd.EventAbandoned) != 500 {
			t.Errorf("the caller got %v, the heir knows of %d, events %v", seq.Runs(), most, o.counts)
		}
	})
}

// A range as large as the gap does not look like a store that was restored.
func TestRangeAsLargeAsTheGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		a, o := newStored(t, store, nil, nil)
		b, _ := newStored(t, store, nil, nil)
		_ = numbers(t, a, 1)
		rangeOf(t, b, 1_000_000) // the default of restoreGap
		_ = numbers(t, a, 1)
		if o.count(seqd.EventStoreBehind) > 0 {
			t.Error("the store seems to have been restored")
		}
		end(t, a)
		end(t, b)
	})
}

// Ranges that are handed out at the same time do not look like a store that was restored, even if
// what is handed out while the counter is read is as much as the gap.
func TestRangesAtTheSameTime(t *testing.T) {
	eachShape(t, func(t *testing.T, w *world, node func(change func(*Settings)) (allKinds, *observer)) {
		store := newHooked()
		w.store = store
		const gap = 5000
		s, o := node(func(s *Settings) { small(s); s.RestoreGap = gap })
		_ = numbers(t, s, 1)
		synctest.Wait()
		var others []persist.Range
		store.change(func(h *hookedStore) {
			h.after = func(string) error { // of the read
				store.change(func(h *hookedStore) { h.after = nil })
				others = append(others, rangeOf(t, s, 100))
				store.change(func(h *hookedStore) {
					h.before = func(string) error {
						store.change(func(h *hookedStore) { h.before = nil })
						others = append(others, rangeOf(t, s, gap))
						return nil
					}
				})
				return nil
			}
		})
		r := rangeOf(t, s, 10)
		if len(others) != 2 || others[1].First != others[0].Last+1 || r.First != others[1].Last+1 {
			t.Errorf("got %v after %v", r, others)
		}
		if o.count(seqd.EventStoreBehind) > 0 {
			t.Error("the store seems to have been restored")
		}
		end(t, s)
	})
}

// Numbers that reset are in order with their date, so there are no ranges.
func TestNoRangesOfNumbersThatReset(t *testing.T) {
	c := clockAt("2026-11-23T12:00:00Z")
	s := periodic(t, memory.New(c.Now), c.Now, nil, daily)
	must.Code(t, s.GenerateRange(t.Context(), 5, &seqd.Sequence{}), seqd.CodeInvalidRequest)
	closed(t, s)
}

// Others may take numbers between the look at the counter and the take. Then the node looks again,
// and what is left is given, or nothing.
func TestLastNumbersAreTakenMeanwhile(t *testing.T) {
	for _, k := range []kind{whole, ranged} {
		store, once := newHooked(), new(sync.Once)
		s, _ := newStrategy(t, perNode{store}, func(s *Settings) { small(s); s.Ordering, s.Start = PerNode, seqd.MaxNumber-9 })
		start(t, s, true)
		store.change(func(h *hookedStore) {
			h.before = func(op string) error {
				if op == "allocate" {
					once.Do(func() {
						_, _ = store.Store.Counters().Allocate(context.Background(), persist.Request{BizTag: "order", Size: 5, To: persist.Beside})
					})
				}
				return nil
			}
		})
		got, err := k.get(t.Context(), t, s, 8)
		if must.Code(t, err, seqd.CodeExhausted); len(got) > 0 || store.called("read") < 3 {
			t.Errorf("got %v after %d reads", got, store.called("read"))
		}
		end(t, s)
	}
}
