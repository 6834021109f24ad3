package segment

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

var errOOM = errors.New("OOM command not allowed")

// rcursor lets a test look into every call of one node.
type rcursor struct {
	*redisModel
	take    func(t rediscursor.Take) error
	install func(in rediscursor.Install) error
}

func (c *rcursor) Take(ctx context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	if c.take != nil {
		if err := c.take(t); err != nil {
			return rediscursor.Taken{}, err
		}
	}
	return c.redisModel.Take(ctx, t)
}

func (c *rcursor) Install(ctx context.Context, in rediscursor.Install) (rediscursor.Answer, error) {
	if c.install != nil {
		if err := c.install(in); err != nil {
			return rediscursor.Answer{}, err
		}
	}
	return c.redisModel.Install(ctx, in)
}

// cuttable returns the cursor of one node, and what cuts that node off from Redis.
func cuttable(redis *redisModel) (*rcursor, *atomic.Bool) {
	cut := &atomic.Bool{}
	check := func() error {
		if cut.Load() {
			return errDown
		}
		return nil
	}
	return &rcursor{
		redisModel: redis,
		take:       func(rediscursor.Take) error { return check() },
		install:    func(rediscursor.Install) error { return check() },
	}, cut
}

// Reject: three takes in a row fail while looks work (Redis out of memory for a second). When Redis
// is well again the node must issue again by itself.
func TestSharedRejectRecoversFromFailingTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var oom atomic.Bool
		c := &rcursor{redisModel: &redisModel{}}
		c.take = func(tk rediscursor.Take) error {
			if tk.Count > 0 && oom.Load() {
				time.Sleep(100 * time.Millisecond)
				return errOOM
			}
			return nil
		}
		s := node(t, memory.New(time.Now), c, &observer{}, func(s *Settings) { s.OnRedisDown = Reject })
		numbers(t, s, 10)
		synctest.Wait()
		oom.Store(true)
		_, code := try(t, s, 1)
		t.Log("while out of memory:", code)
		oom.Store(false)
		time.Sleep(time.Hour)
		if _, code := try(t, s, 1); code != "" {
			t.Errorf("an hour after Redis is well again: %s, health %v", code, s.Health())
		}
		closeAll(t, s)
	})
}

// Three takes fail within redisPatience, looks work; then Redis has lost its state, so that a take
// succeeds and brings nothing.
func TestSharedStepPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &rcursor{redisModel: &redisModel{}}
		fails := 0
		c.take = func(tk rediscursor.Take) error {
			if tk.Count > 0 && fails > 0 {
				if fails--; fails == 0 {
					time.Sleep(1 * time.Millisecond)
				}
				return errOOM
			}
			return nil
		}
		s := node(t, memory.New(time.Now), c, &observer{}, nil)
		numbers(t, s, 10)
		synctest.Wait()
		fails = 3
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		// two or three failed takes, then the caller is gone
		_ = s.Generate(ctx, 1, &seqd.Sequence{})
		for fails > 0 {
			_ = s.Generate(ctx, 1, &seqd.Sequence{})
		}
		time.Sleep(time.Second)
		c.lose()
		numbers(t, s, 1)
		closeAll(t, s)
	})
}

