package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seqd/seqd/persist"
)

// counters keeps counters by their names, under one lock.
type counters struct {
	lock
	records map[string]persist.Counter
	now     func() time.Time
}

var _ persist.Counters = (*counters)(nil)

// get returns a counter; the lock is held.
func (c *counters) get(bizTag string) (persist.Counter, error) {
	m, ok := c.records[bizTag]
	if !ok {
		return m, fmt.Errorf("%q: %w", bizTag, persist.ErrNotFound)
	}
	return m, nil
}

// Create implements [persist.Counters].
func (c *counters) Create(ctx context.Context, m persist.Counter) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return c.locked(ctx, func() error {
		if _, ok := c.records[m.BizTag]; ok {
			return fmt.Errorf("%q: %w", m.BizTag, persist.ErrExists)
		}
		c.records[m.BizTag] = m
		return nil
	})
}

// Read implements [persist.Counters].
func (c *counters) Read(ctx context.Context, bizTag string) (m persist.Counter, err error) {
	err = c.locked(ctx, func() error {
		m, err = c.get(bizTag)
		return err
	})
	return m, err
}

// Delete implements [persist.Counters].
func (c *counters) Delete(ctx context.Context, bizTag string) error {
	return c.locked(ctx, func() error {
		if _, err := c.get(bizTag); err != nil {
			return err
		}
		delete(c.records, bizTag)
		return nil
	})
}

// List implements [persist.Counters].
func (c *counters) List(ctx context.Context, after string, limit int) (list []persist.Counter, err error) {
	err = c.locked(ctx, func() error {
		for _, name := range slices.Sorted(maps.Keys(c.records)) {
			if name > after && len(list) < limit {
				list = append(list, c.records[name])
			}
		}
		return nil
	})
	return list, err
}

// Allocate implements [persist.Counters]. It reads and writes the counter under one lock (invariant
// U1).
func (c *counters) Allocate(ctx context.Context, req persist.Request) (r persist.Range, err error) {
	err = c.locked(ctx, func() error {
		counter, err := c.get(req.BizTag)
		if err != nil {
			return err
		}
		if counter, r, err = counter.Allocated(req, c.now().UnixMilli()); err != nil {
			return err
		}
		c.records[req.BizTag] = counter
		return nil
	})
	return r, err
}

// GiveBack implements [persist.Counters].
func (c *counters) GiveBack(ctx context.Context, bizTag string, r persist.Range) (given bool, err error) {
	if err := r.Validate(); err != nil {
		return false, err
	}
	err = c.locked(ctx, func() error {
		counter, err := c.get(bizTag)
		if err != nil || counter.Max != r.Last {
			return err
		}
		counter.Max = r.First - 1
		c.records[bizTag] = counter
		given = true
		return nil
	})
	return given, err
}

// Epoch implements [persist.Counters].
func (c *counters) Epoch(ctx context.Context, bizTag string) (string, error) {
	counter, err := c.Read(ctx, bizTag)
	return counter.Epoch, err
}
