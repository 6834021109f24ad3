package segment

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/ordercheck"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

func newShared(t testing.TB, store persist.Store, redis *redisModel, change func(*Settings)) (*Counter, *observer) {
	t.Helper()
	o := &observer{}
	return node(t, store, redis, o, change), o
}

func node(t testing.TB, store persist.Store, c sharedCursor, o seqd.Observer, change func(*Settings)) *Counter {
	t.Helper()
	settings := usual()
	if change != nil {
		change(&settings)
	}
	validate(t, &settings)
	env := strategy.Env{Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: o}
	s := newSequenced(must.Get(originOf(env, seqd.BizType{Name: "order", Strategy: Name, Settings: &settings}, "order"))(t), c)
	must.Do(t, s.Init(t.Context(), true))
	return s
}

// numbers asks for n numbers, which must come.
func numbers(t testing.TB, s seqd.Strategy, n int) []int64 {
	t.Helper()
	var seq seqd.Sequence
	must.Do(t, s.Generate(t.Context(), n, &seq))
	return slices.Collect(seq.Numbers())
}

// small is a strategy whose segments end often.
func small(s *Settings) { s.Step, s.MaxStep = 10, 10 }

// try asks for n numbers and returns them, or the code of the refusal.
func try(t testing.TB, s seqd.Strategy, n int) ([]int64, seqd.Code) {
	t.Helper()
	var seq seqd.Sequence
	err := s.Generate(t.Context(), n, &seq)
	return slices.Collect(seq.Numbers()), seqd.CodeOf(err)
}

// over returns the source of a counter over a cursor.
func over(c *Counter) *shared { return c.source().(*shared) }

func closeAll(t testing.TB, nodes ...*Counter) {
	t.Helper()
	for _, s := range nodes {
		must.Report(t, s.Close(t.Context()))
	}
}

// sharedTakes are the strategies that send one take for several callers. Each returns how to slow
// takes down, and how many were sent.
var sharedTakes = map[string]func(t *testing.T) (s seqd.Strategy, o *observer, slow func(time.Duration), takes func() int){
	"cursor": func(t *testing.T) (seqd.Strategy, *observer, func(time.Duration), func() int) {
		redis := &redisModel{}
		s, o := newShared(t, memory.New(time.Now), redis, nil)
		return s, o, func(d time.Duration) {
			redis.change(func(r *redisModel) { r.before = func(string) error { time.Sleep(d); return nil } })
		}, func() int { return redis.calls }
	},
	"store": func(t *testing.T) (seqd.Strategy, *observer, func(time.Duration), func() int) {
		store := newHooked()
		s, o := newStored(t, store, nil, nil)
		return s, o, func(d time.Duration) {
			store.change(func(h *hookedStore) { h.before = func(string) error { time.Sleep(d); return nil } })
		}, func() int { return store.called("allocate") }
	},
}

// Callers that arrive while a take is under way share the next one; one that arrives alone does not
// wait.
func TestCallersShareATake(t *testing.T) {
	for name, make := range sharedTakes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _, slow, takes := make(t)
				numbers(t, s, 1)
				synctest.Wait()
				slow(time.Millisecond)
				before, h := takes(), ordercheck.New()
				var wg sync.WaitGroup
				for i := range 50 {
					wg.Go(func() {
						began := h.Now()
						h.Add(began, fmt.Sprint(i), numbers(t, s, 1+i%3))
					})
				}
				wg.Wait()
				if sent := takes() - before; sent > 2 {
					t.Errorf("50 callers took %d takes, want 2 at most", sent)
				}
				began := time.Now()
				h.Add(h.Now(), "alone", numbers(t, s, 1))
				must.Equal(t, time.Since(began), time.Millisecond, "a caller alone waited")
				must.Report(t, h.Check())
				if got := h.Highest(); got != 1+99+1 { // 50 callers got 1, 2 or 3 each
					t.Errorf("the highest number is %d: numbers were skipped", got)
				}
				end(t, s)
			})
		})
	}
}

