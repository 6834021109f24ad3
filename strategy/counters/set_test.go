package counters

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// world counts what a set opens and closes.
type world struct {
	mu     sync.Mutex
	states map[Name]*counter
	opened int
	broken []string
	delay  func()
	refuse func(Name) error
}

type counter struct {
	name   Name
	number int
	closed atomic.Bool
}

func (w *world) open(_ context.Context, name Name, _ string) (*counter, error) {
	if w.delay != nil {
		w.delay()
	}
	if w.refuse != nil {
		if err := w.refuse(name); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.states[name] != nil {
		w.broken = append(w.broken, fmt.Sprintf("%v was opened twice", name))
	}
	w.opened++
	c := &counter{name: name, number: w.opened}
	w.states[name] = c
	return c, nil
}

func (w *world) close(_ context.Context, name Name, c *counter) error {
	c.closed.Store(true)
	if w.delay != nil {
		w.delay()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.states[name] != c {
		w.broken = append(w.broken, fmt.Sprintf("%v was closed twice", name))
	}
	delete(w.states, name)
	return nil
}

func newWorld() *world { return &world{states: map[Name]*counter{}} }

func (w *world) set(most int, idle time.Duration) *Set[*counter] {
	return NewSet(Options[*counter]{Most: most, Idle: idle, Wait: time.Hour, Timeout: time.Hour, Open: w.open, Close: w.close})
}

// Callers of many keys find each counter open, never one that is being closed, and no counter is
// open twice.
func TestRandom(t *testing.T) {
	for _, most := range []int{1, 2, 7, 40} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			w := newWorld()
			w.delay = func() {
				if rand.IntN(3) == 0 {
					time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
				}
			}
			s := w.set(most, 5*time.Millisecond)
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for range 2000 {
						name := Name{Key: fmt.Sprint(rand.IntN(20)), Period: 0}
						ctx, cancel := context.WithCancel(t.Context())
						if rand.IntN(10) == 0 {
							cancel()
						}
						e, err := s.Acquire(ctx, name, "")
						if err == nil {
							if e.Counter().closed.Load() || e.Counter().name != name {
								t.Errorf("%v is closed or another one", name)
							}
							e.Release()
						}
						cancel()
					}
				})
			}
			callers.Wait()
			must.Report(t, s.Close(t.Context()))
			if len(w.broken) > 0 || len(w.states) > 0 {
				t.Errorf("%v, %d are open", w.broken, len(w.states))
			}
			must.Is(t, must.Err(s.Acquire(t.Context(), Name{Key: "1"}, "")), ErrStopping, "after Close")
		})
	}
}

func TestAcquireDoesNotAllocate(t *testing.T) {
	w := newWorld()
	s := w.set(10, time.Hour)
	defer func() { _ = s.Close(t.Context()) }()
	name := Name{Key: "tenant-42", Period: 20260000}
	got := must.Allocs(100, func() {
		e := must.Get(s.Acquire(t.Context(), name, ""))(t)
		e.Release()
	})
	must.Equal(t, got, 0, "allocations")
}

// A counter that is used is not closed, although others need the room and it is idle.
func TestUsedCounterStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWorld().set(1, time.Minute)
		held := must.Get(s.Acquire(t.Context(), Name{Key: "held"}, ""))(t)
		for i := range 10 {
			e := must.Get(s.Acquire(t.Context(), Name{Key: fmt.Sprint(i)}, ""))(t)
			e.Release()
		}
		time.Sleep(time.Hour)
		if held.Counter().closed.Load() || s.Len() != 1 {
			t.Errorf("closed, or %d are open", s.Len())
		}
		held.Release()
		time.Sleep(time.Hour)
		if !held.Counter().closed.Load() || s.Len() != 0 {
			t.Errorf("not closed, and %d are open", s.Len())
		}
		must.Report(t, s.Close(t.Context()))
	})
}

// Who waits for a counter while the set is closed is told that it stops, not that its opening was
// canceled: another strategy may take the place of this one, and the caller's request is its.
func TestOpeningEndsWithClose(t *testing.T) {
	opening := make(chan struct{})
	s := NewSet(Options[*counter]{
		Most: 1, Wait: time.Hour, Timeout: time.Hour,
		Open: func(ctx context.Context, _ Name, _ string) (*counter, error) {
			close(opening)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	got := make(chan error)
	go func() {
		_, err := s.Acquire(t.Context(), Name{Key: "a"}, "")
		got <- err
	}()
	<-opening
	must.Report(t, s.Close(t.Context()))
	must.Is(t, <-got, ErrStopping)
}

// A caller who opens more counters than one may closes its own, not those of others; one in use
// stays.
func TestMostEach(t *testing.T) {
	for _, most := range []int{8, 100} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			s := NewSet(Options[*counter]{Most: most, MostEach: 3, Wait: time.Hour, Timeout: time.Hour, Open: w.open, Close: w.close})
			use := func(by string, i int) *Entry[*counter] {
				e := must.Get(s.Acquire(t.Context(), Name{Key: fmt.Sprint(by, i)}, by))(t)
				e.Release()
				return e
			}
			for i := range 3 {
				use("a", i)
			}
			held := must.Get(s.Acquire(t.Context(), Name{Key: "held"}, "b"))(t)
			for i := range 40 {
				use("b", i)
			}
			synctest.Wait()
			for i := range 3 {
				if _, ok := s.Peek(Name{Key: fmt.Sprint("a", i)}); !ok {
					t.Errorf("a%d was pushed out", i)
				}
			}
			if s.Len() != 6 || held.Counter().closed.Load() {
				t.Errorf("%d are open", s.Len())
			}
			held.Release()
			if err := s.Close(t.Context()); err != nil || len(s.owned) != 0 || len(w.states) != 0 {
				t.Error(err, s.owned, w.states)
			}
		})
	}
}
