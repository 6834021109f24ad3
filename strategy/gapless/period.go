package gapless

import (
	"time"

	"github.com/seqd/seqd"
)

// period returns a period that a request names, or the present one if it is 0. It is 0 if numbers
// never reset. The store's clock says which one is present, so all nodes agree.
func (s *Strategy) period(named seqd.Period) (seqd.Period, error) {
	if s.settings.Reset == seqd.ResetNever {
		if named != 0 {
			return 0, seqd.Errorf(seqd.CodeInvalidRequest, "the numbers of %s never reset: leave the period out", s.name)
		}
		return 0, nil
	}
	if named != 0 {
		return named, nil
	}
	p := s.calendar.Now(time.UnixMilli(s.now()))
	return p, p.Check()
}

// fits returns what is wrong with a period that is a month, say, of a biz type that resets each
// year. An account of it is only there if the biz type once reset each month: without this an
// auditor who asks for the wrong period would read that nothing was issued.
func (s *Strategy) fits(p seqd.Period) error {
	reset := s.settings.Reset
	if reset.Fits(p) {
		return nil
	}
	return seqd.Errorf(seqd.CodeInvalidRequest, "%s has no period %s: its numbers reset %s, so name a period such as %s",
		s.name, p, reset, reset.Of(p.Date()))
}

// ends returns the first moment after a period, in ms since the Unix epoch, 0 if numbers never
// reset.
func (s *Strategy) ends(p seqd.Period) int64 {
	if p == 0 {
		return 0
	}
	c := seqd.Calendar{Reset: seqd.ResetDaily, Zone: s.calendar.Zone}
	next := p.Date().AddDate(0, 0, 1)
	switch { // the length is that of the period, which may be from before a change of reset
	case p%10000 == 0:
		c.Reset, next = seqd.ResetYearly, p.Date().AddDate(1, 0, 0)
	case p%100 == 0:
		c.Reset, next = seqd.ResetMonthly, p.Date().AddDate(0, 1, 0)
	}
	// By bisection: only the calendar knows what a zone does at midnight, and which days never
	// were.
	const far = 48 * time.Hour // further than any zone is from noon in UTC
	low, high := next.Add(-far).UnixMilli(), next.Add(far).UnixMilli()
	for low+1 < high {
		if middle := low + (high-low)/2; c.Now(time.UnixMilli(middle)) <= p {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// before returns the period before another one.
func (s *Strategy) before(p seqd.Period) seqd.Period {
	noon := p.Date() // of its first day, in UTC
	return s.calendar.Reset.Of(noon.AddDate(0, 0, -1))
}