// A node that issued on its own, began to go back, and left again before it had moved the cursor,
// is still ahead of the cursor.
func TestSharedAheadSurvivesASecondLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, redis := memory.New(time.Now), &redisModel{}
		ca := &rcursor{redisModel: redis}
		a := node(t, store, ca, &observer{}, small) // reserveSegments 1, the default
		b := node(t, store, redis, &observer{}, func(s *Settings) { small(s); s.OnRedisDown = Reject })
		numbers(t, a, 1)
		synctest.Wait()
		// Node b has got a range from the store, whose install is slow on its way; the cursor is
		// used up.
		older, err := store.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10, To: persist.Beside})
		if err != nil {
			t.Fatal(err)
		}
		gen, epoch := "", ""
		redis.change(func(r *redisModel) {
			r.hash.cur, r.hash.queue, gen, epoch = r.hash.last, nil, r.hash.gen, r.hash.epoch
		})
		var down atomic.Bool
		down.Store(true)
		looks := 0
		ca.take = func(tk rediscursor.Take) error {
			if down.Load() {
				return errDown
			}
			if looks++; looks == 2 { // one look worked (reachable), then it fails again
				down.Store(true)
				return errDown
			}
			return nil
		}
		issued := numbers(t, a, 50)[49]
		if issued <= older.Last {
			t.Fatal(issued, older)
		}
		down.Store(false)
		for a.local.Load() != nil { // goes back...
			time.Sleep(time.Millisecond)
		}
		for a.local.Load() == nil { // ... and leaves again
			time.Sleep(time.Millisecond)
		}
		down.Store(false)
		ca.install = func(in rediscursor.Install) error {
			t.Log("a installs", in.Mode, in.Range)
			if in.Mode == rediscursor.Append {
				// b's range arrives just before.
				answer, err := redis.Install(t.Context(), rediscursor.Install{Mode: rediscursor.Append, Gen: gen, Epoch: epoch, Range: older, Reserve: 5})
				t.Log("b appends", older, answer, err)
			}
			return nil
		}
		ca.install = func(f func(rediscursor.Install) error) func(rediscursor.Install) error {
			once := false
			return func(in rediscursor.Install) error {
				if once {
					return nil
				}
				once = true
				return f(in)
			}
		}(ca.install)
		for a.Degraded() != nil {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		redis.change(func(r *redisModel) { t.Logf("%+v issued %d", *r.hash, issued) })
		if got := numbers(t, b, 1)[0]; got <= issued {
			t.Errorf("b got %d after a, which is back, had issued %d on its own", got, issued)
		}
		closeAll(t, a, b)
	})
}

// Nothing is issued after Close.
func TestSharedIssuedAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		s := node(t, memory.New(time.Now), redis, &observer{}, nil)
		numbers(t, s, 1)
		synctest.Wait()
		redis.change(func(r *redisModel) { r.before = func(string) error { time.Sleep(time.Second); return nil } })
		type got struct {
			at time.Time
			n  int
		}
		out := make(chan got, 2)
		for range 2 {
			go func() {
				var seq seqd.Sequence
				_ = s.Generate(context.Background(), 1, &seq)
				out <- got{time.Now(), seq.Len()}
			}()
			synctest.Wait()
		}
		closeAll(t, s)
		closed := time.Now()
		for range 2 {
			if g := <-out; g.n > 0 && g.at.After(closed) {
				t.Errorf("%d numbers were issued %v after Close had returned", g.n, g.at.Sub(closed))
			}
		}
	})
}

// Close while a mending is about to leave the cursor: the standby range must be given back.
func TestSharedCloseWhileLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		store := memory.New(time.Now)
		o := &observer{}
		c := &rcursor{redisModel: redis}
		var down atomic.Bool
		c.take = func(rediscursor.Take) error {
			if down.Load() {
				time.Sleep(200 * time.Millisecond)
				return errDown
			}
			return nil
		}
		s := node(t, store, c, o, nil)
		numbers(t, s, 10)
		synctest.Wait()
		before := counter(t, store).Max
		down.Store(true)
		go func() { _ = s.Generate(context.Background(), 1, &seqd.Sequence{}) }()
		time.Sleep(300 * time.Millisecond) // the look that will make the node leave is under way
		closeAll(t, s, s)                  // the second time does nothing
		t.Log("max", before, counter(t, store).Max, "given back", o.numbers(seqd.EventGivenBack), "abandoned", o.numbers(seqd.EventAbandoned))
		if o.numbers(seqd.EventGivenBack) == 0 && o.numbers(seqd.EventAbandoned) == 0 {
			t.Error("the standby range is neither given back nor reported as skipped")
		}
	})
}

