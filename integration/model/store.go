package model

import "github.com/seqd/seqd/persist"

// store is the store: one counter, with the product's own arithmetic.
type store struct {
	counter persist.Counter
	down    bool
	// backup is an older copy.
	backup persist.Counter
	// highest is the last number that ever left the store, restored or not.
	highest int64
}

func (s *store) allocate(req persist.Request) (persist.Range, error) {
	counter, r, err := s.counter.Allocated(req, 0)
	if err == nil {
		s.counter = counter
		s.highest = max(s.highest, r.Last)
	}
	return r, err
}

func (s *store) giveBack(r persist.Range) bool {
	if s.counter.Max != r.Last {
		return false
	}
	s.counter.Max = r.First - 1
	return true
}
