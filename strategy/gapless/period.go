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
// year. An account of it is only there if the biz type once reset each month: without this an auditor
// who asks for the wrong period would read that nothing was issued.
func (s *Strategy) fits(p seqd.Period) error {
	reset := s.settings.Reset
	if p == 0 || reset.Of(p.Date()) == p {
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
	year, month, day := int(p/10000), time.Month(max(1, p/100%100)), int(max(1, p%100))
	switch { // the length is that of the period, which may be from before a change of reset
	case p%10000 == 0:
		year++
	case p%100 == 0:
		month++
	default:
		day++
	}
	return s.calendar.begin(time.Date(year, month, day, 0, 0, 0, 0, s.calendar.Zone))
}

// before returns the period before another one.
func (s *Strategy) before(p seqd.Period) seqd.Period {
	noon := p.Date() // of its first day, in UTC
	return s.calendar.Reset.Of(noon.AddDate(0, 0, -1))
}

// calendar is a calendar that knows when days begin.
type calendar struct{ seqd.Calendar }

// begin returns the first moment of the day that begins at about midnight, in ms since the Unix
// epoch. Some time zones change their clocks at midnight: then there is none, or two.
func (c calendar) begin(midnight time.Time) int64 {
	const far = 6 * time.Hour
	noon := midnight.Add(2 * far)
	day := seqd.ResetDaily.Of(noon.In(c.Zone))
	low, high := midnight.Add(-far).UnixMilli(), noon.UnixMilli()
	for low+1 < high {
		if middle := low + (high-low)/2; seqd.ResetDaily.Of(time.UnixMilli(middle).In(c.Zone)) < day {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}