// While the store is away and the cursor is used up, how often is Redis asked?
func TestSharedLooksWhileStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		store := &flaky{Store: memory.New(time.Now)}
		store.well.Store(true)
		s := node(t, store, redis, &observer{}, func(s *Settings) { small(s); s.OnRedisDown = Reject })
		numbers(t, s, 5)
		synctest.Wait()
		store.down.Store(true)
		for {
			if _, code := try(t, s, 1); code != "" {
				break
			}
		}
		redis.change(func(r *redisModel) { r.calls = 0 })
		time.Sleep(time.Minute) // nobody asks for anything
		redis.change(func(r *redisModel) {
			if r.calls > 600 {
				t.Errorf("%d looks in a minute in which nobody wanted a number", r.calls)
			}
		})
		store.down.Store(false)
		time.Sleep(3 * time.Second)
		closeAll(t, s)
	})
}

// The store was away, another node got ranges since: a node that nobody asks stays degraded.
func TestSharedStoreAwaySticks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		mem := memory.New(time.Now)
		store := &flaky{Store: mem}
		store.well.Store(true)
		a := node(t, store, redis, &observer{}, func(s *Settings) { small(s); s.OnRedisDown = Reject })
		b := node(t, mem, redis, &observer{}, func(s *Settings) { small(s); s.OnRedisDown = Reject })
		numbers(t, a, 5)
		synctest.Wait()
		store.down.Store(true)
		for a.Degraded() == nil {
			_, _ = try(t, a, 1)
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		redis.lose()
		time.Sleep(5 * time.Second)
		numbers(t, b, 1) // seeds
		store.down.Store(false)
		time.Sleep(time.Hour)
		numbers(t, b, 100)
		time.Sleep(time.Hour)
		t.Log(a.Health(), a.Degraded())
		if a.Degraded() != nil {
			t.Errorf("hours after all is well: %v", a.Degraded())
		}
		closeAll(t, a, b)
	})
}

// An observer that asks back.
type asking struct {
	seqd.NopObserver
	s *Shared
}

func (a *asking) Event(e seqd.Event) {
	if a.s != nil {
		_ = a.s.Degraded()
	}
}

func TestSharedObserverMayAsk(t *testing.T) {
	for _, mode := range []string{Degrade, Reject} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				redis := &redisModel{}
				o := &asking{}
				s := node(t, memory.New(time.Now), redis, o, func(s *Settings) { s.OnRedisDown = mode })
				o.s = s
				numbers(t, s, 10)
				synctest.Wait()
				redis.change(func(r *redisModel) { r.down = errDown })
				_, _ = try(t, s, 1)
				closeAll(t, s)
			})
		})
	}
}

// The store's connection of one node hangs; another node keeps the cursor filled. The node can
// issue from the cursor.
type hanging struct {
	persist.Store
	hang atomic.Bool
}

func (h *hanging) Counters() persist.Counters { return hangingCounters{h.Store.Counters(), h} }

type hangingCounters struct {
	persist.Counters
	h *hanging
}

func (c hangingCounters) Read(ctx context.Context, tag string) (persist.Counter, error) {
	if c.h.hang.Load() {
		<-ctx.Done()
		return persist.Counter{}, ctx.Err()
	}
	return c.Counters.Read(ctx, tag)
}

func TestSharedHangingStoreOfOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		mem := memory.New(time.Now)
		h := &hanging{Store: mem}
		a := node(t, h, redis, &observer{}, func(s *Settings) { s.OnRedisDown = Reject })
		b := node(t, mem, redis, &observer{}, func(s *Settings) { s.OnRedisDown = Reject })
		numbers(t, a, 5)
		synctest.Wait()
		h.hang.Store(true)
		redis.lose()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_ = a.Generate(ctx, 1, &seqd.Sequence{}) // a claims the seed
		time.Sleep(time.Second)
		numbers(t, b, 1) // b has seeded
		failed := 0
		began := time.Now()
		for {
			if _, code := try(t, a, 1); code == "" {
				break
			}
			failed++
		}
		if failed > 0 {
			t.Errorf("the cursor had numbers, but node a refused %d calls in a row for %v", failed, time.Since(began))
		}
		closeAll(t, a, b)
	})
}

