package counters

import (
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// Settings are those of a biz type that say which counters it has, and how many.
type Settings struct {
	// Reset is when numbers begin at `start` again: at midnight in `timeZone`, UTC unless you name
	// another.
	Reset seqd.Reset `config:"reset" range:"never, daily, monthly, yearly"`
	// TimeZone is where days begin and end: a name of the IANA database, such as `Asia/Shanghai`.
	TimeZone string `config:"timeZone"`
	// Keyed counts for each key on its own: every request names one, such as a tenant. The counter
	// of a key begins at `start` when it is used first.
	Keyed bool `config:"keyed"`
	// MaxKeys is how many keys a keyed biz type may have; if its numbers reset, in each period.
	MaxKeys int64 `config:"maxKeys" range:"1 to 1,000,000,000" unit:"keys"`
	// NewKeysPerCaller is how many keys one token may create in a day (UTC), on all nodes, so that
	// it cannot use up `maxKeys`. Nodes tell each other about once a second, so it may be exceeded
	// by what the others create meanwhile. While nobody needs a token, all callers are one.
	NewKeysPerCaller int64 `config:"newKeysPerCaller" range:"0 to 1,000,000,000" unit:"keys" zero:"one may create all of maxKeys"`
	// LiveKeys is how many keys a node keeps open; with segment each takes about 2 KB. After it has
	// opened another, the node closes one that was used long ago: of 16 at random the one used
	// longest ago. So there may be some more while they are used or closed. It also closes a key that
	// nobody has used for 10 to 15 minutes.
	LiveKeys int `config:"liveKeys" range:"1 to 1,000,000" unit:"keys"`
	// LiveKeysPerCaller is how many keys a node keeps in memory that one token has opened, so that
	// it cannot push out those of all others: to open another, the node closes one of these. While
	// nobody needs a token, all callers are one.
	LiveKeysPerCaller int `config:"liveKeysPerCaller" range:"0 to 1,000,000" unit:"keys" zero:"one may open all of liveKeys"`
	// AcquireTimeout is how long a request waits for the store or Redis; with segment it does so
	// only if the node has no numbers in hand.
	AcquireTimeout time.Duration `config:"acquireTimeout" range:"10ms to 1m"`
}

// DefaultSettings returns the settings of a biz type that sets none.
func DefaultSettings() Settings {
	return Settings{
		Reset: seqd.ResetNever, TimeZone: "UTC", MaxKeys: 1_000_000, LiveKeys: 10_000, AcquireTimeout: 2 * time.Second,
	}
}

// Bounds of settings.
const (
	mostKeys      = 1_000_000_000
	mostLive      = 1_000_000
	leastPatience = 10 * time.Millisecond
	mostPatience  = time.Minute
)

// Validate returns every setting that is out of its range.
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	check := problems.Check
	check(s.Reset.Valid(), "reset", "%q is not one of %q", s.Reset, []seqd.Reset{seqd.ResetNever, seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly})
	_, err := literal.Zone(s.TimeZone)
	check(err == nil, "timeZone", "%v", err)
	check(s.MaxKeys >= 1 && s.MaxKeys <= mostKeys, "maxKeys", "%d is outside 1 to %d", s.MaxKeys, mostKeys)
	check(s.NewKeysPerCaller >= 0 && s.NewKeysPerCaller <= mostKeys, "newKeysPerCaller", "%d is outside 0 to %d", s.NewKeysPerCaller, mostKeys)
	check(s.LiveKeys >= 1 && s.LiveKeys <= mostLive, "liveKeys", "%d is outside 1 to %d", s.LiveKeys, mostLive)
	check(s.LiveKeysPerCaller >= 0 && s.LiveKeysPerCaller <= mostLive, "liveKeysPerCaller", "%d is outside 0 to %d", s.LiveKeysPerCaller, mostLive)
	check(s.AcquireTimeout >= leastPatience && s.AcquireTimeout <= mostPatience, "acquireTimeout", "%s is outside %s to %s", s.AcquireTimeout, leastPatience, mostPatience)
	return problems
}

// Traits implements [seqd.HasTraits].
func (s *Settings) Traits() seqd.Traits {
	zone, err := literal.Zone(s.TimeZone)
	if err != nil {
		zone = time.UTC // not after Validate
	}
	return seqd.Traits{Keyed: s.Keyed, Calendar: seqd.Calendar{Reset: s.Reset, Zone: zone}, MaxWait: s.AcquireTimeout}
}

var (
	_ seqd.Validator = (*Settings)(nil)
	_ seqd.HasTraits = (*Settings)(nil)
)
