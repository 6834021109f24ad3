package counters

import "math/rand/v2"

// excess takes out counters to make room after one was opened. mu is held.
func (s *Set[C]) excess(e *Entry[C]) (over []*Entry[C]) {
	// two, so that an excess ends that was unavoidable before
	for len(over) < 2 {
		var old *Entry[C]
		if own := s.owned[e.by]; own != nil && len(own) > s.o.MostEach {
			old = s.oldest(own, e)
		}
		if old == nil && len(s.open) > s.o.Most {
			old = s.oldest(s.open, e)
		}
		if old == nil {
			break
		}
		over = append(over, old)
	}
	return over
}

// samples is how many counters are compared to find one that was used long ago.
const samples = 16

// oldest takes out one of these counters that was used long ago and that nobody uses, nil if none
// was found. It is the one used longest ago if there are few. mu is held.
func (s *Set[C]) oldest(of []*Entry[C], except *Entry[C]) *Entry[C] {
	for range samples {
		var oldest *Entry[C]
		for i := range min(samples, len(of)) {
			if len(of) > samples {
				i = rand.IntN(len(of))
			}
			e := of[i]
			if e != except && e.pins.Load() == 0 && (oldest == nil || e.used.Load() < oldest.used.Load()) {
				oldest = e
			}
		}
		if oldest == nil && len(of) <= samples {
			return nil
		}
		if oldest != nil && s.retire(oldest) {
			return oldest
		}
	}
	return nil
}

// retire begins to close a counter, unless somebody uses it. mu is held.
func (s *Set[C]) retire(e *Entry[C]) bool {
	if !e.pins.CompareAndSwap(0, -unusable) {
		return false
	}
	s.takeOut(e)
	return true
}

// takeOut notes that an open counter is being closed. mu is held.
func (s *Set[C]) takeOut(e *Entry[C]) {
	last := s.open[len(s.open)-1]
	s.open[e.index], last.index = last, e.index
	s.open[len(s.open)-1] = nil
	s.open = s.open[:len(s.open)-1]
	s.count.Store(int64(len(s.open)))
	s.disown(e)
	e.index, e.done = -1, make(chan struct{})
}

// disown is takeOut for the counters of one caller. mu is held.
func (s *Set[C]) disown(e *Entry[C]) {
	of := s.owned[e.by]
	if len(of) <= 1 {
		delete(s.owned, e.by)
		return
	}
	last := of[len(of)-1]
	of[e.own], last.own = last, e.own
	of[len(of)-1] = nil
	s.owned[e.by] = of[:len(of)-1]
}
