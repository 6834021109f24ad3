package counters

import (
	"maps"
	"slices"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
)

// mostPeriods is how many values a Periods has at most.
const mostPeriods = 4

// Periods has a value for each of the latest periods that were asked for, such as what the counters
// of a period share. It is safe for concurrent use.
type Periods[V any] struct {
	// New returns the value of a period. It does no I/O.
	New func(seqd.Period) V

	mu     lockorder.Inner // guards what follows
	values map[seqd.Period]V
}

// Of returns the value of a period. A new one takes the place of that of the earliest period if
// there are many.
func (s *Periods[V]) Of(p seqd.Period) V {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, ok := s.values[p]; ok {
		return value
	}
	if s.values == nil {
		s.values = make(map[seqd.Period]V)
	}
	if len(s.values) >= mostPeriods {
		delete(s.values, slices.Min(slices.Collect(maps.Keys(s.values))))
	}
	value := s.New(p)
	s.values[p] = value
	return value
}

// All returns the values of all periods, in no order.
func (s *Periods[V]) All() []V {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.values))
}
