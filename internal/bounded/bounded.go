// Package bounded keeps code of others within bounds: it may ignore its context, or panic.
package bounded

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// Recover turns a panic into an error that says what panicked. It must be deferred directly.
func Recover(what string, err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("%s panicked: %v\n%s", what, p, debug.Stack())
	}
}

// grace is how long a call may continue after its context has ended.
const grace = 200 * time.Millisecond

// Do calls f and returns its error, also if it panics. If f has not returned soon after ctx has
// ended, Do leaves it running and returns the error of ctx.
func Do(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		defer Recover("the call", &err)
		err = f(ctx)
	}()
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