// A caller that goes away leaves its numbers to nobody.
func TestNumbersOfCallersThatLeaveAreSkipped(t *testing.T) {
	for name, make := range sharedTakes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, o, slow, _ := make(t)
				numbers(t, s, 1)
				slow(time.Second)
				// 2: the take under way
				go func() { _ = s.Generate(context.Background(), 1, &seqd.Sequence{}) }()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				var seq seqd.Sequence
				if err := s.Generate(ctx, 5, &seq); seqd.CodeOf(err) != seqd.CodeTimeout || seq.Len() != 0 {
					t.Errorf("got %v, %d numbers", err, seq.Len())
				}
				must.Equal(t, numbers(t, s, 1)[0], 8, "the next number, as 3 to 7 belong to a caller that left,")
				must.Equal(t, o.numbers(seqd.EventAbandoned), 5, "the numbers reported as skipped")
				end(t, s)
			})
		})
	}
}

// One node brings the range that many were told is wanted.
func TestOneNodeRefills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		var nodes []*Counter
		var observers []*observer
		for range 5 {
			s, o := newShared(t, store, redis, func(s *Settings) { s.OnRedisDown = Reject; s.ReserveSegments = 0 })
			nodes, observers = append(nodes, s), append(observers, o)
		}
		for range 3000 {
			var wg sync.WaitGroup
			for _, s := range nodes {
				wg.Go(func() { numbers(t, s, 1) })
			}
			wg.Wait()
		}
		synctest.Wait()
		var fenced, refilled int
		for _, o := range observers {
			fenced, refilled = fenced+o.count(seqd.EventFenced), refilled+o.count(seqd.EventRefilled)
		}
		if fenced != 0 || refilled > 9 {
			t.Errorf("15,000 numbers took %d ranges, of which %d were refused", refilled, fenced)
		}
		closeAll(t, nodes...)
	})
}

// Redis away, degrade: the standby range first, then ranges from the store; back on the cursor
// above all that was issued meanwhile.
func TestRedisAwayDegrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		a, o := newShared(t, store, redis, nil)
		b, _ := newShared(t, store, redis, nil)
		numbers(t, a, 10)
		numbers(t, b, 10)
		synctest.Wait()
		redis.change(func(r *redisModel) { r.down = errDown })
		began := time.Now()
		got := numbers(t, a, 1)[0]
		if waited := time.Since(began); waited < cursor.RedisPatience || waited > 2*cursor.RedisPatience {
			t.Errorf("the node left the cursor after %v", waited)
		}
		if standby := int64(cursor.LeastStandby); got != 1001 && got != 1001+standby {
			t.Errorf("on its own the node began with %d, not with its standby range", got)
		}
		got = numbers(t, a, 5000)[4999]
		if a.Health() != nil || seqd.CodeOf(a.Degraded()) != seqd.CodeRedisUnavailable {
			t.Errorf("health %v, degraded %v", a.Health(), a.Degraded())
		}
		redis.change(func(r *redisModel) { r.down = nil })
		time.Sleep(3 * time.Second)
		must.Equal(t, a.Degraded(), nil, "still degraded")
		if next := numbers(t, b, 1)[0]; next <= got {
			t.Errorf("the other node got %d after %d", next, got)
		}
		for kind, want := range map[seqd.EventKind]int{seqd.EventRedisAway: 1, seqd.EventRedisBack: 1, seqd.EventAdvanced: 1, seqd.EventGuard: 0} {
			must.Equal(t, o.count(kind), want, "the times of %s", kind)
		}
		closeAll(t, a, b)
	})
}

