package idempotency

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

// Clock tells when records in a store begin and end. One wrong clock, of this node or of the store,
// never makes an answer end early: answers are written with the later of the two times and removed
// by the earlier. Claims use the store's clock alone, which all nodes share.
//
// Ask reads the store's clock. Between calls of Ask it advances with the monotonic clock of this
// node, which nobody can set. Clock is safe for concurrent use.
type Clock struct {
	stores  persist.Clock
	now     func() time.Time
	elapsed func() time.Duration

	mu    sync.Mutex // guards what follows
	asked bool
	first reading // the first reading of all
	last  reading
}

// reading is the store's clock, and the node's monotonic clock at that moment.
type reading struct {
	at      int64 // ms since the Unix epoch
	elapsed time.Duration
}

// NewClock returns the clock of a store. now is this node's time of day. elapsed is a clock that
// nobody can set; nil means the system's monotonic clock.
func NewClock(stores persist.Clock, now func() time.Time, elapsed func() time.Duration) *Clock {
	if elapsed == nil {
		began := time.Now()
		elapsed = func() time.Duration { return time.Since(began) }
	}
	return &Clock{stores: stores, now: now, elapsed: elapsed}
}

// Ask reads the store's clock.
func (c *Clock) Ask(ctx context.Context) error {
	elapsed := c.elapsed()
	now, err := c.stores.Now(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = reading{now.UnixMilli(), elapsed}
	if !c.asked {
		c.first = c.last
	}
	c.asked = true
	return nil
}

// times is one moment on the different clocks, in ms since the Unix epoch.
type times struct{ earliest, store, latest int64 }

// times returns the current time. It asks the store if that has never succeeded.
func (c *Clock) times(ctx context.Context) (times, error) {
	c.mu.Lock()
	asked := c.asked
	c.mu.Unlock()
	if !asked {
		if err := c.Ask(ctx); err != nil {
			return times{}, err
		}
	}
	own, elapsed := c.now().UnixMilli(), c.elapsed()
	c.mu.Lock()
	defer c.mu.Unlock()
	store, first := c.last.after(elapsed), c.first.after(elapsed)
	return times{min(own, store, first), store, max(own, store)}, nil
}

func (r reading) after(elapsed time.Duration) int64 {
	return r.at + (elapsed - r.elapsed).Milliseconds()
}

// mostSkew is how far this node's clock may be off the store's before a warning is due.
const mostSkew = time.Hour

// Skew returns an error if the clocks of this node and of the store are far apart.
func (c *Clock) Skew(ctx context.Context) error {
	t, err := c.times(ctx)
	if err != nil {
		return err
	}
	off := time.Duration(c.now().UnixMilli()-t.store) * time.Millisecond
	if off.Abs() <= mostSkew {
		return nil
	}
	side := "ahead of"
	if off < 0 {
		side = "behind"
	}
	return fmt.Errorf("the clock of this node is %s %s that of the store: answers are kept for as much longer; set the clock that is wrong",
		off.Abs().Round(time.Second), side)
}
