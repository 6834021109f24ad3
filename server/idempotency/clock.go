package idempotency

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

// Clock tells the time by which entries in a store begin and end. No single clock that is wrong, of
// this node or of the store, makes an answer end early: answers are written by the later and
// removed by the earlier of the two. Claims go by the store's clock alone, which all nodes share.
//
// The store is asked for its clock by Ask. In between, it goes on as the time passes on this node,
// which nobody sets. It is safe for concurrent use.
type Clock struct {
	stores  persist.Clock
	now     func() time.Time
	elapsed func() time.Duration

	mu    sync.Mutex // guards what follows
	asked bool
	first reading // of all
	last  reading
}

// reading is what the store's clock was when this much time had passed on the node.
type reading struct {
	at      int64 // ms since the Unix epoch
	elapsed time.Duration
}

// NewClock returns the clock of a store. now is the time of day of this node, and elapsed, nil for
// the system's, a clock that nobody sets.
func NewClock(stores persist.Clock, now func() time.Time, elapsed func() time.Duration) *Clock {
	if elapsed == nil {
		began := time.Now()
		elapsed = func() time.Duration { return time.Since(began) }
	}
	return &Clock{stores: stores, now: now, elapsed: elapsed}
}

// Ask asks the store for its clock.
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

// times is one moment by the different clocks, in ms since the Unix epoch.
type times struct{ earliest, store, latest int64 }

// times returns what time it is. It asks the store if that has never succeeded.
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

// mostSkew is how far the clock of a node may be off that of the store before it is worth a
// warning.
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
