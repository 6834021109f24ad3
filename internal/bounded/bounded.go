// Package bounded calls functions that may ignore their context.
package bounded

import (
	"context"
	"time"
)

// grace is how long a call may continue after its context has ended.
const grace = 200 * time.Millisecond

// Do calls f and returns its error. If f has not returned soon after ctx has ended, Do leaves it
// running and returns the error of ctx.
func Do(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(grace):
		return ctx.Err()
	}
}
