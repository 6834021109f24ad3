package segment

import (
	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// gapSteps is the smallest gap above a store that may have lost something, in steps: other nodes
// may hold that many ranges that this process has not seen.
const gapSteps = 10

// gap returns how many numbers are skipped above a store that may have lost ranges of a counter.
// recorded is the step in the counter's record, as it was read last.
func (s *Settings) gap(recorded int64) int64 {
	return min(max(s.RestoreGap, gapSteps*max(s.Step, min(recorded, mostStep))), seqd.MaxNumber)
}

// withGaps returns the request for a range with its gaps. A range begins a gap above the floor if
// the store turns out to be below it, because it was restored. It begins a gap higher if the store
// failed over. recorded is the step in the counter's record, as it was read last. The counter need
// not be read again: it is the allocation that decides whether there is a gap.
func (s *Settings) withGaps(req persist.Request, recorded int64) persist.Request {
	gap := s.gap(recorded)
	req.FailoverGap = gap
	if req.Floor >= s.Start { // otherwise nothing was seen yet
		req.Gap = min(gap, (seqd.MaxNumber-req.Floor)/2)
	}
	return req
}
