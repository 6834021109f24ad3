package gapless

import (
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// Settings are the settings of one biz type; the section "gapless" of the configuration gives their
// defaults.
type Settings struct {
	// Start is the first number of a new counter. Raising it later makes the numbers between void,
	// if it is above those that were handed out. Lowering it does nothing.
	Start int64 `config:"start" range:"1 to 9,007,199,254,740,991"`
	// Reset is when numbers begin at `start` again: at midnight in `timeZone`, UTC unless you name
	// another.
	Reset seqd.Reset `config:"reset" range:"never, daily, monthly, yearly"`
	// TimeZone is where days begin and end: a name of the IANA database, such as `Asia/Shanghai`.
	TimeZone string `config:"timeZone"`
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
	// Keyed is whether callers name a key, and each key counts on its own.
	Keyed bool `config:"keyed"`
	// MaxKeys is how many keys a keyed biz type may have.
	MaxKeys int64 `config:"maxKeys" range:"1 to 1,000,000,000" unit:"keys"`
	// NewKeysPerCaller is how many keys one token may create in a day (UTC), on all nodes, so that it
	// cannot use up `maxKeys`. Nodes tell each other about once a second, so it may be exceeded by
	// what the others create meanwhile. While nobody needs a token, all callers are one.
	NewKeysPerCaller int64 `config:"newKeysPerCaller" range:"0 to 1,000,000,000" unit:"keys" zero:"one may create all of maxKeys"`
	// LiveKeys is how many counters of a keyed biz type a node keeps in memory.
	LiveKeys int `config:"liveKeys" range:"1 to 1,000,000" unit:"counters"`
	// LiveKeysPerCaller is how many keys a node keeps in memory that one token has opened, so that it
	// cannot push out those of all others: to open another, the node closes one of these. While
	// nobody needs a token, all callers are one.
	LiveKeysPerCaller int `config:"liveKeysPerCaller" range:"0 to 1,000,000" unit:"keys" zero:"one may open all of liveKeys"`
	// AcquireTimeout is how long a request waits for the store.
	AcquireTimeout time.Duration `config:"acquireTimeout" range:"10ms to 1m"`
}

// DefaultSettings returns the settings of a biz type that sets none.
func DefaultSettings() Settings {
	return Settings{
		Start:          1,
		Reset:          seqd.ResetNever,
		TimeZone:       "UTC",
		ReservationTTL: 10 * time.Minute,
		MaxReserved:    1000,
		OnRelease:      Reuse,
		MaxKeys:        1_000_000,
		LiveKeys:       10_000,
		AcquireTimeout: 2 * time.Second,
	}
}

// The values of OnRelease.
const (
	Reuse = "reuse"
	Void  = "void"
)

// Bounds of settings.
const (
	leastTTL      = time.Second
	mostTTL       = 24 * time.Hour
	mostReserved  = 5000
	mostKeys      = 1_000_000_000
	mostLive      = 1_000_000
	leastPatience = 10 * time.Millisecond
	mostPatience  = time.Minute
)

// Validate returns every setting that is out of its range.
func (s *Settings) Validate() []seqd.Problem {
	var problems []seqd.Problem
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			problems = append(problems, seqd.Problem{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	check(s.Start >= 1 && s.Start <= seqd.MaxNumber, "start", "%d is outside 1 to %d", s.Start, seqd.MaxNumber)
	check(s.Reset.Valid(), "reset", "%q is not one of %q", s.Reset, []seqd.Reset{seqd.ResetNever, seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly})
	_, err := literal.Zone(s.TimeZone)
	check(err == nil, "timeZone", "%v", err)
	check(validTTL(s.ReservationTTL), "reservationTTL", "%s is outside %s to %s", s.ReservationTTL, leastTTL, mostTTL)
	check(s.MaxReserved >= 1 && s.MaxReserved <= mostReserved, "maxReserved", "%d is outside 1 to %d", s.MaxReserved, mostReserved)
	check(s.MaxReservedPerCaller >= 0 && s.MaxReservedPerCaller <= mostReserved, "maxReservedPerCaller", "%d is outside 0 to %d", s.MaxReservedPerCaller, mostReserved)
	check(slices.Contains([]string{Reuse, Void}, s.OnRelease), "onRelease", "%q is not one of %q", s.OnRelease, []string{Reuse, Void})
	check(s.MaxKeys >= 1 && s.MaxKeys <= mostKeys, "maxKeys", "%d is outside 1 to %d", s.MaxKeys, mostKeys)
	check(s.NewKeysPerCaller >= 0 && s.NewKeysPerCaller <= mostKeys, "newKeysPerCaller", "%d is outside 0 to %d", s.NewKeysPerCaller, mostKeys)
	check(s.LiveKeys >= 1 && s.LiveKeys <= mostLive, "liveKeys", "%d is outside 1 to %d", s.LiveKeys, mostLive)
	check(s.LiveKeysPerCaller >= 0 && s.LiveKeysPerCaller <= mostLive, "liveKeysPerCaller", "%d is outside 0 to %d", s.LiveKeysPerCaller, mostLive)
	check(s.AcquireTimeout >= leastPatience && s.AcquireTimeout <= mostPatience, "acquireTimeout", "%s is outside %s to %s", s.AcquireTimeout, leastPatience, mostPatience)
	return problems
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
	return seqd.Traits{Keyed: s.Keyed, Calendar: s.calendar(), First: s.Start, Last: seqd.MaxNumber, MaxWait: s.AcquireTimeout}
}

func (s *Settings) calendar() seqd.Calendar {
	zone, err := literal.Zone(s.TimeZone)
	if err != nil {
		zone = time.UTC // not after Validate
	}
	return seqd.Calendar{Reset: s.Reset, Zone: zone}
}

var (
	_ seqd.Validator = (*Settings)(nil)
	_ seqd.HasTraits = (*Settings)(nil)
)
