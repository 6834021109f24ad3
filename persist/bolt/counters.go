package bolt

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/persist"
)

// counters keeps each counter under its name.
type counters struct {
	bucket
	now func() time.Time
}

var _ persist.Counters = (*counters)(nil)

// Create implements [persist.Counters].
func (c *counters) Create(ctx context.Context, m persist.Counter) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return c.write(ctx, func(b *bbolt.Bucket) error {
		if b.Get([]byte(m.BizTag)) != nil {
			return fmt.Errorf("%q: %w", m.BizTag, persist.ErrExists)
		}
		return put(b, m)
	})
}

// Read implements [persist.Counters].
func (c *counters) Read(ctx context.Context, bizTag string) (m persist.Counter, err error) {
	err = c.read(ctx, func(b *bbolt.Bucket) error {
		m, err = get[persist.Counter](b, bizTag)
		return err
	})
	return m, err
}

// Delete implements [persist.Counters].
func (c *counters) Delete(ctx context.Context, bizTag string) error {
	return c.write(ctx, func(b *bbolt.Bucket) error {
		if b.Get([]byte(bizTag)) == nil {
			return fmt.Errorf("%q: %w", bizTag, persist.ErrNotFound)
		}
		return b.Delete([]byte(bizTag))
	})
}

// List implements [persist.Counters].
func (c *counters) List(ctx context.Context, after string, limit int) (found []persist.Counter, err error) {
	err = c.read(ctx, func(b *bbolt.Bucket) error {
		found, err = list[persist.Counter](b, nil, []byte(after), limit)
		return err
	})
	return found, err
}

// Allocate implements [persist.Counters]. It reads and writes the counter in one transaction, and
// the file lock keeps other processes out (invariant U1).
func (c *counters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	var allocated persist.Range
	err := c.write(ctx, func(b *bbolt.Bucket) error {
		counter, err := get[persist.Counter](b, req.BizTag)
		if err != nil {
			return err
		}
		if counter, allocated, err = counter.Allocated(req, c.now().UnixMilli()); err != nil {
			return err
		}
		return put(b, counter)
	})
	if err != nil {
		return persist.Range{}, err
	}
	return allocated, nil
}

// GiveBack implements [persist.Counters].
func (c *counters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (bool, error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	given := false
	err := c.write(ctx, func(b *bbolt.Bucket) error {
		counter, err := get[persist.Counter](b, bizTag)
		if err != nil || counter.Max != r.Last {
			return err
		}
		counter.Max, given = r.First-1, true
		return put(b, counter)
	})
	if err != nil {
		return false, err
	}
	return given, nil
}

// Epoch implements [persist.Counters].
func (c *counters) Epoch(ctx context.Context, bizTag string) (string, error) {
	counter, err := c.Read(ctx, bizTag)
	return counter.Epoch, err
}
