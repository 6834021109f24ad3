package segment

import (
	"fmt"
	"math"
	"strconv"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

// Gap is how many numbers are skipped above a store that may have lost some, or [AutoGap].
type Gap int64

// AutoGap is a gap that follows the step. In a configuration it is the word auto.
const AutoGap Gap = math.MinInt64

const autoWord = "auto"

// UnmarshalText implements [encoding.TextUnmarshaler] for the word. A gap that is a number is not
// text.
func (g *Gap) UnmarshalText(text []byte) error {
	if string(text) != autoWord {
		return fmt.Errorf("%q is neither auto nor a whole number", text)
	}
	*g = AutoGap
	return nil
}

// String returns the word or the number.
func (g Gap) String() string {
	if g == AutoGap {
		return autoWord
	}
	return strconv.FormatInt(int64(g), 10)
}

const (
	// gapSteps is the smallest gap, in steps: other nodes may hold that many ranges that this
	// process has not seen.
	gapSteps = 10
	// leastAuto is the smallest gap that is auto. A step can be smaller than what the callers of a
	// moment ask for.
	leastAuto = 500
)

// leastGap returns the smallest gap, whatever the step is.
func (s *Settings) leastGap() int64 {
	if s.RestoreGap == AutoGap {
		return leastAuto
	}
	return max(int64(s.RestoreGap), gapSteps)
}

// gap returns how many numbers are skipped above a store that may have lost ranges of a counter.
// recorded is the step in the counter's record, as it was read last, 0 if it is not known.
func (s *Settings) gap(recorded int64) int64 {
	return max(s.leastGap(), gapSteps*min(max(s.Step, recorded), mostStep))
}

// LostGap returns how many numbers of a counter nodes may hold that a failover of the store has
// lost. step is the counter's step as it was read last, 0 if it is not known.
func (s *Settings) LostGap(step int64) int64 {
	return min(s.ordinals().numbers(s.gap(step)), seqd.MaxNumber)
}

// mostInCall returns how many numbers one caller gets at most, and why: if a failover of the store
// lost more, the nodes that continue a gap higher would issue some of them again.
func (s *Settings) mostInCall(store persist.Store) (most int, why string) {
	gap := s.gap(0)
	if gap >= seqd.MaxCount || !store.Lossy() {
		return seqd.MaxCount, ""
	}
	return int(gap), "numbers continue above a gap of as many if a failover of the store loses some: ask for fewer, or raise segment.restoreGap"
}

// MostInCall implements [seqd.CountLimiter].
func (o *origin) MostInCall() (most int, why string) { return o.settings.mostInCall(o.env.Store) }

// withGaps returns the request for a range with its gaps. A range begins a gap above the floor if
// the store turns out to be below it, because it was restored. It begins a gap higher if the store
// failed over. recorded is as for gap. The counter need not be read again: it is the allocation
// that decides whether there is a gap, and that finds the step after a failover.
func (s *Settings) withGaps(req persist.Request, recorded int64) persist.Request {
	gap := s.gap(recorded)
	if !sabotage.Off(sabotage.FailoverGap) {
		req.FailoverGap, req.FailoverSteps = gap, gapSteps
	}
	if req.Floor >= s.Start { // otherwise nothing was seen yet
		req.Gap = min(gap, max(0, s.ordinals().last()-req.Floor)/2)
	}
	return req
}
