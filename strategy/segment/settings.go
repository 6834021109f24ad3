package segment

import (
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
)

// Settings are the settings of one biz type; the section "segment" of the configuration gives their
// defaults.
type Settings struct {
	// Start is the first number of a new counter. Raising it later moves the counter up, if it is
	// above the numbers that were handed out. Lowering it does nothing.
	Start int64 `config:"start" range:"1 to 9,007,199,254,740,991"`
	// Increment is how far numbers are apart. Above 1, only those are issued that leave the remainder
	// `offset` when divided by it, and `start` means the first of them from there on. Installations
	// that have nothing in common never issue the same number if they have one increment and
	// different offsets.
	Increment int64 `config:"increment" range:"1 to 65,535"`
	// Offset is the remainder of all numbers when divided by `increment`.
	Offset int64 `config:"offset" range:"0 to increment - 1" zero:"issues the multiples of increment"`
	// Ordering is the order that is promised. `strict`: a call that starts after another ended gets
	// a larger number, on all nodes. `per-node`: numbers increase on each node and are unique over
	// all. One node on an embedded store is always strict.
	Ordering string `config:"ordering" range:"strict, per-node"`
	// Sequencer is what gives `strict` order over the nodes of a shared store. `redis`: a cursor in
	// Redis; it needs `redis.addrs`. `store`: the store itself, with one write for all callers who
	// wait on a node. `auto`: what the counter has already; for a new one Redis if `redis.addrs` is
	// set, else the store.
	Sequencer string `config:"sequencer" range:"auto, redis, store"`
	// Step is how many numbers leave the store at a time, at least.
	Step int64 `config:"step" range:"1 to segment.maxStep"`
	// MaxStep is how many numbers leave the store at a time, at most. A batch that waits may ask for
	// more.
	MaxStep int64 `config:"maxStep" range:"1 to 1,000,000,000,000" unit:"numbers"`
	// Threshold is the share of a segment that is used when the next one is fetched.
	Threshold float64 `config:"threshold" range:"above 0, at most 1"`
	// TargetDuration is how long a segment should last. One that lasted less than half as long
	// doubles the step, one that lasted more than twice as long halves it.
	TargetDuration time.Duration `config:"targetDuration" range:"at least 1s"`
	// AcquireTimeout is how long a request waits if no numbers are in hand.
	AcquireTimeout time.Duration `config:"acquireTimeout" range:"0s to 1m" zero:"does not wait"`
	// OnRedisDown is what a node does under `strict` while Redis is away. `degrade`: it issues from
	// ranges of its own, and order over the nodes is suspended until Redis is back. `reject`: it
	// answers 503.
	OnRedisDown string `config:"onRedisDown" range:"degrade, reject"`
	// ReserveSegments is how many segments wait in Redis behind the two buffers, for an outage of
	// the store.
	ReserveSegments int `config:"reserveSegments" range:"0 to 100" zero:"no reserve"`
	// RestoreGap is how many numbers are skipped if the store may have lost some that were issued:
	// because it is older than numbers that were seen, or because it failed over. `auto`: ten
	// steps, at least 500. A number: that many; ten steps if that is more.
	RestoreGap Gap `config:"restoreGap" range:"0 to 1,000,000,000,000, or auto" zero:"ten steps"`
	// Reset is when numbers begin at `start` again: at midnight in `timeZone`, UTC unless you name
	// another.
	Reset seqd.Reset `config:"reset" range:"never, daily, monthly, yearly"`
	// TimeZone is where days begin and end: a name of the IANA database, such as `Asia/Shanghai`.
	TimeZone string `config:"timeZone"`
	// PeriodRetention is how long the counter of a period is kept after the period's end.
	PeriodRetention time.Duration `config:"periodRetention" range:"0s, or 48h to 87600h" zero:"keeps it for ever"`
	// Keyed counts for each key on its own: every request names one, such as a tenant. The counter of
	// a key begins at `start` when it is used first. `step` holds for each key, so make it small: a
	// crash skips what a node holds of every open key.
	Keyed bool `config:"keyed"`
	// MaxKeys is how many keys a keyed biz type may have; if its numbers reset, in each period.
	MaxKeys int64 `config:"maxKeys" range:"1 to 100,000,000"`
	// NewKeysPerCaller is how many keys one token may create in a day (UTC), on all nodes, so that it
	// cannot use up `maxKeys`. Nodes tell each other about once a second, so it may be exceeded by
	// what the others create meanwhile. While nobody needs a token, all callers are one.
	NewKeysPerCaller int64 `config:"newKeysPerCaller" range:"0 to 100,000,000" unit:"keys" zero:"one may create all of maxKeys"`
	// LiveKeys is how many keys a node keeps open, at about 2 KB each. The one that was used longest
	// ago gives its numbers back, and so does one that was not used for 10 minutes.
	LiveKeys int `config:"liveKeys" range:"1 to 1,000,000"`
	// LiveKeysPerCaller is how many keys a node keeps in memory that one token has opened, so that it
	// cannot push out those of all others: to open another, the node closes one of these. While
	// nobody needs a token, all callers are one.
	LiveKeysPerCaller int `config:"liveKeysPerCaller" range:"0 to 1,000,000" unit:"keys" zero:"one may open all of liveKeys"`
}

