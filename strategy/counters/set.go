// Package counters is what strategies with a counter for each key, each period, or both have in
// common. It knows nothing about numbers: what a counter is, and how it is opened and closed, is
// the [Kind] of a strategy. A [Family] is all counters of one biz type. Only [Name] says what
// counters there are; DESIGN §3 "Keys" says what another dimension beside key and period needs.
//
// A [Set] holds the counters that a node has open. It opens a counter at its first use, once for
// all callers who wait. It closes a counter that was used long ago if too many are open, and those
// that nobody uses. A counter is opened again only after closing it ended, so what it gives back or
// leaves behind is there by then.
//
// # Goroutines and locks
//
//   - A caller who finds a counter open uses it in its own goroutine, without a lock.
//   - Otherwise the set opens the counter in a goroutine of its own (begin), and callers wait. The
//     same goroutine then closes the counters that make room.
//   - One goroutine (sweep) closes the counters that nobody uses.
//   - One goroutine for each biz type asks a store that is away (watch), and one for each [Places]
//     counts keys (recount).
//
// All locks of the package are inner ones (DESIGN, "Locks"). No lock is held while a method of
// [Kind] or the store is called. A goroutine that takes places from the store has the turn of
// its [Places] instead, which is a channel.
//
// # Files
//
//   - settings.go: which counters there are, and how many
//   - family.go: all counters of one biz type
//   - name.go: the names of counters, and which keys have one
//   - set.go: counters are opened, used and closed one by one
//   - room.go: which ones are closed to make room
//   - close.go: all are closed
//   - table.go: finds a counter by its name, without a lock
//   - calendar.go: the present period, when it ends, and the one before
//   - memory.go: what is known of counters that were closed
//   - purge.go: counters of past periods are removed
//   - reach.go: whether the store can be used
//   - places.go, recount.go, share.go: how many keys there are, and how many there may be
package counters

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
)

// Options say what a [Set] holds.
type Options[C any] struct {
	// Most is how many counters stay open, at least 1. There may be more while callers use them, and
	// while others are being closed.
	Most int
	// MostEach is how many counters stay open that one caller has opened, 0 for all of Most. After
	// another was opened, one of that caller is closed that was used long ago. There may be more
	// while they are used, or closed.
	MostEach int
	// Idle is for how long a counter stays open that nobody uses, up to half as long again; 0 for as
	// long as there is room.
	Idle time.Duration
	// Wait is how long a caller waits for a counter that is being opened or closed.
	Wait time.Duration
	// Timeout bounds the context of Open, and that of Close except in [Set.Close].
	Timeout time.Duration
	// Open opens a counter. It runs in a goroutine of its own, never twice at a time for one name.
	// Its error goes to all who wait; the next caller tries again. by is the first caller.
	Open func(ctx context.Context, name Name, by string) (C, error)
	// Close closes a counter that Open returned. It runs once for each counter. It runs while nobody
	// uses the counter, and its error is dropped. [Set.Close] also closes counters in use, with its
	// own context, and returns the errors.
	Close func(ctx context.Context, name Name, counter C) error
}

// Set is the open counters of one biz type. It is safe for concurrent use.
type Set[C any] struct {
	// Running ends when Close begins.
	Running context.Context

	o     Options[C]
	end   context.CancelFunc       // of Running; called under mu
	table atomic.Pointer[table[C]] // of all entries; changed under mu
	// uses grows with each counter that is opened. Those used since are in the order of their use as
	// far as it matters.
	uses  atomic.Uint64
	count atomic.Int64 // counters that are open

	busy chan struct{} // one for each counter that is being opened or closed

	mu   lockorder.Inner // guards what follows
	open []*Entry[C]     // open counters, in no order
	// owned are the open counters by who has opened them, in no order; nil without MostEach.
	owned    map[string][]*Entry[C]
	sweeping bool           // sweep runs
	over     bool           // nothing stays open
	work     sync.WaitGroup // goroutines; added to under mu and before Close
}

// parallel is how many counters are opened and closed at once. The store merges what comes
// together, so more of them need fewer syncs. A goroutine that opens a counter waits for its turn,
// and keeps the turn until it has closed the counters that make room, at most two. So a slow store
// slows opening down, and at most twice parallel counters wait to be closed for room. Counters that
// nobody uses are not bounded by this: sweep takes all of them out, and then closes them in turn.
const parallel = 256

// NewSet returns a set without counters.
func NewSet[C any](o Options[C]) *Set[C] {
	s := &Set[C]{o: o, busy: make(chan struct{}, parallel)}
	s.Running, s.end = context.WithCancel(context.Background())
	if o.MostEach > 0 {
		s.owned = map[string][]*Entry[C]{}
	}
	s.table.Store(newTable[C](0))
	return s
}

