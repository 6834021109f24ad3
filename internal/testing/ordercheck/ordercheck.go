// Package ordercheck records the numbers that concurrent callers got, and finds violations: a
// number that was issued twice, or one that is smaller than a number of a call that had ended
// before this call began.
package ordercheck

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Call is one answered call. Start and End are read from one monotonic clock, before sending and
// after receiving.
type Call struct {
	Start, End int64
	// Who is the caller or the node that answered, for messages.
	Who     string
	Numbers []int64
}

// Record collects calls; it is safe for concurrent use.
type Record struct {
	clock atomic.Int64
	mu    sync.Mutex
	calls []Call
}

// New returns an empty record.
func New() *Record { return &Record{} }

// Now returns the time for Start of a call. The clock counts how often it was read. So no two
// events have the same time, and sequential events never look concurrent.
func (r *Record) Now() int64 { return r.clock.Add(1) }

// Add records a call that ends now.
func (r *Record) Add(start int64, who string, numbers []int64) {
	r.AddCall(Call{Start: start, End: r.Now(), Who: who, Numbers: numbers})
}

// AddCall records a call.
func (r *Record) AddCall(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
}

// Each calls f with every recorded call.
func (r *Record) Each(f func(Call)) {
	r.mu.Lock()
	calls := slices.Clone(r.calls)
	r.mu.Unlock()
	for _, c := range calls {
		f(c)
	}
}

// Numbers returns how many numbers were recorded.
func (r *Record) Numbers() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, c := range r.calls {
		n += len(c.Numbers)
	}
	return n
}

// Highest returns the largest recorded number, 0 if there is none.
func (r *Record) Highest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	var highest int64
	for _, c := range r.calls {
		for _, n := range c.Numbers {
			highest = max(highest, n)
		}
	}
	return highest
}

// Check returns an error if there are duplicates or the order is broken.
func (r *Record) Check() error { return errors.Join(r.Duplicates(), r.Order()) }

// Duplicates returns an error for a number that was issued twice.
func (r *Record) Duplicates() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[int64]int)
	for i, c := range r.calls {
		for _, n := range c.Numbers {
			if first, twice := seen[n]; twice {
				return fmt.Errorf("%d was issued twice: to %s and to %s", n, r.calls[first], c)
			}
			seen[n] = i
		}
	}
	return nil
}

// Order returns an error for the first violation of strict order. In strict order the numbers
// within a call increase, and a call that begins after another has ended gets only larger numbers
// (linearizability of an increasing counter).
func (r *Record) Order() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.calls {
		if !slices.IsSorted(c.Numbers) {
			return fmt.Errorf("%s: the numbers do not increase", c)
		}
	}
	byStart, byEnd := slices.Clone(r.calls), slices.Clone(r.calls)
	slices.SortFunc(byStart, func(a, b Call) int { return int(a.Start - b.Start) })
	slices.SortFunc(byEnd, func(a, b Call) int { return int(a.End - b.End) })
	var highest Call // of the calls that ended before this one began
	ended := 0
	for _, c := range byStart {
		for ; ended < len(byEnd) && byEnd[ended].End < c.Start; ended++ {
			if last(byEnd[ended]) > last(highest) {
				highest = byEnd[ended]
			}
		}
		if len(c.Numbers) > 0 && c.Numbers[0] <= last(highest) {
			return fmt.Errorf("%s began after %s had ended", c, highest)
		}
	}
	return nil
}

// Split groups the calls by key, such as the process that answered.
func (r *Record) Split(key func(Call) string) map[string]*Record {
	parts := make(map[string]*Record)
	r.Each(func(c Call) {
		k := key(c)
		if parts[k] == nil {
			parts[k] = New()
		}
		parts[k].AddCall(c)
	})
	return parts
}

func last(c Call) int64 {
	if len(c.Numbers) == 0 {
		return 0
	}
	return c.Numbers[len(c.Numbers)-1]
}

// String formats a call for a message.
func (c Call) String() string {
	if len(c.Numbers) == 0 {
		return fmt.Sprintf("%s [%d, %d] nothing", c.Who, c.Start, c.End)
	}
	return fmt.Sprintf("%s [%d, %d] %d numbers %d … %d", c.Who, c.Start, c.End, len(c.Numbers), c.Numbers[0], last(c))
}