// DefaultSettings returns the settings of a biz type that sets none.
func DefaultSettings() Settings {
	return Settings{
		Start:          1,
		Increment:      1,
		Ordering:       Strict,
		Sequencer:      SequencerAuto,
		Step:           1000,
		MaxStep:        100_000_000,
		Threshold:      0.2,
		TargetDuration: 30 * time.Minute,
		AcquireTimeout: 2 * time.Second,

		OnRedisDown:     Degrade,
		ReserveSegments: 1,
		RestoreGap:      1_000_000,

		Reset:    seqd.ResetNever,
		TimeZone: "UTC",

		PeriodRetention: 90 * 24 * time.Hour,

		MaxKeys:  1_000_000,
		LiveKeys: 10_000,
	}
}

// The values of Ordering.
const (
	Strict  = "strict"
	PerNode = "per-node"
)

// The values of Sequencer.
const (
	SequencerAuto  = string(seqd.AnySequencer)
	SequencerRedis = string(seqd.RedisSequencer)
	SequencerStore = string(seqd.StoreSequencer)
)

// The values of OnRedisDown.
const (
	Degrade = "degrade"
	Reject  = "reject"
)

const mostReserve = 100

// Bounds of PeriodRetention: clocks and time zones may be far apart.
const (
	leastRetention = 48 * time.Hour
	mostRetention  = 87_600 * time.Hour
)

const mostStep = 1_000_000_000_000

// Bounds of keyed biz types.
const (
	mostKeys = 100_000_000
	mostLive = 1_000_000
)

// mostIncrement is that of MySQL's auto_increment_increment.
const mostIncrement = 65_535

