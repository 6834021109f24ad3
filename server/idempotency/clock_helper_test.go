package idempotency_test

import (
	"context"
	"sync"
	"time"

	"github.com/seqd/seqd/persist/storeclock"
)

// clock is a clock that a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: begin} }

var begin = time.UnixMilli(1_790_000_000_000)

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) elapsed() time.Duration { return c.now().Sub(begin) }

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// storeClock is the clock of a store.
type storeClock struct {
	now func() time.Time
	err error
}

func (s *storeClock) Now(context.Context) (time.Time, error) { return s.now(), s.err }

// off returns a clock that is ahead of another.
func off(now func() time.Time, ahead *time.Duration) func() time.Time {
	return func() time.Time { return now().Add(*ahead) }
}

// rightClock returns the clock of a node and a store whose clocks agree.
func rightClock(now func() time.Time) *storeclock.Clock {
	return storeclock.New(&storeClock{now: now}, now, nil)
}
