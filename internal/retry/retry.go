// Package retry repeats a failed operation until it succeeds. It is a narrow front of
// github.com/cenkalti/backoff. All retries in this module use [Do], so that they stop, log and grow
// their pauses in the same way.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Policy says how long to pause between attempts, and how often to try.
type Policy struct {
	// First is the pause after the first failed attempt. Each further pause is twice as long.
	First time.Duration
	// Last is the longest pause. If it is not longer than First, every pause is First.
	Last time.Duration
	// Attempts is the largest number of attempts, 0 for no limit.
	Attempts int
	// Jitter shortens each pause at random, by up to half, so that nodes that failed together do
	// not come back together.
	Jitter bool
	// Failed is called after each attempt that failed and will be repeated; nil for no call. See
	// [OnChange].
	Failed func(error)
}

// Do calls attempt until it returns nil, and pauses after each failure as the policy says. It calls
// attempt at least once. It returns early with
//   - the error given to [Permanent], if attempt returns one;
//   - the last error, after the policy's number of attempts;
//   - the cause of ctx, if ctx ends during a pause or before an attempt fails.
//
// ctx is passed on to attempt. An attempt that must outlive ctx uses a context of its own.
func Do(ctx context.Context, p Policy, attempt func(context.Context) error) error {
	pauses := newPauses(p)
	options := []backoff.RetryOption{
		backoff.WithBackOff(pauses),
		backoff.WithMaxElapsedTime(0),
		backoff.WithMaxTries(uint(p.Attempts)),
	}
	if p.Failed != nil {
		options = append(options, backoff.WithNotify(func(err error, _ time.Duration) { p.Failed(err) }))
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := attempt(ctx)
		pauses.heed(err)
		return struct{}{}, err
	}, options...)
	return err
}

// Permanent returns an error that makes [Do] stop and return err. It returns nil if err is nil.
func Permanent(err error) error { return backoff.Permanent(err) }

// After returns an error that makes [Do] pause for at least d. It wraps err.
func After(d time.Duration, err error) error { return &later{error: err, wait: d} }

type later struct {
	error
	wait time.Duration
}

func (l *later) Unwrap() error { return l.error }

// OnChange returns a function for [Policy].Failed that calls f with the first error and with each
// error whose text differs from the previous one. So a reason is logged once and not at every
// attempt.
func OnChange(f func(error)) func(error) {
	previous, called := "", false
	return func(err error) {
		text := err.Error()
		if called && text == previous {
			return
		}
		previous, called = text, true
		f(err)
	}
}

// pauses gives the lengths of the pauses.
type pauses struct {
	backoff.BackOff
	atLeast time.Duration // what the last attempt asked for
}

func newPauses(p Policy) *pauses {
	grow := &backoff.ExponentialBackOff{InitialInterval: p.First, MaxInterval: max(p.First, p.Last), Multiplier: 2}
	if p.Jitter {
		// three quarters plus or minus a third of that: from half to all
		grow.InitialInterval = grow.InitialInterval / 4 * 3
		grow.MaxInterval = grow.MaxInterval / 4 * 3
		grow.RandomizationFactor = 1.0 / 3
	}
	return &pauses{BackOff: grow}
}

// heed notes how long err asks to wait.
func (p *pauses) heed(err error) {
	p.atLeast = 0
	if asked, ok := errors.AsType[*later](err); ok {
		p.atLeast = asked.wait
	}
}

// NextBackOff implements [backoff.BackOff].
func (p *pauses) NextBackOff() time.Duration { return max(p.BackOff.NextBackOff(), p.atLeast) }
