// Package storeclock tells the time of a store without asking the store each time, and since when
// nodes have been there to see it pass.
package storeclock

import (
	"context"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

// Clock tells the time of a store, which all nodes that share the store have in common.
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
	set   forward
	// until is from when the clock is trusted, and looked when Settled last read it.
	until  int64
	looked time.Duration
}

// reading is the store's clock, and the node's monotonic clock before it asked and after it was told.
type reading struct {
	at            int64 // ms since the Unix epoch
	asked, answer time.Duration
}

// New returns the clock of a store. now is this node's time of day. elapsed is a clock that nobody
// can set; nil means the system's monotonic clock.
func New(stores persist.Clock, now func() time.Time, elapsed func() time.Duration) *Clock {
	if elapsed == nil {
		began := time.Now()
		elapsed = func() time.Duration { return time.Since(began) }
	}
	return &Clock{stores: stores, now: now, elapsed: elapsed}
}

// Ask reads the store's clock.
func (c *Clock) Ask(ctx context.Context) error {
	asked := c.elapsed()
	now, err := c.stores.Now(ctx)
	answered := c.elapsed()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = reading{now.UnixMilli(), asked, answered}
	if !c.asked {
		c.first = c.last
	}
	c.asked = true
	c.set.note(c.last)
	return nil
}

// Times is one moment on the different clocks, in ms since the Unix epoch. Store is the store's
// time. Earliest and Latest include the time of day of this node, and Earliest what the store's
// clock would say if it had not been set since it was first asked.
//
// The answer of the store may have been on its way for all the time that it took. Store is the earliest
// time that its clock can show, so that what is due does not look due too early. Bound is the latest: what
// begins now must not end earlier than if it had begun then.
//
// Forward is by how many ms the store's clock ran ahead of the monotonic clock of this node in the
// last one to two days, because somebody set it or this machine was suspended. What began before is
// due by so much later.
type Times struct{ Earliest, Store, Bound, Latest, Forward int64 }

// Times returns the current time. It asks the store if that has never succeeded.
func (c *Clock) Times(ctx context.Context) (Times, error) {
	c.mu.Lock()
	asked := c.asked
	c.mu.Unlock()
	if !asked {
		if err := c.Ask(ctx); err != nil {
			return Times{}, err
		}
	}
	return c.times(), nil
}

// Fresh asks the store and returns the current time.
func (c *Clock) Fresh(ctx context.Context) (Times, error) {
	if err := c.Ask(ctx); err != nil {
		return Times{}, err
	}
	return c.times(), nil
}

// times returns the current time after the store has told its own.
func (c *Clock) times() Times {
	own, elapsed := c.now().UnixMilli(), c.elapsed()
	c.mu.Lock()
	defer c.mu.Unlock()
	store, first := c.last.after(elapsed), c.first.after(elapsed)
	return Times{min(own, store, first), store, store + c.last.doubt(), max(own, store), c.set.by(store, elapsed)}
}

// Now returns the store's time in ms since the Unix epoch. It asks the store if that has never
// succeeded.
func (c *Clock) Now(ctx context.Context) (int64, error) {
	t, err := c.Times(ctx)
	return t.Store, err
}

func (r reading) after(elapsed time.Duration) int64 {
	return r.at + (elapsed - r.answer).Milliseconds()
}

// doubt returns by how many ms the store's clock can be ahead of what after returns. What was rounded
// down there counts.
func (r reading) doubt() int64 {
	if r.answer == r.asked {
		return 0
	}
	return (r.answer - r.asked).Milliseconds() + 3
}

// Offset returns how far the clock of this node is ahead of the store's.
func (c *Clock) Offset(ctx context.Context) (time.Duration, error) {
	t, err := c.Times(ctx)
	if err != nil {
		return 0, err
	}
	return time.Duration(c.now().UnixMilli()-t.Store) * time.Millisecond, nil
}

// Known is Offset as far as it is known without asking the store. ok is false if that has never
// answered.
func (c *Clock) Known() (offset time.Duration, ok bool) {
	own, elapsed := c.now().UnixMilli(), c.elapsed()
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(own-c.last.after(elapsed)) * time.Millisecond, c.asked
}