// A take that panics in the goroutine of its caller, which the issuer recovers from, leaves nobody
// waiting for it.
func TestSharedPanicInATake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics atomic.Bool
		c := &rcursor{redisModel: &redisModel{}, take: func(tk rediscursor.Take) error {
			time.Sleep(time.Millisecond)
			if tk.Count > 0 && panics.CompareAndSwap(true, false) {
				panic("in the client")
			}
			return nil
		}}
		s := node(t, memory.New(time.Now), c, &observer{}, nil)
		numbers(t, s, 10)
		synctest.Wait()
		panics.Store(true)
		func() {
			defer func() { _ = recover() }() // as the issuer does
			_ = s.Generate(t.Context(), 1, &seqd.Sequence{})
		}()
		numbers(t, s, 1)
		synctest.Wait()
		// With others in line, who cannot leave on their own.
		panics.Store(true)
		for range 10 {
			go func() {
				defer func() { _ = recover() }()
				_ = s.Generate(context.Background(), 1, &seqd.Sequence{})
			}()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		numbers(t, s, 1)
		closeAll(t, s)
	})
}

// A caller that waited for the cursor, and then for the node's own buffer, waits acquireTimeout in
// all.
func TestSharedWaitsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		h := &hanging{Store: memory.New(time.Now)}
		var down atomic.Bool
		c := &rcursor{redisModel: redis, take: func(rediscursor.Take) error {
			if down.Load() {
				return errDown
			}
			return nil
		}}
		s := node(t, h, c, &observer{}, func(s *Settings) { s.ReserveSegments = 0 })
		numbers(t, s, 10)
		time.Sleep(5 * time.Second)
		h.hang.Store(true)
		// used up by others
		redis.change(func(r *redisModel) { r.hash.cur, r.hash.queue = r.hash.last, nil })
		began := time.Now()
		go func() { time.Sleep(1200 * time.Millisecond); down.Store(true) }()
		_, code := try(t, s, 5000)
		if waited := time.Since(began); waited != s.settings.AcquireTimeout {
			t.Errorf("%s after %v; acquireTimeout is %v", code, waited, s.settings.AcquireTimeout)
		}
		down.Store(false)
		h.hang.Store(false)
		time.Sleep(30 * time.Second)
		closeAll(t, s)
	})
}

// A node on its own found the store away, and goes back to the cursor without asking it again: it
// finds out when the store is back.
func TestSharedStoreAwayFoundOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, redis := memory.New(time.Now), &redisModel{}
		storeA := &flaky{Store: mem}
		storeA.well.Store(true)
		ca, cut := cuttable(redis)
		a := node(t, storeA, ca, &observer{}, nil)
		b := node(t, mem, redis, &observer{}, nil)
		numbers(t, a, 10)
		numbers(t, b, 10)
		time.Sleep(5 * time.Second)
		redis.change(func(r *redisModel) { r.down = errDown })
		cut.Store(true)
		storeA.down.Store(true)
		numbers(t, a, 50) // of its standby range; its buffer 2 cannot be filled
		numbers(t, b, 300)
		redis.change(func(r *redisModel) { r.down = nil })
		time.Sleep(5 * time.Second) // b is back, and has moved the cursor above a's numbers
		numbers(t, b, 1)
		cut.Store(false)
		time.Sleep(5 * time.Second) // a is back, without a range of its own
		storeA.down.Store(false)
		time.Sleep(time.Hour)
		if a.Degraded() != nil || a.Health() != nil {
			t.Errorf("an hour after all is well: health %v, degraded %v", a.Health(), a.Degraded())
		}
		closeAll(t, a, b)
	})
}
