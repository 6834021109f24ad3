package segment

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
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

// Three takes fail within redisPatience, looks work; then Redis has lost its state, so that a take
// succeeds and brings nothing.
func TestSharedStepPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &rcursor{redisModel: &redisModel{}}
		var fails atomic.Int32
		c.take = func(tk rediscursor.Take) error {
			if tk.Count > 0 && fails.Load() > 0 {
				if fails.Add(-1) == 0 {
					time.Sleep(1 * time.Millisecond)
				}
				return errOOM
			}
			return nil
		}
		s := node(t, memory.New(time.Now), c, &observer{}, nil)
		numbers(t, s, 10)
		synctest.Wait()
		fails.Store(3)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		// two or three failed takes, then the caller is gone
		_ = s.Generate(ctx, 1, &seqd.Sequence{})
		for fails.Load() > 0 {
			_ = s.Generate(ctx, 1, &seqd.Sequence{})
		}
		time.Sleep(time.Second)
		c.lose()
		numbers(t, s, 1)
		closeAll(t, s)
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

// An observer that asks back.
type asking struct {
	seqd.NopObserver
	s *Counter
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
		h := newHooked()
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
		h.hangs("read")
		// used up by others
		redis.change(func(r *redisModel) { r.hash.cur, r.hash.queue = r.hash.last, nil })
		began := time.Now()
		go func() { time.Sleep(1200 * time.Millisecond); down.Store(true) }()
		_, code := try(t, s, 5000)
		must.Equal(t, time.Since(began), s.settings.AcquireTimeout, "%s after", code)
		down.Store(false)
		h.hangs("")
		time.Sleep(30 * time.Second)
		closeAll(t, s)
	})
}
