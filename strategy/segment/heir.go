package segment

import (
	"context"
	"maps"
	"slices"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

// known is what a process knows of a counter beyond what the store says. It shows that the store
// was restored from an older copy, or that a cursor is behind. 0 is nothing.
type known struct {
	issued int64 // the highest number that this process has issued
	// the highest of those that did not come from the cursor, so that the cursor may be behind it
	alone int64
	ceil  int64 // the highest number that was in the cursor
	// the highest number of a range that a caller issues from later
	beside int64
	// whether the counter cannot be opened because the store has lost it
	refuses bool
}

// Refuses implements what [counters.Memory] needs.
func (k known) Refuses() bool { return k.refuses }

// with combines what two processes know.
func (k known) with(other known) known {
	return known{issued: max(k.issued, other.issued), alone: max(k.alone, other.alone), ceil: max(k.ceil, other.ceil), beside: max(k.beside, other.beside), refuses: k.refuses}
}

// behind reports whether the cursor may be below numbers that this process has issued.
func (k known) behind() bool { return k.alone > k.ceil }

// knowing is a strategy of one counter.
type knowing interface {
	// knows returns what is known of the counter. It may be asked at any time.
	knows() known
}

// knowingPeriods is a strategy whose numbers are reset.
type knowingPeriods interface {
	// knowsOf returns what is known of the latest periods. It may be asked at any time.
	knowsOf() map[seqd.Period]known
}

// knowingKeys is a strategy that counts for each key.
type knowingKeys interface {
	// knowsKeys returns what is known of the latest keys. It may be asked at any time.
	knowsKeys() map[counters.Name]known
}

// inheriting is a strategy that can take over what another one knew, before it is used.
type inheriting interface {
	inherit(k known)
}

var (
	_ seqd.Testator = (*Strategy)(nil)
	_ seqd.Testator = (*Shared)(nil)
	_ seqd.Testator = (*Periodic)(nil)
)

// legacy is what stays of a closed strategy of one counter.
type legacy struct {
	nobody
	known
}

// periodicLegacy is what stays of a closed strategy whose numbers are reset. It is smaller than a
// map.
type periodicLegacy struct {
	nobody
	kept []periodKnown
}

type periodKnown struct {
	period seqd.Period
	known
}

// knows implements [knowing].
func (l *legacy) knows() known { return l.known }

// knowsOf implements [knowingPeriods].
func (l *periodicLegacy) knowsOf() map[seqd.Period]known {
	all := make(map[seqd.Period]known, len(l.kept))
	for _, k := range l.kept {
		all[k.period] = k.known
	}
	return all
}

// keyedLegacy is what stays of a closed strategy that counted for each key. It is smaller than a
// map too.
type keyedLegacy struct {
	nobody
	kept []keyKnown
}

type keyKnown struct {
	name counters.Name
	known
}

// knowsKeys implements [knowingKeys].
func (l *keyedLegacy) knowsKeys() map[counters.Name]known {
	all := make(map[counters.Name]known, len(l.kept))
	for _, k := range l.kept {
		all[k.name] = k.known
	}
	return all
}

// Legacy implements [seqd.Testator].
func (s *Keyed) Legacy() seqd.Strategy {
	all := s.knowsKeys()
	if len(all) == 0 {
		return nil
	}
	left := &keyedLegacy{kept: make([]keyKnown, 0, len(all))}
	for name, known := range all {
		left.kept = append(left.kept, keyKnown{name, known})
	}
	return left
}

// Inherit takes over what another strategy of this biz type knew of each key.
func (s *Keyed) Inherit(from seqd.Strategy) {
	if k, ok := from.(knowingKeys); ok {
		for name, known := range k.knowsKeys() {
			s.keep(name, known)
		}
	}
}

// keep adds to what is known of a key that is not open.
func (s *Keyed) keep(name counters.Name, k known) {
	if k != (known{}) {
		s.memory.Keep(name, k.with(s.memory.Of(name)))
	}
}

// knowsKeys implements [knowingKeys].
func (s *Keyed) knowsKeys() map[counters.Name]known {
	open := make(map[counters.Name]known)
	s.set.Each(func(name counters.Name, c counting) {
		if k := knownBy(c); k != (known{}) {
			open[name] = k
		}
	})
	all := s.memory.All() // after that, because what is closed meanwhile is kept
	for name, k := range open {
		all[name] = k.with(all[name])
	}
	return all
}

// nobody is a strategy that issues nothing: others only inherit from it.
type nobody struct{}

// Init refuses.
func (nobody) Init(context.Context, bool) error { return errStopping }

// Generate refuses.
func (nobody) Generate(context.Context, int, *seqd.Sequence) error { return errStopping }

// Close has nothing to end.
func (nobody) Close(context.Context) error { return nil }

// Legacy implements [seqd.Testator].
func (s *Strategy) Legacy() seqd.Strategy { return s.knows().legacy() }

// Legacy implements [seqd.Testator].
func (s *Shared) Legacy() seqd.Strategy { return s.knows().legacy() }

// Legacy implements [seqd.Testator].
func (s *Periodic) Legacy() seqd.Strategy {
	all := s.knowsOf()
	if len(all) == 0 {
		return nil
	}
	kept := make([]periodKnown, 0, len(all))
	for period, k := range all {
		kept = append(kept, periodKnown{period, k})
	}
	return &periodicLegacy{kept: kept}
}

func (k known) legacy() seqd.Strategy {
	if k == (known{}) {
		return nil
	}
	return &legacy{known: k}
}

// Inherit takes over what another strategy of the same counter knew.
func (s *Strategy) Inherit(from seqd.Strategy) { inherit(s, from) }

// Inherit takes over what another strategy of the same counter knew.
func (s *Shared) Inherit(from seqd.Strategy) { inherit(s, from) }

func inherit(heir inheriting, from seqd.Strategy) {
	if k, ok := from.(knowing); ok {
		heir.inherit(k.knows())
	}
}

// knows implements [knowing]. What is left in the buffer does not count: Close gives it back, and
// then the store's maximum is what was issued.
func (s *Strategy) knows() known {
	k := s.heritage
	k.issued = max(k.issued, s.buffer.issued())
	k.alone, k.beside = k.issued, s.besides()
	return k
}

func (s *Strategy) inherit(k known) {
	s.heritage = k
	s.inheritBeside(k)
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
	k := s.machine.Known(alone)
	return known{issued: k.Issued, alone: k.Alone, ceil: k.Ceil, beside: s.besides()}
}

func (s *Shared) inherit(k known) {
	s.inheritBeside(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.machine.Inherit(cursor.Known{Issued: k.issued, Alone: k.alone, Ceil: k.ceil})
}

// What a process keeps of periods that it has closed, or knows from the previous strategy, is
// bounded. More is kept of periods whose cursor may be behind, because only this process knows what
// must be skipped. The others only show that a store was restored.
const (
	mostKnown  = 2 * mostSpans
	mostBehind = 32
)

// Inherit takes over what another strategy of this biz type knew of each period. If numbers were
// reset at other times, periods have other counters.
func (s *Periodic) Inherit(from seqd.Strategy) {
	if p, ok := from.(knowingPeriods); ok {
		s.kept = p.knowsOf()
	}
}

// bequeathed passes what is known of a counter on to its strategy, which nobody uses yet.
func bequeathed(c counting, k known) {
	if heir, ok := c.(inheriting); ok {
		heir.inherit(k)
	}
}

// knownBy returns what the strategy of a counter knows.
func knownBy(c counting) (k known) {
	if c, ok := c.(knowing); ok {
		k = c.knows()
	}
	return k
}

// knowsOf returns what is known of the latest periods. A period that is still being opened has
// issued nothing.
func (s *Periodic) knowsOf() map[seqd.Period]known {
	all := make(map[seqd.Period]known)
	s.set.Each(func(name counters.Name, c counting) { all[name.Period] = knownBy(c) })
	s.mu.Lock() // after that, because what is closed meanwhile is kept
	kept := maps.Clone(s.kept)
	s.mu.Unlock()
	for p, k := range kept {
		all[p] = k.with(all[p])
	}
	maps.DeleteFunc(all, func(_ seqd.Period, k known) bool { return k == known{} })
	forgetOld(all)
	return all
}

// forgetOld removes what is known of the earliest periods.
func forgetOld(all map[seqd.Period]known) {
	periods, behind := slices.Sorted(maps.Keys(all)), 0
	for i, period := range slices.Backward(periods) {
		if all[period].behind() {
			if behind++; behind <= mostBehind {
				continue
			}
		}
		if i < len(periods)-mostKnown {
			delete(all, period)
		}
	}
}
