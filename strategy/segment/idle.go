package segment

import (
	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/counters"
)

// A strategy can be closed while nobody uses it and made anew later, as at a clean stop and a start:
// Close gives back what is left, and what the process knows beyond the store is inherited (heir.go).
var (
	_ seqd.Idler = (*Strategy)(nil)
	_ seqd.Idler = (*Shared)(nil)
	_ seqd.Idler = (*Stored)(nil)
	_ seqd.Idler = (*Following)(nil)
	_ seqd.Idler = (*family)(nil)
	_ seqd.Idler = (*spaced)(nil)
)

// Idle implements [seqd.Idler].
func (s *Strategy) Idle() bool { return true }

// Idle implements [seqd.Idler]. A strategy that refuses is not idle: if another sequencer took over, a
// new strategy would take over again. Nor is one that issues on its own, or whose cursor may be
// behind: only this node can restore the order over nodes.
func (s *Shared) Idle() bool {
	return s.Health() == nil && s.Degraded() == nil && !s.knows().behind()
}

// Idle implements [seqd.Idler]; see Shared.
func (s *Stored) Idle() bool { return s.Health() == nil }

// Idle implements [seqd.Idler].
func (f *Following) Idle() bool { return f.present.Load().Idle() }

// Idle implements [seqd.Idler]. A key that is closed retires its cursor, if that may be behind.
func (f *family) Idle() bool {
	idle := true
	if !f.settings.Keyed {
		f.set.Each(func(_ counters.Name, c counting) { idle = idle && c.Idle() })
	}
	return idle
}
