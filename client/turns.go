package client

import (
	"context"
	"errors"
	"math"
	"time"
)

// Waiting between two requests of one call to one node: the first wait, doubled with every failure
// up to the longest. The node may ask for more by Retry-After.
const (
	firstBackoff   = 50 * time.Millisecond
	longestBackoff = 2 * time.Second
)

// shunFor is how long other nodes are asked before one that failed.
const shunFor = time.Second

// turns decides which node a call asks next, and when.
type turns struct {
	client *Client
	began  time.Time
	last   *Error
	// Of each node: when it may be asked again, and how often this call failed at it. Nil before the
	// first failure.
	notBefore []time.Time
	failures  []int
}

// next returns the index of the node to ask, after it has waited if need be. It returns the last
// error of the call if its time would be over.
func (t *turns) next(ctx context.Context) (int, error) {
	for {
		if ctx.Err() != nil {
			return 0, t.ended(ctx)
		}
		now := time.Now()
		if t.last == nil {
			t.began = now
		}
		i, wait := t.pick(now)
		if i >= 0 {
			if t.last != nil && t.failures[i] > 0 && now.Sub(t.began) > t.client.wait {
				return 0, t.last // nodes that hang leave nothing to wait for
			}
			return i, nil
		}
		deadline, bounded := ctx.Deadline()
		if bounded && now.Add(wait).After(deadline) || now.Add(wait).Sub(t.began) > t.client.wait {
			return 0, t.last
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// ended returns the error of a call whose context ended between two requests.
func (t *turns) ended(ctx context.Context) error {
	if t.last == nil {
		return &Error{Code: ErrUnreachable, Detail: "the context ended before a request was sent", Err: ctx.Err()}
	}
	e := *t.last
	e.Err = errors.Join(ctx.Err(), e.Err)
	return &e
}

// pick returns the index of the node to ask now, or -1 and how long until there is one. Nodes that
// failed this call least often come first, of these the ones that no call has found failing lately,
// and of these the preferred one.
func (t *turns) pick(now time.Time) (i int, wait time.Duration) {
	c := t.client
	if len(c.nodes) == 1 && t.last == nil {
		return 0, 0
	}
	i, wait = -1, math.MaxInt64
	first := int(c.preferred.Load())
	for k := range c.nodes {
		at := (first + k) % len(c.nodes)
		if t.notBefore != nil {
			if until := t.notBefore[at].Sub(now); until > 0 {
				wait = min(wait, until)
				continue
			}
		}
		if i < 0 || t.before(at, i, now) {
			i = at
		}
	}
	return i, wait
}

// before reports whether node i comes before node j, although j is closer to the preferred one.
func (t *turns) before(i, j int, now time.Time) bool {
	if t.failures != nil && t.failures[i] != t.failures[j] {
		return t.failures[i] < t.failures[j]
	}
	return !t.client.shunned(i, now) && t.client.shunned(j, now)
}

// shunned reports whether other nodes are asked before a node.
func (c *Client) shunned(i int, now time.Time) bool {
	return c.nodes[i].shunned.Load() > int64(now.Sub(c.began))
}

// failed notes that a node failed, and when it may be asked again.
func (t *turns) failed(i int, e *Error) {
	c, now := t.client, time.Now()
	t.last = e
	if t.notBefore == nil {
		t.notBefore, t.failures = make([]time.Time, len(c.nodes)), make([]int, len(c.nodes))
	}
	if e.Code == ErrRateLimited || e.Code == ErrTooManyAnswers {
		// The limit is for this caller. Asking other nodes would be evading it.
		until := now.Add(t.backoff(i, e))
		t.failures[i]++
		for j := range t.notBefore {
			if until.After(t.notBefore[j]) {
				t.notBefore[j] = until
			}
			t.failures[j] = max(t.failures[j], 1) // so that this does not make other nodes come first
		}
		return
	}
	t.notBefore[i] = now.Add(t.backoff(i, e))
	t.failures[i]++
	c.nodes[i].shunned.Store(int64(now.Add(max(shunFor, min(e.RetryAfter, 10*shunFor))).Sub(c.began)))
}

// backoff returns how long to leave a node alone after an error.
func (t *turns) backoff(i int, e *Error) time.Duration { return backoff(t.failures[i], e) }

// backoff returns how long to wait after an error that some others came before.
func backoff(before int, e *Error) time.Duration {
	return max(e.RetryAfter, jitter(min(firstBackoff<<min(before, 10), longestBackoff)))
}

// worked notes that a node answered. The client stays with it.
func (c *Client) worked(i int) {
	if c.nodes[i].shunned.Load() != 0 {
		c.nodes[i].shunned.Store(0)
	}
	if preferred := c.preferred.Load(); int(preferred) != i {
		c.preferred.CompareAndSwap(preferred, int32(i))
	}
}
