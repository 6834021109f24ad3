package client

import (
	"context"
	"errors"
	"sync"
	"time"
)

// SnowflakeOptions says how a [Snowflake] leases worker IDs.
type SnowflakeOptions struct {
	// Instance is the name by which the service shows this program to people; see [LeaseOptions].
	Instance string
}

// Snowflake makes IDs of a pool of worker IDs in this process, without a request for each. It
// leases a worker ID, renews the lease in the background, and leases another one if it gets lost.
// It is safe for concurrent use.
//
// No two programs make the same ID, whatever is wrong with their clocks, and however long one of
// them was paused or cut off: see [WorkerLease]. IDs of one Snowflake increase. Those of several
// are only roughly in the order of time, because their clocks differ.
//
// While the service is away, it makes IDs until the lease ends: for two thirds of the pool's ttl at
// least.
type Snowflake struct {
	client *Client
	pool   string
	opts   LeaseOptions
	now    func() time.Time
	began  time.Time

	ctx    context.Context // ends when it is closed
	cancel context.CancelFunc
	kept   chan struct{} // closed when keep has ended

	// mu guards what follows.
	mu      sync.Mutex
	maker   maker
	read    time.Time     // when the clock was read
	milli   int64         // its millisecond, in ms since the Unix epoch
	left    time.Duration // what was left of that millisecond
	changed chan struct{} // closed and replaced when a request has ended
}

// standBy is how long one request for a lease waits while all worker IDs are held.
const standBy = 20 * time.Second

// lookAgain is how often waiting callers and the keeper of the lease look at the clock, which
// can be set.
const lookAgain = time.Second

// Snowflake returns a maker of IDs, and begins to lease a worker ID of a pool. While all are held,
// it stands by for one. Close it when it is no longer needed.
func (c *Client) Snowflake(pool string, opts SnowflakeOptions) (*Snowflake, error) {
	if err := checkPool(pool); err != nil {
		return nil, err
	}
	s := c.newSnowflake(pool, opts, time.Now)
	go s.keep()
	return s, nil
}

func (c *Client) newSnowflake(pool string, opts SnowflakeOptions, now func() time.Time) *Snowflake {
	s := &Snowflake{
		client: c, pool: pool, opts: LeaseOptions{Instance: opts.Instance, Wait: standBy},
		now: now, began: now(), kept: make(chan struct{}), changed: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Next makes an ID. It waits if that is within the context, and otherwise returns at once why there
// is none:
//
//   - for the first lease, or what keeps the service from granting one. [ErrNoMachineID] if that is
//     not there in time;
//   - for the next millisecond, if all IDs of this one are made: [ErrTimeout];
//   - for a clock that is behind the lease, or was set back by up to 5 ms: [ErrClockRollback].
//
// It does not wait for a clock that was set back further, nor for another lease after one has
// ended: [ErrNoMachineID], with the error of the last renewal. Call it again later. After Close it
// returns [ErrClosed].
func (s *Snowflake) Next(ctx context.Context) (int64, error) {
	for {
		s.mu.Lock()
		// Within a millisecond only the clock that nobody sets is read, which halves the costs. A change
		// of the other one is noticed in the next millisecond; take checks the time in any case.
		since := time.Since(s.read)
		if since < 0 || since >= s.left {
			s.read, since = s.now(), 0
			s.milli = s.read.UnixMilli()
			s.left = time.Millisecond - time.Duration(s.read.Nanosecond())%time.Millisecond
		}
		id, wait, refused := s.maker.take(s.milli)
		left, changed := s.left-since, s.changed
		s.mu.Unlock()
		if refused == nil {
			return id, nil
		}
		if wait > 0 {
			wait += left - time.Millisecond
		}
		if err := await(ctx, wait, changed, refused); err != nil {
			return 0, err
		}
	}
}

// await waits for what keeps a caller from getting an ID, as take says. It returns refused if that
// would not be within the context, and with the error of the context if that ends.
func await(ctx context.Context, wait time.Duration, changed <-chan struct{}, refused *Error) error {
	deadline, bounded := ctx.Deadline()
	if wait == 0 || bounded && wait != unknown && time.Now().Add(wait).After(deadline) {
		return refused
	}
	if wait == unknown {
		wait = lookAgain
	}
	timer := time.NewTimer(min(wait, lookAgain))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
		e := *refused
		e.Err = errors.Join(ctx.Err(), e.Err)
		return &e
	}
	return nil
}

// keep keeps a lease until the Snowflake is closed.
func (s *Snowflake) keep() {
	defer close(s.kept)
	for s.ctx.Err() == nil {
		now := s.now()
		s.mu.Lock()
		lease, wait := s.maker.next(now.Sub(s.began), now.UnixMilli())
		s.mu.Unlock()
		if wait > 0 {
			timer := time.NewTimer(min(wait, lookAgain))
			select {
			case <-timer.C:
			case <-s.ctx.Done():
			}
			timer.Stop()
			continue
		}
		var err error
		if lease == nil {
			lease, err = s.client.LeaseWorker(s.ctx, s.pool, s.opts)
		} else {
			lease, err = lease.Renew(s.ctx)
		}
		s.note(lease, err)
	}
}

// note notes how a request ended, and wakes callers that wait for it.
func (s *Snowflake) note(lease *WorkerLease, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := s.now().Sub(s.began); {
	case err == nil:
		s.maker.granted(lease, now)
	case s.ctx.Err() == nil:
		s.maker.failed(asError(err), now)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Close ends making IDs, and then releases the lease, so that another program can have the worker
// ID at once. If that fails, the worker ID stays held until the lease ends.
func (s *Snowflake) Close(ctx context.Context) error {
	s.cancel()
	<-s.kept
	s.mu.Lock()
	lease, last := s.maker.end()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
	if lease == nil {
		return nil
	}
	return lease.Release(ctx, last)
}
