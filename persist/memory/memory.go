// Package memory is the store that keeps everything in the process. Its promises end with the
// process: after a restart numbers begin again. It is for tests and for numbers that only have to
// be unique within one run.
package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

// Store is an in-memory [persist.Store], safe for concurrent use.
type Store struct {
	counters counters
	shapes   repository[persist.Shape]
	clusters repository[persist.Cluster]
	slots    slots
	history  history

	documents documents
}

var _ persist.Store = (*Store)(nil)

// New returns an empty store. now is the clock of the timestamps.
func New(now func() time.Time) *Store {
	s := &Store{}
	s.counters.now = now
	s.counters.records = make(map[string]persist.Counter)
	s.shapes.records = make(map[string]persist.Shape)
	s.clusters.records = make(map[string]persist.Cluster)
	s.slots.now = now
	s.slots.registries = make(map[string]persist.Registry)
	s.documents.records = make(map[string]persist.Document)
	s.history.records = make(map[string][]persist.HistoryRecord)
	return s
}

// Counters returns the counters.
func (s *Store) Counters() persist.Counters { return &s.counters }

// Shapes returns the shapes.
func (s *Store) Shapes() persist.Repository[persist.Shape] { return &s.shapes }

// Clusters returns the cluster's record.
func (s *Store) Clusters() persist.Repository[persist.Cluster] { return &s.clusters }

// Slots returns the registries of machine IDs.
func (s *Store) Slots() persist.SlotStore { return &s.slots }

// History returns what was issued, of each biz type the newest million records.
func (s *Store) History() persist.HistoryStore { return &s.history }

// Documents returns the documents.
func (s *Store) Documents() persist.Documents { return &s.documents }

// Shared is false: nobody else can see the memory of a process.
func (s *Store) Shared() bool { return false }

// Describe says what memory promises.
func (s *Store) Describe() string {
	return "memory: numbers are unique for the life of this process only and begin again after a restart"
}

// Close makes every further operation fail with persist.ErrClosed.
func (s *Store) Close() error {
	s.counters.close()
	s.shapes.close()
	s.clusters.close()
	s.slots.close()
	s.history.close()
	s.documents.close()
	return nil
}

type record[M any] interface {
	persist.Record
	CheckUpdate(next M) error
}

// gate lets one operation through at a time, and none after close.
type gate struct {
	mu     sync.Mutex
	closed bool
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// locked runs f under the lock unless the context or the store ended.
func (g *gate) locked(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return persist.ErrClosed
	}
	return f()
}

// repository keeps records of one kind under one lock.
type repository[M record[M]] struct {
	gate
	records map[string]M
}

// get returns a record; the lock is held.
func (r *repository[M]) get(id string) (M, error) {
	m, ok := r.records[id]
	if !ok {
		return m, fmt.Errorf("%q: %w", id, persist.ErrNotFound)
	}
	return m, nil
}

// Create implements [persist.Repository].
func (r *repository[M]) Create(ctx context.Context, m M) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return r.locked(ctx, func() error {
		if _, ok := r.records[m.PersistID()]; ok {
			return fmt.Errorf("%q: %w", m.PersistID(), persist.ErrExists)
		}
		r.records[m.PersistID()] = m
		return nil
	})
}

// Read implements [persist.Repository].
func (r *repository[M]) Read(ctx context.Context, id string) (m M, err error) {
	err = r.locked(ctx, func() error {
		m, err = r.get(id)
		return err
	})
	return m, err
}

// Update implements [persist.Repository].
func (r *repository[M]) Update(ctx context.Context, m M) error {
	if err := m.Validate(); err != nil {
		return err
	}
	return r.locked(ctx, func() error {
		old, err := r.get(m.PersistID())
		if err != nil {
			return err
		}
		if err := old.CheckUpdate(m); err != nil {
			return err
		}
		r.records[m.PersistID()] = m
		return nil
	})
}

// Delete implements [persist.Repository].
func (r *repository[M]) Delete(ctx context.Context, id string) error {
	return r.locked(ctx, func() error {
		if _, err := r.get(id); err != nil {
			return err
		}
		delete(r.records, id)
		return nil
	})
}

// List implements [persist.Repository].
func (r *repository[M]) List(ctx context.Context, after string, limit int) (list []M, err error) {
	err = r.locked(ctx, func() error {
		for _, id := range slices.Sorted(maps.Keys(r.records)) {
			if id > after && len(list) < limit {
				list = append(list, r.records[id])
			}
		}
		return nil
	})
	return list, err
}

type counters struct {
	repository[persist.Counter]
	now func() time.Time
}

// Allocate implements [persist.Allocator].
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

// Epoch implements [persist.Counters].
func (c *counters) Epoch(ctx context.Context, bizTag string) (string, error) {
	counter, err := c.Read(ctx, bizTag)
	return counter.Epoch, err
}

// GiveBack implements [persist.Allocator].
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
