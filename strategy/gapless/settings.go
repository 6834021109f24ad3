package gapless

import (
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/counters"
)

// Settings are the settings of one biz type; the section "gapless" of the configuration gives their
// defaults.
type Settings struct {
	// Start is the first number of a new counter. Raising it later makes the numbers between void,
	// if it is above those that were handed out. Lowering it moves no counter, and must be forced if
	// counters are still to begin.
	Start int64 `config:"start" range:"1 to 9,007,199,254,740,991"`
	counters.Settings
	// ReservationTTL is how long numbers are reserved if a request does not say.
	ReservationTTL time.Duration `config:"reservationTTL" range:"1s to 24h"`
	// MaxReserved is how many numbers of one counter may be reserved or released at a time.
	MaxReserved int `config:"maxReserved" range:"1 to 5000" unit:"numbers"`
	// MaxReservedPerCaller is how many numbers of one counter one token may have reserved at a
	// time. While nobody needs a token, all callers are one.
	MaxReservedPerCaller int `config:"maxReservedPerCaller" range:"0 to 5000" unit:"numbers" zero:"one may reserve all of maxReserved"`
	// OnRelease is what becomes of reserved numbers that are not issued. `reuse`: they are handed
	// out again, the lowest first. `void`: they are never handed out again.
	OnRelease string `config:"onRelease" range:"reuse, void"`
}

// DefaultSettings returns the settings of a biz type that sets none.
func DefaultSettings() Settings {
	return Settings{
		Settings:       counters.DefaultSettings(),
		Start:          1,
		ReservationTTL: 10 * time.Minute,
		MaxReserved:    1000,
		OnRelease:      Reuse,
	}
}

// The values of OnRelease.
const (
	Reuse = "reuse"
	Void  = "void"
)

// Bounds of settings.
const (
	leastTTL     = time.Second
	mostTTL      = 24 * time.Hour
	mostReserved = 5000
)

// Validate returns every setting that is out of its range.
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	check := problems.Check
	check(s.Start >= 1 && s.Start <= seqd.MaxNumber, "start", "%d is outside 1 to %d", s.Start, seqd.MaxNumber)
	check(validTTL(s.ReservationTTL), "reservationTTL", "%s is outside %s to %s", s.ReservationTTL, leastTTL, mostTTL)
	check(s.MaxReserved >= 1 && s.MaxReserved <= mostReserved, "maxReserved", "%d is outside 1 to %d", s.MaxReserved, mostReserved)
	check(s.MaxReservedPerCaller >= 0 && s.MaxReservedPerCaller <= mostReserved, "maxReservedPerCaller", "%d is outside 0 to %d", s.MaxReservedPerCaller, mostReserved)
	check(slices.Contains([]string{Reuse, Void}, s.OnRelease), "onRelease", "%q is not one of %q", s.OnRelease, []string{Reuse, Void})
	return append(problems, s.Settings.Validate()...)
}

// checkReserve returns what is wrong with an order that reserves.
func (s *Settings) checkReserve(o seqd.Order) error {
	if o.TTL != 0 && !validTTL(o.TTL) {
		return seqd.Errorf(seqd.CodeInvalidTTL, "ttl is %s and must be from %s to %s", o.TTL, leastTTL, mostTTL)
	}
	if o.Count > s.MaxReserved {
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d, and at most maxReserved numbers, %d, can be reserved", o.Count, s.MaxReserved)
	}
	return nil
}

func validTTL(ttl time.Duration) bool { return ttl >= leastTTL && ttl <= mostTTL }

// Traits implements [seqd.HasTraits].
func (s *Settings) Traits() seqd.Traits {
	t := s.Settings.Traits()
	t.First, t.Last = s.Start, seqd.MaxNumber
	return t
}

var (
	_ seqd.Validator = (*Settings)(nil)
	_ seqd.HasTraits = (*Settings)(nil)
)
