package segment

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// slowCursor answers after a while, which is less than redis.timeout, and honours ctx.
type slowCursor struct {
	*redisModel
	latency time.Duration
}

func (c slowCursor) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(c.latency):
		return nil
	}
}

func (c slowCursor) Take(ctx context.Context, t rediscursor.Take) (rediscursor.Taken, error) {
	if err := c.wait(ctx); err != nil {
		return rediscursor.Taken{}, err
	}
	return c.redisModel.Take(ctx, t)
}

func (c slowCursor) Install(ctx context.Context, in rediscursor.Install) (rediscursor.Answer, error) {
	if err := c.wait(ctx); err != nil {
		return rediscursor.Answer{}, err
	}
	return c.redisModel.Install(ctx, in)
}

// A Redis that is slower than looks wait while callers do, but well within redis.timeout, is used.
func TestSharedSlowRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observer{}
		s := node(t, memory.New(time.Now), slowCursor{&redisModel{}, 300 * time.Millisecond}, o, nil)
		for range 100 {
			_, _ = try(t, s, 1)
			time.Sleep(10 * time.Second)
		}
		if _, code := try(t, s, 1); code != "" || s.Degraded() != nil {
			t.Errorf("after %d numbers from the store: %v", o.numbers(seqd.EventRefilled), s.Degraded())
		}
		closeAll(t, s)
	})
}

// Redis was away, came back for one take between two of the server's looks, and is away again: a
// node that nobody asks for numbers finds out when it is asked how it is.
func TestRedisAwayAfterABlink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := &redisModel{}
		s := node(t, memory.New(time.Now), redis, &observer{}, func(s *Settings) { s.OnRedisDown = Reject })
		numbers(t, s, 10)
		time.Sleep(time.Second)
		since := time.Now()
		s.env.RedisAway = func() (time.Time, error) { return since, errors.New("away") }
		time.Sleep(500 * time.Millisecond)
		numbers(t, s, 1) // Redis is there for a moment
		redis.change(func(r *redisModel) { r.down = errDown })
		time.Sleep(time.Hour)
		_ = s.Health() // has it looked at
		synctest.Wait()
		if s.Health() == nil {
			t.Error("Redis has been away for an hour, the watch knows it, every request would be refused, and the node calls itself well")
		}
		redis.change(func(r *redisModel) { r.down = nil })
		time.Sleep(2 * time.Second)
		_ = s.Health()
		synctest.Wait()
		if err := s.Health(); err != nil {
			t.Error("the server of this counter is well again, whatever the watch finds elsewhere:", err)
		}
		closeAll(t, s)
	})
}
