package segment

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// The store was away for some seconds while the cursor had plenty. When it is back the refill must
// be repeated before the cursor is used up: no caller notices.
func TestSharedRefillStarvedByOwnTakes(t *testing.T) {
	for _, every := range longtest.Or([]time.Duration{733, 3333}, []time.Duration{510, 733, 1000, 1411, 2000, 3333, 5000}) {
		every *= time.Microsecond
		t.Run(every.String(), func(t *testing.T) { starved(t, every) })
	}
}

func starved(t *testing.T, every time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		redis.before = func(string) error { time.Sleep(500 * time.Microsecond); return nil }
		store := newHooked()
		o := &observer{}
		s := node(t, store, redis, o, func(s *Settings) {
			s.Step, s.MaxStep, s.OnRedisDown, s.ReserveSegments = 10_000, 10_000, Reject, 1
			s.AcquireTimeout = 500 * time.Millisecond
		})
		for range 5 {
			numbers(t, s, 500)
		}
		time.Sleep(time.Second)
		store.fails("allocate", errDown)
		for range 20 {
			numbers(t, s, 500)
		}
		// That asks for a refill, which fails; 19,500 are left
		for range 4000 { // 4 s, of 19,500 numbers in hand
			numbers(t, s, 1)
			time.Sleep(every)
		}
		store.fails("", nil)
		back := time.Now()
		var worst, refilled time.Duration
		refused := 0
		before := o.count(seqd.EventRefilled)
		for time.Since(back) < 10*time.Second {
			began := time.Now()
			if _, code := try(t, s, 1); code != "" {
				refused++
			}
			worst = max(worst, time.Since(began))
			if refilled == 0 && o.count(seqd.EventRefilled) > before {
				refilled = time.Since(back)
			}
			time.Sleep(every)
		}
		t.Logf("refilled %v after the store was back; the slowest call took %v, %d were refused", refilled, worst, refused)
		if refilled > 5*time.Second || worst > 50*time.Millisecond || refused > 0 {
			t.Error("see above")
		}
		closeAll(t, s)
	})
}

// Only installs fail, for long: the node does without Redis, and hardly asks the store for what it
// cannot install.
func TestSharedInstallsThatFailBurnFewRanges(t *testing.T) {
	for _, mode := range []string{Degrade, Reject} {
		synctest.Test(t, func(t *testing.T) {
			redis := &redisModel{}
			var bad atomic.Bool
			c := &rcursor{redisModel: redis}
			c.take = func(rediscursor.Take) error { time.Sleep(time.Millisecond); return nil }
			c.install = func(rediscursor.Install) error {
				time.Sleep(time.Millisecond)
				if bad.Load() {
					return errOOM
				}
				return nil
			}
			store := memory.New(time.Now)
			o := &observer{}
			s := node(t, store, c, o, func(s *Settings) { s.ReserveSegments = 0; s.OnRedisDown = mode })
			numbers(t, s, 1)
			time.Sleep(5 * time.Second)
			bad.Store(true)
			before := counter(t, store)
			failed := 0
			for range 30 {
				if _, code := try(t, s, 100); code != "" {
					failed++
				}
			}
			time.Sleep(10 * time.Second)
			after := counter(t, store)
			if burned := after.Max - before.Max; burned > 100*before.Step {
				t.Errorf("%s: %d calls failed; %d numbers were burned in %d ranges, step %d → %d", mode, failed, burned, o.count(seqd.EventRefilled), before.Step, after.Step)
			}
			if left := o.count(seqd.EventRedisAway) > 0; !left || mode == Degrade && failed > 0 {
				t.Errorf("%s: the node left the cursor: %t, %d calls failed", mode, left, failed)
			}
			bad.Store(false)
			time.Sleep(3 * time.Minute)
			closeAll(t, s)
		})
	}
}

// replace puts a counter in the place of what the store has.
func replace(t testing.TB, store persist.Store, c persist.Counter) {
	t.Helper()
	must.Do(t, errors.Join(store.Counters().Delete(t.Context(), c.BizTag), store.Counters().Create(t.Context(), c)))
}

// grow gives the counter the step of a busy one.
func grow(t testing.TB, store persist.Store, step int64) {
	t.Helper()
	c := counter(t, store)
	c.Step = step
	replace(t, store, c)
}

// grown is a step that must not be burned again and again.
const grown = 50_000_000

// A store that takes writes and cannot say so is asked for small ranges, whatever they are for.
func TestUnheardStoreBurnsLittle(t *testing.T) {
	reject := func(s *Settings) { s.OnRedisDown = Reject }
	askFor10Minutes := func(t *testing.T, s seqd.Strategy) {
		for began := time.Now(); time.Since(began) < 10*time.Minute; {
			if _, code := try(t, s, 1); code == "" {
				t.Fatal("a number came")
			}
		}
	}
	for name, test := range map[string]struct {
		perNode bool
		change  func(*Settings)
		before  func(t *testing.T, s seqd.Strategy, r *redisModel) // before the store loses its answers
		after   func(t *testing.T, s seqd.Strategy, r *redisModel)
	}{
		"a beginning of the cursor": {change: reject, after: func(t *testing.T, s seqd.Strategy, r *redisModel) {
			r.lose()
			_, _ = try(t, s, 1) // the only request
			time.Sleep(10 * time.Minute)
		}},
		"the way back of a node that is on its own": {
			before: func(t *testing.T, s seqd.Strategy, r *redisModel) {
				r.change(func(r *redisModel) { r.down = errDown })
				numbers(t, s, 1)
			},
			after: func(_ *testing.T, _ seqd.Strategy, r *redisModel) {
				r.change(func(r *redisModel) { r.down = nil })
				time.Sleep(10 * time.Minute) // nobody asks for anything
			},
		},
		"callers who wait": {change: reject, after: func(t *testing.T, s seqd.Strategy, r *redisModel) {
			r.change(func(r *redisModel) { r.hash.cur, r.hash.queue = r.hash.last, nil })
			askFor10Minutes(t, s)
		}},
		"a node's own buffer": {perNode: true, after: func(t *testing.T, s seqd.Strategy, _ *redisModel) { askFor10Minutes(t, s) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, redis := newHooked(), &redisModel{}
				var s seqd.Strategy
				if test.perNode {
					own, _ := newStrategy(t, store, nil)
					start(t, own, true)
					s = own
				} else {
					s = node(t, store, redis, &observer{}, test.change)
					numbers(t, s, 1)
				}
				time.Sleep(5 * time.Second)
				grow(t, store, grown)
				if test.before != nil {
					test.before(t, s, redis)
				}
				// it takes every write and cannot say so
				store.change(func(h *hookedStore) {
					h.after = func(op string) error { return map[string]error{"allocate": errDown}[op] }
				})
				before := counter(t, store).Max
				test.after(t, s, redis)
				if burned := counter(t, store).Max - before; burned > 2*grown {
					t.Errorf("%d numbers were burned in ten minutes", burned)
				}
				store.change(func(h *hookedStore) { h.after = nil })
				time.Sleep(5 * time.Second)
				end(t, s)
			})
		})
	}
}