// A node that issued nothing on its own goes back without moving the cursor: nothing is skipped.
func TestReturnWithoutAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		s, o := newShared(t, memory.New(time.Now), redis, nil)
		numbers(t, s, 10)
		synctest.Wait()
		redis.change(func(r *redisModel) { r.before = func(string) error { return errDown } })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_ = s.Generate(ctx, 1, &seqd.Sequence{}) // gives up before the node leaves the cursor
		time.Sleep(time.Second)
		if over(s).local.Load() == nil {
			t.Fatal("the node did not leave the cursor")
		}
		redis.change(func(r *redisModel) { r.before = nil })
		time.Sleep(5 * time.Second)
		must.Equal(t, numbers(t, s, 1)[0], 11)
		if o.count(seqd.EventAdvanced) != 0 || o.count(seqd.EventRedisBack) != 1 {
			t.Errorf("events %v", o.counts)
		}
		closeAll(t, s)
	})
}

// Redis away, reject: every request is refused at once, no number is issued out of order, and it
// continues by itself.
func TestRedisAwayReject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		s, o := newShared(t, memory.New(time.Now), redis, func(s *Settings) { s.OnRedisDown = Reject })
		numbers(t, s, 10)
		synctest.Wait()
		redis.change(func(r *redisModel) { r.down = errDown })
		if _, code := try(t, s, 1); code != seqd.CodeRedisUnavailable {
			t.Errorf("code %s", code)
		}
		began := time.Now()
		if _, code := try(t, s, 1); code != seqd.CodeRedisUnavailable || time.Since(began) != 0 {
			t.Errorf("code %s after %v", code, time.Since(began))
		}
		must.Code(t, s.Health(), seqd.CodeRedisUnavailable, "health")
		time.Sleep(time.Minute)
		redis.change(func(r *redisModel) { r.down = nil })
		time.Sleep(2 * time.Second)
		if got := numbers(t, s, 1)[0]; got != 11 || s.Health() != nil {
			t.Errorf("got %d, health %v", got, s.Health())
		}
		if o.count(seqd.EventRedisAway) != 1 || o.count(seqd.EventRedisBack) != 1 {
			t.Errorf("events %v", o.counts)
		}
		closeAll(t, s)
	})
}

// The store away: buffers, then the reserve, then refusals; and back. The log says each once.
func TestStoreAwayUnderTheCursor(t *testing.T) {
	for _, reserve := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			store := newHooked()
			s, o := newShared(t, store, &redisModel{}, func(s *Settings) { small(s); s.ReserveSegments = reserve; s.OnRedisDown = Reject })
			numbers(t, s, 5)
			synctest.Wait()
			store.fails("allocate", errDown)
			issued := 5
			for ; issued < 1000; issued++ {
				if _, code := try(t, s, 1); code != "" {
					must.Equal(t, code, seqd.CodeStoreUnavailable, "refused with")
					break
				}
			}
			must.Equal(t, issued, 10*(2+reserve), "reserve %d: the numbers without the store", reserve)
			if seqd.CodeOf(s.Health()) != seqd.CodeStoreUnavailable || seqd.CodeOf(s.Degraded()) != seqd.CodeStoreUnavailable {
				t.Errorf("health %v, degraded %v", s.Health(), s.Degraded())
			}
			time.Sleep(time.Minute)
			store.fails("", nil)
			time.Sleep(3 * time.Second)
			if s.Health() != nil || s.Degraded() != nil {
				t.Errorf("health %v, degraded %v", s.Health(), s.Degraded())
			}
			if got := numbers(t, s, 1)[0]; got <= int64(issued) {
				t.Errorf("got %d after %d", got, issued)
			}
			if o.count(seqd.EventStoreAway) != 1 || o.count(seqd.EventStoreBack) != 1 {
				t.Errorf("events %v", o.counts)
			}
			closeAll(t, s)
		})
	}
}