// Entry is a counter that a caller uses, until Release.
type Entry[C any] struct {
	name Name
	by   string // who has opened it
	// pins is how many callers use the counter. While the counter is not open, unusable is subtracted
	// from it.
	pins    atomic.Int64
	used    atomic.Uint64 // Set.uses when it was used last
	counter C             // set before it is open

	// What follows is guarded by Set.mu.
	done    chan struct{} // closed when opening or closing ends; nil while the counter is open
	err     error         // why it could not be opened; valid once done is closed
	waiting int64         // callers who wait while it is being opened
	// index is where the counter is in Set.open: 0 while it is being opened, -1 while it is being
	// closed.
	index int
	own   int // in Set.owned[by]
}

const unusable = int64(1) << 40

// Name returns the name of the counter.
func (e *Entry[C]) Name() Name { return e.name }

// Counter returns the counter. It is not closed before Release, except by [Set.Close].
func (e *Entry[C]) Counter() C { return e.counter }

// Release ends one use.
func (e *Entry[C]) Release() { e.pins.Add(-1) }

// pin begins a use, unless the counter is not open.
func (e *Entry[C]) pin() bool {
	if e.pins.Add(1) > 0 {
		return true
	}
	e.pins.Add(-1)
	return false
}

// Errors of [Set.Acquire].
var (
	// ErrStopping is returned after [Set.Close].
	ErrStopping = &seqd.Error{Code: seqd.CodeStopping, Detail: "the service is stopping", RetryAfter: time.Second}
	// ErrLate is returned if a counter was not opened within Wait.
	ErrLate = &seqd.Error{Code: seqd.CodeTimeout, Detail: "the counter could not be opened in time", RetryAfter: time.Second}
)

// Acquire returns an open counter, which it opens if need be, for a caller that by names. The
// caller calls Release when it has used it. If the counter is open, Acquire does not wait, lock or
// allocate. It returns what Open returned, a timeout, or after Close that the service is stopping.
func (s *Set[C]) Acquire(ctx context.Context, name Name, by string) (*Entry[C], error) {
	e := s.table.Load().find(name)
	if e == nil || !e.pin() {
		late := time.NewTimer(s.o.Wait)
		defer late.Stop()
		return s.acquire(ctx, name, by, late.C)
	}
	s.touch(e)
	return e, nil
}

// Await is Acquire for work in the background: it waits until ctx ends, and no caller is named.
func (s *Set[C]) Await(ctx context.Context, name Name) (*Entry[C], error) {
	return s.acquire(ctx, name, "", nil)
}

// touch notes that a counter is used. The order is exact only if there are few.
func (s *Set[C]) touch(e *Entry[C]) {
	if s.o.Most <= samples {
		e.used.Store(s.uses.Add(1))
		return
	}
	if uses := s.uses.Load(); e.used.Load() != uses {
		e.used.Store(uses)
	}
}

// acquire is Acquire for a counter that may have to be opened.
func (s *Set[C]) acquire(ctx context.Context, name Name, by string, late <-chan time.Time) (*Entry[C], error) {
	for {
		e, done, err := s.join(name, by)
		if done == nil {
			return e, err
		}
		select {
		case <-done:
		default:
			select {
			case <-done:
			case <-late:
				err = ErrLate
			case <-ctx.Done():
				err = seqd.AsError(ctx.Err())
			}
		}
		if err != nil {
			s.leave(e)
			return nil, err
		}
		if e == nil {
			continue // it was closed
		}
		if e.err != nil {
			return nil, e.err
		}
		return e, nil // pinned by opened
	}
}

// join returns an open counter for use, or a channel to wait for. If it returns an entry with it,
// the counter is being opened, for this caller too.
func (s *Set[C]) join(name Name, by string) (e *Entry[C], done chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Closed() {
		return nil, nil, ErrStopping
	}
	e = s.table.Load().find(name)
	switch {
	case e == nil:
		name.Key = strings.Clone(name.Key) // the caller's may be part of a buffer
		e = &Entry[C]{name: name, by: strings.Clone(by), done: make(chan struct{})}
		e.pins.Store(-unusable)
		s.add(e)
		s.work.Go(func() { s.begin(e) })
	case e.done == nil: // open
		e.pins.Add(1)
		s.touch(e)
		return e, nil, nil
	case e.index < 0: // being closed
		return nil, e.done, nil
	}
	e.waiting++
	return e, e.done, nil
}

// leave ends the wait of a caller who does not get the counter. e may be nil.
func (s *Set[C]) leave(e *Entry[C]) {
	if e == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.done == nil || e.index < 0: // it was opened, and pinned for this caller
		e.Release()
	default:
		e.waiting--
	}
}

// begin opens a counter, and closes others that have to make room.
func (s *Set[C]) begin(e *Entry[C]) {
	s.busy <- struct{}{}
	defer func() { <-s.busy }()
	ctx, cancel := context.WithTimeout(s.Running, s.o.Timeout)
	counter, err := s.o.Open(ctx, e.name, e.by)
	cancel()
	for _, old := range s.opened(e, counter, err) {
		s.finish(old)
	}
}

