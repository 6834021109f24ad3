package segment

import "github.com/seqd/seqd"

var _ seqd.Measurer = (*family)(nil)

// values are what is in hand of one counter.
type values struct {
	inHand  int64
	fill    float64 // of two segments
	step    int64   // the size of the segment in use, 0 before the first
	newest  int64   // the size of the last segment that was fetched
	highest int64   // that is known to have left the store
}

// tell reports values, with those that every counter has. Numbers below Start never left the store.
func (s *ranges) tell(v values, tell func(seqd.Measurement)) {
	s.noteMu.Lock()
	v.highest = max(v.highest, s.beside.highest)
	rate := s.pace.rate(paceNow(), v.highest, v.newest)
	s.noteMu.Unlock()
	tell(seqd.Measurement{Gauge: seqd.GaugeInHand, Value: float64(v.inHand)})
	tell(seqd.Measurement{Gauge: seqd.GaugeStep, Value: float64(v.step)})
	if v.step > 0 {
		tell(seqd.Measurement{Gauge: seqd.GaugeFill, Value: v.fill})
	}
	if v.highest >= s.settings.Start {
		tell(seqd.Measurement{Gauge: seqd.GaugeHighest, Value: float64(s.shown(v.highest))})
	}
	tell(seqd.Measurement{Gauge: seqd.GaugeRate, Value: rate})
	tell(seqd.Measurement{Gauge: seqd.GaugeLimit, Value: float64(s.shown(s.last()))})
	if p := s.settings.ordinals(); !p.all() {
		tell(seqd.Measurement{Gauge: seqd.GaugeIncrement, Value: float64(p.increment)})
	}
}

// measure returns what the buffer holds.
func (b *buffer) measure() values {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := values{highest: b.highest}
	if blk := b.current.Load(); blk != spent {
		v.step = blk.last - blk.first + 1
		v.inHand = max(0, blk.last-blk.next.Load()+1)
		v.fill = float64(v.inHand) / float64(2*v.step)
	}
	v.newest = v.step
	if b.second != nil {
		v.newest = b.second.last - b.second.first + 1
		v.inHand += v.newest
		v.fill += 0.5
	}
	return v
}

// measure implements [source]: what waited in the cursor when this node last took or looked,
// and its standby range. Other nodes may have taken since, and gaps between ranges count as
// waiting. While the node issues on its own, it is what its own buffer holds.
func (s *shared) measure() values {
	local := s.local.Load()
	s.mu.Lock()
	seen := s.machine.Measure()
	s.mu.Unlock()
	if local != nil {
		v := local.measure()
		v.highest = max(v.highest, seen.Seen)
		return v
	}
	v := values{step: seen.Step, newest: seen.Step, highest: seen.Seen, inHand: seen.Cursor + seen.Standby}
	if v.step > 0 {
		v.fill = min(1, float64(seen.Cursor)/float64(2*v.step))
	}
	return v
}

// Measure implements [seqd.Measurer]: how long the present period lasts, and what its counter has,
// if this node has opened it. Nothing is measured for each key: there may be millions.
func (f *family) Measure(tell func(seqd.Measurement)) {
	if f.settings.Keyed {
		tell(seqd.Measurement{Gauge: seqd.GaugeOpenKeys, Value: float64(f.Len())})
		tell(seqd.Measurement{Gauge: seqd.GaugeKeys, Value: float64(f.Places(f.present().Period).Taken())})
		tell(seqd.Measurement{Gauge: seqd.GaugeMaxKeys, Value: float64(f.settings.MaxKeys)})
	}
	if f.resets() {
		now := f.Env.Now()
		tell(seqd.Measurement{Gauge: seqd.GaugePeriodLeft, Value: f.Calendar.Present(now).Left(now).Seconds()})
	}
	if shown, _ := f.shown(); !f.settings.Keyed && len(shown) > 0 {
		shown[0].Measure(tell)
	}
}