// Validate returns every setting that is out of its range.
func (s *Settings) Validate() []seqd.Problem {
	var problems []seqd.Problem
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			problems = append(problems, seqd.Problem{Key: key, Text: fmt.Sprintf(format, args...)})
		}
	}
	check(s.Start >= 1 && s.Start <= seqd.MaxNumber, "start", "%d is outside 1 to %d", s.Start, seqd.MaxNumber)
	check(s.Increment >= 1 && s.Increment <= mostIncrement, "increment", "%d is outside 1 to %d", s.Increment, mostIncrement)
	if s.Increment == 1 {
		check(s.Offset == 0, "offset", "%d needs an increment above it: with increment 1 there is no other offset than 0", s.Offset)
	} else {
		check(s.Offset >= 0 && s.Offset < max(1, s.Increment), "offset", "%d is outside 0 to %d, which is increment - 1", s.Offset, max(1, s.Increment)-1)
	}
	if len(problems) == 0 {
		p := s.places()
		check(p.from(s.Start) <= p.last(), "start", "%d leaves no number of increment %d and offset %d", s.Start, s.Increment, s.Offset)
	}
	check(s.Ordering == Strict || s.Ordering == PerNode, "ordering", "%q is not one of %q", s.Ordering, []string{Strict, PerNode})
	sequencers := []string{SequencerAuto, SequencerRedis, SequencerStore}
	check(slices.Contains(sequencers, s.Sequencer), "sequencer", "%q is not one of %q", s.Sequencer, sequencers)
	check(s.MaxStep >= 1 && s.MaxStep <= mostStep, "maxStep", "%d is outside 1 to %d", s.MaxStep, int64(mostStep))
	check(s.Step >= 1 && s.Step <= max(1, s.MaxStep), "step", "%d is outside 1 to maxStep, which is %d", s.Step, s.MaxStep)
	check(s.Threshold > 0 && s.Threshold <= 1, "threshold", "%v is not above 0 and at most 1", s.Threshold)
	check(s.TargetDuration >= time.Second, "targetDuration", "%s is less than 1s", s.TargetDuration)
	check(s.AcquireTimeout >= 0 && s.AcquireTimeout <= time.Minute, "acquireTimeout", "%s is outside 0s to 1m", s.AcquireTimeout)
	check(s.OnRedisDown == Degrade || s.OnRedisDown == Reject, "onRedisDown", "%q is not one of %q", s.OnRedisDown, []string{Degrade, Reject})
	check(s.ReserveSegments >= 0 && s.ReserveSegments <= mostReserve, "reserveSegments", "%d is outside 0 to %d", s.ReserveSegments, mostReserve)
	check(s.RestoreGap == AutoGap || s.RestoreGap >= 0 && s.RestoreGap <= mostStep, "restoreGap", "%s is neither auto nor from 0 to %d", s.RestoreGap, int64(mostStep))
	check(s.Reset.Valid(), "reset", "%q is not one of %q", s.Reset, []seqd.Reset{seqd.ResetNever, seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly})
	_, err := literal.Zone(s.TimeZone)
	check(s.PeriodRetention == 0 || s.PeriodRetention >= leastRetention && s.PeriodRetention <= mostRetention, "periodRetention",
		"%s is neither 0s nor from %s to %s", s.PeriodRetention, leastRetention, mostRetention)
	check(s.MaxKeys >= 1 && s.MaxKeys <= mostKeys, "maxKeys", "%d is outside 1 to %d", s.MaxKeys, mostKeys)
	check(s.NewKeysPerCaller >= 0 && s.NewKeysPerCaller <= mostKeys, "newKeysPerCaller", "%d is outside 0 to %d", s.NewKeysPerCaller, mostKeys)
	check(s.LiveKeys >= 1 && s.LiveKeys <= mostLive, "liveKeys", "%d is outside 1 to %d", s.LiveKeys, mostLive)
	check(s.LiveKeysPerCaller >= 0 && s.LiveKeysPerCaller <= mostLive, "liveKeysPerCaller", "%d is outside 0 to %d", s.LiveKeysPerCaller, mostLive)
	check(err == nil, "timeZone", "%v", err)
	return problems
}

// Strict reports whether numbers increase over all nodes.
func (s *Settings) Strict() bool { return s.Ordering == Strict }

// Traits implements [seqd.HasTraits].
func (s *Settings) Traits() seqd.Traits {
	p := s.places()
	t := seqd.Traits{
		Keyed: s.Keyed, Calendar: s.calendar(), First: p.number(p.from(s.Start)), Last: p.number(p.last()),
		Increment: s.Increment, Offset: s.Offset, MaxWait: s.AcquireTimeout,
	}
	if s.Strict() {
		t.Sequencer = seqd.Sequencer(s.Sequencer)
	}
	return t
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

// step returns how many numbers to fetch next, from what the store recorded: all nodes that share
// the store come to the same answer without talking to each other. now and timestamp are in ms
// since the Unix epoch. A timestamp that is not in the past is ignored.
func (s *Settings) step(recorded, timestamp, now int64) int64 {
	step := min(max(recorded, s.Step), s.MaxStep)
	lasted, target := now-timestamp, s.TargetDuration.Milliseconds()
	switch {
	case timestamp <= 0 || lasted < 0:
		return step
	case lasted < target/2:
		return min(2*step, s.MaxStep)
	case lasted > 2*target:
		return max(step/2, s.Step)
	}
	return step
}