// opened notes how opening ended, lets the callers go on, and returns the counters to close.
func (s *Set[C]) opened(e *Entry[C], counter C, err error) []*Entry[C] {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := e.done
	defer close(done)
	if err != nil {
		if s.Closed() {
			err = ErrStopping // whatever came of the context that Close has ended
		}
		e.err = err
		s.remove(e)
		return nil
	}
	e.counter, e.done, e.index = counter, nil, len(s.open)
	s.open = append(s.open, e)
	s.count.Store(int64(len(s.open)))
	if s.owned != nil {
		e.own = len(s.owned[e.by])
		s.owned[e.by] = append(s.owned[e.by], e)
	}
	e.used.Store(s.uses.Add(1))
	e.pins.Add(unusable + e.waiting)
	switch {
	case s.over:
		e.pins.Add(-unusable)
		s.takeOut(e)
		return []*Entry[C]{e}
	case s.Closed():
		return nil // Close closes it
	}
	if s.o.Idle > 0 && !s.sweeping {
		s.sweeping = true
		s.work.Go(s.sweep)
	}
	return s.excess(e)
}

// finish closes a counter that was taken out, and drops the error.
func (s *Set[C]) finish(e *Entry[C]) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Timeout)
	defer cancel()
	_ = s.shut(ctx, e)
}

// shut closes a counter that was taken out. Then it can be opened again.
func (s *Set[C]) shut(ctx context.Context, e *Entry[C]) error {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.remove(e)
		close(e.done)
	}()
	return s.o.Close(ctx, e.name, e.counter)
}

// sweep closes counters that nobody uses, until none is open.
func (s *Set[C]) sweep() {
	timer := time.NewTicker(s.o.Idle / 2)
	defer timer.Stop()
	var before uint64      // uses at the tick before the last one
	since := s.uses.Add(1) // uses at the last tick
	for {
		select {
		case <-timer.C:
		case <-s.Running.Done():
			return
		}
		idle, more := s.idle(before)
		s.finishAll(idle)
		if !more {
			return
		}
		before, since = since, s.uses.Add(1)
	}
}

// idle takes out the counters that were not used since, and reports whether others are open.
func (s *Set[C]) idle(since uint64) (idle []*Entry[C], more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.open) - 1; i >= 0; i-- {
		if e := s.open[i]; e.used.Load() < since && s.retire(e) {
			idle = append(idle, e)
		}
	}
	s.sweeping = len(s.open) > 0
	return idle, s.sweeping
}

// finishAll is finish for many counters, several at a time.
func (s *Set[C]) finishAll(all []*Entry[C]) {
	var wg sync.WaitGroup
	for _, e := range all {
		s.busy <- struct{}{}
		wg.Go(func() {
			defer func() { <-s.busy }()
			s.finish(e)
		})
	}
	wg.Wait()
}

// Forget closes a counter that was used in vain, unless somebody uses it.
func (s *Set[C]) Forget(name Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.table.Load().find(name)
	if s.Closed() || e == nil || e.done != nil || !s.retire(e) {
		return
	}
	s.work.Go(func() {
		s.busy <- struct{}{}
		defer func() { <-s.busy }()
		s.finish(e)
	})
}

// Go runs a function in the background, for which Close waits. After Close has begun it does not
// run the function, and returns false.
func (s *Set[C]) Go(do func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Closed() {
		return false
	}
	s.work.Go(do)
	return true
}

// Closed reports whether Close has begun.
func (s *Set[C]) Closed() bool { return s.Running.Err() != nil }

// Peek returns a counter if it is open. It may be closed at any time.
func (s *Set[C]) Peek(name Name) (counter C, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.table.Load().find(name); e != nil && e.done == nil {
		return e.counter, true
	}
	return counter, false
}

// Len returns how many counters are open. It does not lock.
func (s *Set[C]) Len() int { return int(s.count.Load()) }

// Some returns at most n counters that are open. They may be closed at any time.
func (s *Set[C]) Some(n int) []C {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.open))
	if n == 0 {
		return nil
	}
	some, from := make([]C, 0, n), rand.IntN(len(s.open))
	for i := range n {
		some = append(some, s.open[(from+i)%len(s.open)].counter)
	}
	return some
}

// Each calls f with each counter that is open or being closed. f may call the set.
func (s *Set[C]) Each(f func(name Name, counter C)) {
	s.mu.Lock()
	var all []*Entry[C]
	s.table.Load().each(func(e *Entry[C]) {
		if e.done == nil || e.index < 0 {
			all = append(all, e)
		}
	})
	s.mu.Unlock()
	for _, e := range all {
		f(e.name, e.counter)
	}
}
