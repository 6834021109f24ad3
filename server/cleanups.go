package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd/internal/bounded"
)

// slack is how long a clean-up may take after its context has ended, before it is left.
const slack = 500 * time.Millisecond

// cleanup undoes one step of the start.
type cleanup struct {
	name     string // a noun, for its error
	patience time.Duration
	do       func(context.Context) error
}

// cleanups are what a stop has to do, in the order of the start. The last one runs first.
type cleanups struct{ list []cleanup }

// add adds a clean-up. Its context ends after patience; if it does not return then, it is left to
// the end of the process.
func (c *cleanups) add(name string, patience time.Duration, do func(context.Context) error) {
	c.list = append(c.list, cleanup{name, patience, do})
}

// run runs every clean-up once, also after one that fails, and joins their errors.
func (c *cleanups) run() error {
	var failed []error
	for len(c.list) > 0 {
		last := c.list[len(c.list)-1]
		c.list = c.list[:len(c.list)-1]
		failed = append(failed, last.run())
	}
	return errors.Join(failed...)
}

// run names the clean-up in its error.
func (c cleanup) run() error {
	outer, cancel := context.WithTimeout(context.Background(), c.patience+slack)
	defer cancel()
	err := bounded.Do(outer, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, c.patience)
		defer cancel()
		return c.do(ctx)
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s did not close within %s: %w", c.name, c.patience, err)
	}
	return fmt.Errorf("close %s: %w", c.name, err)
}
