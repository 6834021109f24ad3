package segment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/segment/cursor"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
	"github.com/seqd/seqd/strategy/segment/storetake"
)

// sequenced makes a strict counter in a store that nodes share.
func sequenced(env strategy.Env, o origin) (*Counter, error) {
	if env.Redis != nil {
		opened := rediscursor.Open(rediscursor.Options{Client: env.Redis, Batch: env.RedisBatch, Prefix: env.RedisPrefix, Cluster: env.Cluster}, o.name)
		return newSequenced(o, o.cursor(opened)), nil
	}
	if o.settings.Sequencer == SequencerRedis {
		return nil, fmt.Errorf("biz type %s: segment.sequencer is redis, and redis.addrs is empty", o.name)
	}
	return newSequenced(o, nil), nil
}

// newSequenced returns a strict counter in a store that nodes share. from is its cursor in Redis,
// nil without Redis. The setting sequencer, and whether there is a cursor, decide what its source
// is.
func newSequenced(o origin, from sharedCursor) *Counter {
	c := &Counter{ranges: ranges{origin: o}, cursor: from}
	switch {
	case from == nil || o.settings.Sequencer == SequencerStore:
		c.become(c.fromStore())
		return c
	case o.settings.Sequencer != SequencerRedis:
		c.moves = &moves{}
	}
	c.become(c.fromCursor())
	return c
}

// moves lets a counter change its source. It belongs to a counter whose sequencer is `auto`, on a
// node that has Redis. The counter's sequencer epoch says where it takes numbers: from the store
// ([stored]) or from a cursor in Redis ([shared]). If the epoch changes, the counter moves to the
// other one: it opens that, closes the present one, and hands over what that knows. So the numbers
// of this node keep increasing.
type moves struct {
	mu       lockorder.Outer // guards what follows
	closed   bool
	stopping chan struct{} // closed by close; nil before the first move
	over     chan struct{} // closed when the move under way ends; nil while there is none
}

// successor makes the source over the other sequencer. It has issued nothing and knows nothing yet.
func (c *Counter) successor(of source) source {
	if _, ok := of.(*shared); ok {
		return c.fromStore()
	}
	return c.fromCursor()
}

// yields reports whether the store sequences the counter.
func (s *shared) yields() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Yields()
}

// someOn continues some, which took ordinals from a source until another one had to take its place:
// why says so. It waits for the move to that, and takes there what is missing up to the goal.
func (c *Counter) someOn(ctx context.Context, goal int, seq *seqd.Sequence, from source, why error) error {
	late := time.NewTimer(c.settings.AcquireTimeout)
	defer late.Stop()
	for isMoved(why) {
		over := c.move(from)
		if over == nil { // it is closed
			return why
		}
		select {
		case <-over:
		case <-late.C:
			return why
		case <-ctx.Done():
			return seqd.AsError(ctx.Err())
		}
		from = c.source()
		why = from.some(ctx, goal-seq.Len(), seq)
	}
	return why
}

// isMoved reports whether a source refused because another one is to take its place, or has.
func isMoved(err error) bool {
	return errors.Is(err, cursor.ErrYield) || errors.Is(err, storetake.ErrChanged) || errors.Is(err, errStopping)
}

// done is a channel that is closed.
var done = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// startMove begins the move from a source whose sequencer has lost the counter, if the counter can
// move. The caller holds no lock, because moves.mu is an outer lock.
func (c *Counter) startMove(from source) {
	if c.moves != nil {
		c.move(from)
	}
}

// move begins the move from one source to the one over the other sequencer, unless that move is
// under way or is done. It returns a channel that is closed when the move ends. After Close it
// returns nil.
func (c *Counter) move(from source) (over <-chan struct{}) {
	f := c.moves
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return nil
	case c.source() != from:
		return done
	case f.stopping == nil:
		f.stopping = make(chan struct{})
	}
	if f.over == nil {
		f.over = make(chan struct{})
		go c.moveOn(from, f.stopping)
	}
	return f.over
}

// moveOn opens the other source, and closes the present one. Only then the other one issues, so it
// knows all that this node has issued.
func (c *Counter) moveOn(from source, stopping <-chan struct{}) {
	next, err := c.openOther(from, stopping)
	if err == nil {
		if from.stop() {
			ctx, cancel := cancelled(fetchDeadline, stopping)
			err := from.close(ctx)
			cancel()
			if err != nil {
				c.env.Log.Info("a sequencer could not be closed cleanly", "bizType", c.name, "error", err)
			}
		}
		next.inherit(from.knows())
		if c.whyAway() != nil {
			c.storeUnknown() // the other source has just read it
		}
	}
	f := c.moves
	f.mu.Lock()
	late := f.closed && err == nil
	if !f.closed && err == nil {
		c.become(next)
		c.env.Log.Info("the sequencer of the counter has changed; the node follows", "bizType", c.name, "sequencer", next.sequencer())
	}
	close(f.over)
	f.over = nil
	f.mu.Unlock()
	if late {
		next.stop() // Close may not have waited for it
	}
}

// openOther makes the source over the other sequencer ready to issue. It tries again until it can,
// and fails only after Close.
func (c *Counter) openOther(from source, stopping <-chan struct{}) (source, error) {
	next := c.successor(from)
	for pause := cursor.FirstPause; ; pause = min(2*pause, cursor.LastPause) {
		ctx, cancel := cancelled(fetchDeadline, stopping)
		err := next.open(ctx, false)
		cancel()
		if err == nil {
			return next, nil
		}
		select {
		case <-time.After(pause):
		case <-stopping:
			return nil, errStopping
		}
	}
}

// close ends moves, and waits for the one under way until ctx ends.
func (f *moves) close(ctx context.Context) {
	f.mu.Lock()
	if f.stopping != nil && !f.closed {
		close(f.stopping)
	}
	f.closed = true
	over := f.over
	f.mu.Unlock()
	if over == nil {
		return
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}
