package segment

import "github.com/seqd/seqd"

// A strategy can be closed while nobody uses it and made anew later, as at a clean stop and a start:
// Close gives back what is left, and what the process knows beyond the store is inherited (heir.go).
var (
	_ seqd.Idler = (*Strategy)(nil)
	_ seqd.Idler = (*Shared)(nil)
	_ seqd.Idler = (*Stored)(nil)
	_ seqd.Idler = (*Following)(nil)
	_ seqd.Idler = (*Periodic)(nil)
	_ seqd.Idler = (*Keyed)(nil)
	_ seqd.Idler = (*spaced)(nil)
)

// Idle implements [seqd.Idler].
func (s *Strategy) Idle() bool { return true }

// Idle implements [seqd.Idler].
func (s *Shared) Idle() bool { return true }

// Idle implements [seqd.Idler].
func (s *Stored) Idle() bool { return true }

// Idle implements [seqd.Idler].
func (f *Following) Idle() bool { return true }

// Idle implements [seqd.Idler].
func (s *Periodic) Idle() bool { return true }

// Idle implements [seqd.Idler].
func (s *Keyed) Idle() bool { return true }

// Idle implements [seqd.Idler].
func (s *spaced) Idle() bool { return true }
