package snowflake

import "github.com/seqd/seqd"

var _ seqd.Idler = (*Strategy)(nil)

// Idle implements [seqd.Idler]. The machine ID is returned with the last strategy that uses it, and
// another lease begins above all that was issued (U5). If the registry is doubtful, callers would wait
// for that lease to begin.
func (s *Strategy) Idle() bool { return !s.held().registry.Doubtful }
