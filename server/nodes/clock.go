package nodes

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
)

const (
	// askPause is how often the store is asked for its time, and askAgain how often until it
	// answers.
	askPause = time.Minute
	askAgain = 5 * time.Second
	// askPatience is how long the answer may take.
	askPatience = 3 * time.Second
)

// Clock tells the time that the nodes of a cluster have in common: that of the store, or the time
// of day of this node until that is known. It is safe for concurrent use.
type Clock struct {
	now   func() time.Time
	store *storeclock.Clock
}

// NewClock returns the clock of a node whose time of day is now. Until [Clock.Follow] is called, it
// tells that.
func NewClock(store persist.Clock, now func() time.Time) *Clock {
	return &Clock{now: now, store: storeclock.New(store, now, nil)}
}

// Follow asks the store for its time now and then until ctx ends. If the store does not answer, the
// clock goes on as it was.
func (c *Clock) Follow(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if c.Ask(ctx) != nil { // what writes to the store says so if it is away
			timer.Reset(askAgain)
		} else {
			timer.Reset(askPause)
		}
	}
}

// Ask asks the store for its time.
func (c *Clock) Ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return c.store.Ask(ctx)
}

// Now returns the time. It does not wait.
func (c *Clock) Now() time.Time {
	offset, _ := c.Offset()
	return c.now().Add(-offset)
}

// Known reports whether the store has told its time. Before, a document of another node may look
// older than it is.
func (c *Clock) Known() bool {
	_, ok := c.store.Known()
	return ok
}

// Offset returns how far this node's time of day is ahead of the store's. ok is false if that is
// not known.
func (c *Clock) Offset() (offset time.Duration, ok bool) {
	if offset, ok = c.store.Known(); !ok {
		offset = 0
	}
	return offset, ok
}
