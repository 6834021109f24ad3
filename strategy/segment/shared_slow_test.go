package segment

import (
	"context"
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
