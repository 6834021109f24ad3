package segment

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
)

// ledger adds up where the numbers of a counter went.
type ledger struct {
	events *observer
	issued atomic.Int64
	lost   int64 // by a Redis that forgot them, of which no node knows
}

// ask asks for n numbers within d.
func (l *ledger) ask(s seqd.Strategy, n int, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var seq seqd.Sequence
	if s.Generate(ctx, n, &seq) == nil {
		l.issued.Add(int64(n))
	}
}

// askFor asks for n numbers of a kind within d.
func (l *ledger) askFor(t testing.TB, s allKinds, k kind, n int, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if got, err := k.get(ctx, t, s, n); err == nil {
		l.issued.Add(int64(len(got)))
	}
}

// check: every number that was fetched was issued, abandoned or given back, or is in hand.
func (l *ledger) check(t *testing.T, when string, inHand int64) {
	t.Helper()
	refilled, abandoned, back := l.events.numbers(seqd.EventRefilled), l.events.numbers(seqd.EventAbandoned), l.events.numbers(seqd.EventGivenBack)
	if sum := l.issued.Load() + abandoned + back + inHand + l.lost; refilled != sum {
		t.Errorf("%s: %d were fetched, and %d issued + %d abandoned + %d given back + %d in hand + %d lost by Redis = %d: %+d",
			when, refilled, l.issued.Load(), abandoned, back, inHand, l.lost, sum, sum-refilled)
	}
}

func TestNumbersOfOwnBufferAddUp(t *testing.T) {
	for seed := range uint64(longtest.Or(10, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				store := newHooked()
				s, o := newStrategy(t, store, func(s *Settings) { s.Step, s.MaxStep, s.AcquireTimeout = 10, 40, 500*time.Millisecond })
				start(t, s, true)
				l := &ledger{events: o}
				for range 300 {
					switch random.IntN(10) {
					case 0:
						store.fails("read", []error{nil, errDown}[random.IntN(2)])
					case 1:
						must.Get(store.Store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 5, To: persist.Beside}))(t)
					case 2:
						time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
					default:
						l.askFor(t, s, anyKind(random), 1+random.IntN(50), time.Duration(1+random.IntN(1000))*time.Millisecond)
					}
				}
				synctest.Wait()
				l.check(t, "in use", s.near.buffer.measure().inHand)
				store.fails("read", nil)
				must.Report(t, s.Close(t.Context()))
				synctest.Wait()
				l.check(t, "closed", 0)
			})
		})
	}
}

// left is what waits in the cursor.
func (r *redisModel) left() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hash == nil || r.hash.replid != r.replid || r.hash.epoch == "" {
		return 0
	}
	n = r.hash.last - r.hash.cur
	for _, q := range r.hash.queue {
		n += q.Size()
	}
	return n
}

// TestNumbersOfCursorAddUp: over two nodes, a store and a Redis that come and go, and a Redis that
// loses everything.
func TestNumbersOfCursorAddUp(t *testing.T) {
	for seed := range uint64(longtest.Or(10, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 2))
				store, redis := newHooked(), &redisModel{}
				l := &ledger{events: &observer{}}
				settings := func(s *Settings) { s.Step, s.MaxStep, s.AcquireTimeout = 10, 40, 500*time.Millisecond }
				nodes := []*Counter{node(t, store, redis, l.events, settings), node(t, store, redis, l.events, settings)}
				for range 300 {
					switch random.IntN(14) {
					case 0:
						store.fails("read", []error{nil, errDown}[random.IntN(2)])
					case 1, 2:
						redis.change(func(r *redisModel) {
							if r.down = nil; random.IntN(3) == 0 {
								r.down = errDown
							}
						})
					case 3:
						synctest.Wait()
						l.lost += redis.left()
						redis.lose()
					case 4:
						time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
					default:
						l.askFor(t, nodes[random.IntN(2)], anyKind(random), 1+random.IntN(50), time.Duration(1+random.IntN(1000))*time.Millisecond)
					}
				}
				store.fails("read", nil)
				redis.change(func(r *redisModel) { r.down = nil })
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				closeAll(t, nodes...)
				synctest.Wait()
				l.check(t, "closed", redis.left())
			})
		})
	}
}

