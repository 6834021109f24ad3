// Package connlimit lets a pool of connections work with fewer than it may have, if the server
// gives it no more: because of a limit of the user, the database, the server or a pooler. A caller
// whose connection the server refuses waits for one of the others.
package connlimit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// rest is how long a place is not used for which the server had no connection.
	rest = 10 * time.Second
	// pause is how long the last place waits before it asks again.
	pause = 100 * time.Millisecond
)

// Places are how many callers can use a pool at once. They are safe for concurrent use.
type Places struct {
	free chan struct{} // holds the places that nobody uses
	// waits and waited are totals, of callers that found no free place; waited in nanoseconds.
	waits, waited atomic.Int64

	mu      sync.Mutex // guards what follows
	resting int        // places, which are less than all
}

// New returns the places of a pool that has at most this many connections, at least 1.
func New(most int) *Places {
	p := &Places{free: make(chan struct{}, most)}
	for range most {
		p.free <- struct{}{}
	}
	return p
}

// Do calls use, which takes a connection of the pool, uses it and gives it back. If it returns an
// error for which refused is true, the server has refused a new connection, and so nothing was
// sent: Do calls use again when another caller gives a connection back, until ctx ends. Then it
// returns the last error of use, or that of ctx if there is none.
func (p *Places) Do(ctx context.Context, refused func(error) bool, use func() error) (err error) {
	for {
		if p.wait(ctx) != nil {
			if err == nil {
				err = ctx.Err()
			}
			return err
		}
		if err = p.try(ctx, refused, use); !refused(err) {
			return err
		}
	}
}

// wait takes a free place, or returns an error if ctx ends before there is one.
func (p *Places) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-p.free:
		return nil
	default:
	}
	began := time.Now()
	defer func() {
		p.waits.Add(1)
		p.waited.Add(int64(time.Since(began)))
	}()
	select {
	case <-p.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// State returns how many places are taken, of how many, and how often and how long callers have waited
// for one. A place that rests counts as taken.
func (p *Places) State() (taken, most int, waits int64, waited time.Duration) {
	return cap(p.free) - len(p.free), cap(p.free), p.waits.Load(), time.Duration(p.waited.Load())
}

// try calls use and gives the place back, at once or later.
func (p *Places) try(ctx context.Context, refused func(error) bool, use func() error) (err error) {
	back := func() { p.free <- struct{}{} }
	defer func() { back() }() // also if use panics
	if err = use(); !refused(err) {
		return err
	}
	if p.lay() {
		back = func() { time.AfterFunc(rest, p.resume) }
		return err
	}
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
	return err
}

// lay lets a place rest, unless it is the last one, and reports whether it does.
func (p *Places) lay() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.resting+1 == cap(p.free) {
		return false
	}
	p.resting++
	return true
}

// resume ends the rest of a place.
func (p *Places) resume() {
	p.mu.Lock()
	p.resting--
	p.mu.Unlock()
	p.free <- struct{}{}
}
