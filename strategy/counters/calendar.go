package counters

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// Calendar is a [seqd.Calendar] that also knows when periods end, and that remembers the present
// one. It is safe for concurrent use.
type Calendar struct {
	seqd.Calendar
	last atomic.Pointer[Span] // what Present returned last
}

// Span is a period, and for how long it is known to be the present one.
type Span struct {
	Period seqd.Period
	from   int64 // ms since the Unix epoch
	// Until is when the next period begins, in ms since the Unix epoch; [math.MaxInt64] for never.
	Until int64
}

// Holds reports whether the period is the present one at a time, in ms since the Unix epoch.
func (s *Span) Holds(now int64) bool { return s.from <= now && now < s.Until }

// Left returns how long the period lasts from a time on.
func (s *Span) Left(now time.Time) time.Duration { return max(0, time.UnixMilli(s.Until).Sub(now)) }

// Present returns the period that is present at a time.
func (c *Calendar) Present(now time.Time) *Span {
	from := now.UnixMilli()
	if last := c.last.Load(); last != nil && last.Holds(from) {
		return last
	}
	span := &Span{Period: c.Now(now), from: from, Until: math.MaxInt64}
	if span.Period != 0 {
		span.Until = c.Ends(span.Period)
	}
	c.last.Store(span)
	return span
}

// Ends returns the first moment after a period, in ms since the Unix epoch, 0 if numbers never
// reset. The period may have another length than those of the calendar, from before a change of
// reset.
func (c *Calendar) Ends(p seqd.Period) int64 {
	if p == 0 {
		return 0
	}
	same := seqd.Calendar{Reset: seqd.ResetDaily, Zone: c.Zone}
	next := p.Date().AddDate(0, 0, 1)
	switch {
	case p%10000 == 0:
		same.Reset, next = seqd.ResetYearly, p.Date().AddDate(1, 0, 0)
	case p%100 == 0:
		same.Reset, next = seqd.ResetMonthly, p.Date().AddDate(0, 1, 0)
	}
	// By bisection: only the calendar knows what a zone does at midnight, and which days never
	// were.
	const far = 48 * time.Hour // further than any zone is from noon in UTC
	low, high := next.Add(-far).UnixMilli(), next.Add(far).UnixMilli()
	for low+1 < high {
		if middle := low + (high-low)/2; same.Now(time.UnixMilli(middle)) <= p {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// Before returns the period before another one.
func (c *Calendar) Before(p seqd.Period) seqd.Period {
	noon := p.Date() // of its first day, in UTC
	return c.Reset.Of(noon.AddDate(0, 0, -1))
}
