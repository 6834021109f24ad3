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
			return 0, seqd.Errorf(seqd.CodeInvalidRequest, "the numbers of %s never reset: leave the period out", s.BizType.Name)
		}
		return 0, nil
	}
	if named != 0 {
		return named, nil
	}
	p := s.Calendar.Present(time.UnixMilli(s.now())).Period
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
		s.BizType.Name, p, reset, reset.Of(p.Date()))
}
