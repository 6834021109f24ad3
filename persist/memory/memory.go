// Package memory keeps everything in the process. Its promises end with the process: after a
// restart numbers start from the beginning. It is for tests, and for numbers that need to be unique
// within one run only.
package memory

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

// Store is an in-memory [persist.Store], safe for concurrent use.
type Store struct {
	counters  counters
	documents documents
	slots     slots
	history   history
}

var _ persist.Store = (*Store)(nil)

// New returns an empty store. now is its clock.
func New(now func() time.Time) *Store {
	s := &Store{}
	s.counters.now = now
	s.counters.records = make(map[string]persist.Counter)
	s.slots.now = now
	s.slots.registries = make(map[string]registry)
	s.documents.kinds = make(map[string]map[string]persist.Document)
	s.history.records = make(map[string][]persist.HistoryRecord)
	return s
}

// Copy returns a store of its own that has the same content. now is its clock.
func (s *Store) Copy(now func() time.Time) *Store {
	c := New(now)
	for _, part := range []*lock{&s.counters.lock, &s.slots.lock, &s.documents.lock, &s.history.lock} {
		part.mu.Lock()
		defer part.mu.Unlock()
	}
	c.counters.records = maps.Clone(s.counters.records)
	for name, has := range s.slots.registries {
		c.slots.registries[name] = registry{has.set, maps.Clone(has.slots)}
	}
	for kind, documents := range s.documents.kinds {
		c.documents.kinds[kind] = maps.Clone(documents)
	}
	for bizType, records := range s.history.records {
		c.history.records[bizType] = slices.Clone(records)
	}
	return c
}

// Counters returns the counters.
func (s *Store) Counters() persist.Counters { return &s.counters }

// Now returns the time of the process.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.counters.locked(ctx, func() error { now = s.counters.now(); return nil })
	return now, err
}

// Slots returns the registries of machine IDs.
func (s *Store) Slots() persist.SlotStore { return &s.slots }

// History returns the history: the newest million records of each biz type.
func (s *Store) History() persist.HistoryStore { return &s.history }

// Documents returns the documents.
func (s *Store) Documents() persist.Documents { return &s.documents }

// Shared is false: no other process sees the memory.
func (s *Store) Shared() bool { return false }

// Lossy is false: nothing fails over.
func (s *Store) Lossy() bool { return false }

// Describe says what memory promises.
func (s *Store) Describe() string {
	return "memory: numbers are unique for the life of this process only and begin again after a restart"
}

// Close makes every further operation fail with persist.ErrClosed.
func (s *Store) Close() error {
	s.counters.close()
	s.slots.close()
	s.history.close()
	s.documents.close()
	return nil
}

// lock lets one operation through at a time, and none after close.
type lock struct {
	mu     sync.Mutex // guards closed, and what the operation uses
	closed bool
}

func (l *lock) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// locked runs f under the lock unless the context or the store ended.
func (l *lock) locked(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return persist.ErrClosed
	}
	return f()
}