// A caller that leaves before a take that brings nothing has cost no number.
func TestLeavingATakeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis, l := &redisModel{}, &ledger{events: &observer{}}
		s := node(t, memory.New(time.Now), redis, l.events, small)
		l.ask(s, 1, time.Second)
		time.Sleep(time.Second)
		redis.change(func(r *redisModel) {
			r.before = func(string) error { time.Sleep(100 * time.Millisecond); return errDown }
		})
		go l.ask(s, 2, time.Minute)
		synctest.Wait()
		for range 3 { // they share a take
			go func() { _ = s.Generate(expired(t, time.Millisecond), 5, &seqd.Sequence{}) }()
		}
		time.Sleep(150 * time.Millisecond)
		redis.change(func(r *redisModel) { r.before = nil })
		time.Sleep(time.Minute)
		closeAll(t, s)
		l.check(t, "closed", redis.left())
	})
}

// expired returns a context that ends soon.
func expired(t *testing.T, soon time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	t.Cleanup(cancel)
	return ctx
}

// Callers that leave while a take is under way that brings their numbers, or a part of them.
func TestLeavingATakeThatSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis, l := &redisModel{}, &ledger{events: &observer{}}
		s := node(t, memory.New(time.Now), redis, l.events, small)
		l.ask(s, 1, time.Second)
		time.Sleep(time.Second)
		redis.change(func(r *redisModel) { r.before = func(string) error { time.Sleep(100 * time.Millisecond); return nil } })
		go l.ask(s, 2, time.Minute)
		synctest.Wait()
		for range 10 {
			go func() { _ = s.Generate(expired(t, time.Millisecond), 5, &seqd.Sequence{}) }()
		}
		time.Sleep(time.Minute)
		redis.change(func(r *redisModel) { r.before = nil })
		closeAll(t, s)
		l.check(t, "closed", redis.left())
		if got := l.events.numbers(seqd.EventAbandoned); got < 10 || got > 50 {
			t.Errorf("%d numbers were abandoned for callers who asked for 50 and left", got)
		}
	})
}

// What a caller had from the cursor is skipped when the node then finds nothing of its own either.
func TestPartOfACursorIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis, l := newHooked(), &redisModel{}, &ledger{events: &observer{}}
		s := node(t, store, redis, l.events, small)
		l.ask(s, 1, time.Second)
		time.Sleep(time.Second)
		store.fails("read", errDown)
		var takes atomic.Int64
		redis.change(func(r *redisModel) {
			r.before = func(string) error {
				if takes.Add(1) > 1 {
					return errDown
				}
				return nil
			}
		})
		var seq seqd.Sequence
		seq.Add(1000, 5, 1) // which the caller had before
		if s.Generate(expired(t, time.Minute), 500, &seq) == nil || l.issued.Load() != 1 || over(s).local.Load() == nil {
			t.Errorf("%d numbers were issued; on its own: %t", l.issued.Load(), over(s).local.Load() != nil)
		}
		store.fails("read", nil)
		redis.change(func(r *redisModel) { r.before = nil })
		time.Sleep(time.Minute)
		closeAll(t, s)
		l.check(t, "closed", redis.left())
	})
}

// A standby range of a period that was removed while it was allocated is abandoned: the node never
// issues it, nor gives it back.
func TestStandbyOfRemovedPeriodIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis, l := memory.New(time.Now), &redisModel{}, &ledger{events: &observer{}}
		s := node(t, store, redis, l.events, small)
		l.ask(s, 1, time.Second)
		synctest.Wait()
		l.ask(s, 15, time.Second) // the cursor passes the standby range
		synctest.Wait()
		watched(s, purged)
		time.Sleep(time.Second)
		l.ask(s, 1, time.Second) // so another one is allocated
		synctest.Wait()
		if got := over(s).machine.Measure().Standby; got > 0 {
			t.Errorf("%d numbers stand by", got)
		}
		closeAll(t, s)
		l.check(t, "closed", redis.left())
	})
}