// A store that turns out older than what is in the cursor was restored: an alarm, and on above with
// a gap.
func TestRestoredStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(time.Now)
		s, o := newShared(t, store, &redisModel{}, func(s *Settings) { small(s); s.RestoreGap = 5000; s.OnRedisDown = Reject })
		var last int64
		for range 10 {
			last = numbers(t, s, 10)[9]
		}
		synctest.Wait()
		max := counter(t, store).Max
		restore(t, store, 50)
		for range 10 {
			got := numbers(t, s, 10)
			if got[0] <= last {
				t.Fatalf("%d after %d", got[0], last)
			}
			last = got[9]
		}
		if last < max+5000 || o.count(seqd.EventStoreBehind) != 1 {
			t.Errorf("the last number is %d, the maximum was %d; events %v", last, max, o.counts)
		}
		closeAll(t, s)
	})
}

// What belongs to others, or to a newer version, is refused with the reason, and served as soon as
// it is gone.
func TestForeignCursor(t *testing.T) {
	for _, cause := range []error{rediscursor.ErrForeign, rediscursor.ErrNewer} {
		synctest.Test(t, func(t *testing.T) {
			redis := &redisModel{before: func(string) error { return cause }}
			s, _ := newShared(t, memory.New(time.Now), redis, nil)
			for range 3 {
				if _, code := try(t, s, 1); code != seqd.CodeConflict {
					t.Errorf("code %s", code)
				}
			}
			must.Code(t, s.Health(), seqd.CodeConflict, "health")
			redis.change(func(r *redisModel) { r.before = nil })
			time.Sleep(2 * time.Second)
			numbers(t, s, 1)
			closeAll(t, s)
		})
	}
}

// A node alone that stops cleanly and starts again continues with the next number: what waits in
// Redis stays there, its standby range goes back.
func TestCleanStopUnderTheCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		next := int64(1)
		for range 5 {
			s, o := newShared(t, store, redis, nil)
			for _, got := range numbers(t, s, 30) {
				if got != next {
					t.Fatalf("got %d, want %d", got, next)
				}
				next++
			}
			synctest.Wait()
			closeAll(t, s)
			if _, code := try(t, s, 1); code != seqd.CodeStopping {
				t.Errorf("after the stop: %s", code)
			}
			must.Equal(t, o.numbers(seqd.EventAbandoned), 0, "the numbers skipped")
		}
	})
}

// A node whose Redis comes and goes stays on its own for longer each time.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		s, o := newShared(t, memory.New(time.Now), redis, nil)
		numbers(t, s, 1)
		began := time.Now()
		for time.Since(began) < 10*time.Minute {
			redis.change(func(r *redisModel) { r.down = errDown })
			for over(s).local.Load() == nil {
				numbers(t, s, 1)
				time.Sleep(10 * time.Millisecond)
			}
			numbers(t, s, 1)
			redis.change(func(r *redisModel) { r.down = nil })
			for s.Degraded() != nil {
				time.Sleep(10 * time.Millisecond)
			}
		}
		if n := o.count(seqd.EventRedisAway); n < 10 || n > 18 {
			t.Errorf("left the cursor %d times in ten minutes", n)
		}
		closeAll(t, s)
	})
}

// slowObserver takes its time over numbers that are skipped.
type slowObserver struct{ seqd.NopObserver }

func (slowObserver) Event(e seqd.Event) {
	if e.Kind == seqd.EventAbandoned {
		time.Sleep(time.Minute)
	}
}

// Who shares a take with one that has left gets the numbers before anybody is told of those that
// are skipped.
func TestNobodyWaitsForAnObserver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		s := node(t, memory.New(time.Now), redis, slowObserver{}, nil)
		numbers(t, s, 1)
		synctest.Wait()
		redis.change(func(r *redisModel) { r.before = func(string) error { time.Sleep(100 * time.Millisecond); return nil } })
		go try(t, s, 1)
		synctest.Wait()
		// it shares the next take
		go func() { _ = s.Generate(expired(t, time.Millisecond), 1, &seqd.Sequence{}) }()
		synctest.Wait()
		began := time.Now()
		numbers(t, s, 1)
		if took := time.Since(began); took > time.Second {
			t.Errorf("numbers came after %s", took)
		}
		closeAll(t, s)
	})
}
