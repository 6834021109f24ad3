package segment

import (
	"maps"
	"slices"

	"github.com/seqd/seqd"
)

// known is what a process knows of a counter beyond what the store says: a store that was restored from an older copy, or a cursor that was left behind, shows
// only against it. 0 is nothing.
type known struct {
	issued int64 // the highest number that this process has issued
	alone  int64 // the highest of those that did not come from the cursor, which may be behind it for that
	ceil   int64 // the highest number that was in the cursor
}

// knowing is a strategy of one counter.
type knowing interface {
	// knows returns what is known of the counter. It may be asked at any time.
	knows() known
}

// inheriting is a strategy that nobody uses yet.
type inheriting interface {
	inherit(k known)
}

var (
	_ seqd.Heir = (*Strategy)(nil)
	_ seqd.Heir = (*Shared)(nil)
	_ seqd.Heir = (*Periodic)(nil)
)

// Inherit takes over what another strategy of the same counter knew.
func (s *Strategy) Inherit(from seqd.Strategy) { inherit(s, from) }

// Inherit takes over what another strategy of the same counter knew.
func (s *Shared) Inherit(from seqd.Strategy) { inherit(s, from) }

func inherit(heir inheriting, from seqd.Strategy) {
	if k, ok := from.(knowing); ok {
		heir.inherit(k.knows())
	}
}

// knows implements [knowing]. What is left in the buffer does not count: Close gives it back, and the store then goes down to what was issued.
func (s *Strategy) knows() known {
	k := s.heritage
	k.issued = max(k.issued, s.buffer.issued())
	k.alone = k.issued
	return k
}

func (s *Strategy) inherit(k known) {
	s.heritage = k
	s.buffer.highest = max(s.buffer.highest, k.issued, k.ceil)
}

// knows implements [knowing].
func (s *Shared) knows() known {
	var alone int64
	if local := s.local.Load(); local != nil {
		alone = local.issued()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.heritage
	if s.highest > s.floor {
		k.issued = s.highest
	}
	if s.outage.ahead {
		alone = max(alone, s.highest)
	}
	return known{issued: max(k.issued, alone), alone: max(k.alone, alone), ceil: max(k.ceil, s.ceil)}
}

func (s *Shared) inherit(k known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heritage = k
	s.floor = max(s.floor, k.alone)
	s.highest = max(s.highest, s.floor, k.issued)
	s.see(s.highest)
	s.seeCeil(k.ceil)
}

// mostKnown is of how many periods a process keeps what it knew when the strategy is replaced.
const mostKnown = 2 * mostSpans

// Inherit takes over what another strategy of this biz type knew of each period. Where numbers began again at other times, periods have other counters.
func (s *Periodic) Inherit(from seqd.Strategy) {
	if p, ok := from.(*Periodic); ok {
		s.heritage = p.knowsOf()
	}
}

// knowsOf returns what is known of the latest periods.
func (s *Periodic) knowsOf() map[seqd.Period]known {
	s.mu.Lock()
	all := maps.Clone(s.heritage)
	spans := maps.Clone(s.spans)
	s.mu.Unlock()
	if all == nil {
		all = make(map[seqd.Period]known)
	}
	for period, sp := range spans {
		if k, ok := sp.counting.(knowing); ok {
			all[period] = k.knows()
		}
	}
	periods := slices.Sorted(maps.Keys(all))
	for _, period := range periods[:max(0, len(periods)-mostKnown)] {
		delete(all, period)
	}
	return all
}
