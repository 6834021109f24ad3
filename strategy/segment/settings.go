package segment

import (
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/counters"
)

// Settings are the settings of one biz type; the section "segment" of the configuration gives their
// defaults.
type Settings struct {
	// Start is the first number of a new counter. Raising it later moves the counter up, if it is
	// above the numbers that were handed out. Lowering it moves no counter, and must be forced if
	// counters are still to begin.
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
	// Step is how many numbers leave the store at a time, at least. With keys it holds for each, so
	// make it small: a crash skips what a node holds of every open key.
	Step int64 `config:"step" range:"1 to segment.maxStep"`
	// MaxStep is how many numbers leave the store at a time, at most. A batch that waits may ask for
	// more.
	MaxStep int64 `config:"maxStep" range:"1 to 1,000,000,000,000" unit:"numbers"`
	// Threshold is the share of a segment that is used when the next one is fetched.
	Threshold float64 `config:"threshold" range:"above 0, at most 1"`
	// TargetDuration is how long a segment should last. One that lasted less than half as long
	// doubles the step, one that lasted more than twice as long halves it.
	TargetDuration time.Duration `config:"targetDuration" range:"at least 1s"`
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
	counters.Settings
	// PeriodRetention is how long the counter of a period is kept after the period's end.
	PeriodRetention time.Duration `config:"periodRetention" range:"0s, or 48h to 87600h" zero:"keeps it for ever"`
}

// DefaultSettings returns the settings of a biz type that sets none.
func DefaultSettings() Settings {
	return Settings{
		Settings:       counters.DefaultSettings(),
		Start:          1,
		Increment:      1,
		Ordering:       Strict,
		Sequencer:      SequencerAuto,
		Step:           1000,
		MaxStep:        100_000_000,
		Threshold:      0.2,
		TargetDuration: 30 * time.Minute,

		OnRedisDown:     Degrade,
		ReserveSegments: 1,
		RestoreGap:      1_000_000,

		PeriodRetention: 90 * 24 * time.Hour,
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

// mostIncrement is that of MySQL's auto_increment_increment.
const mostIncrement = 65_535

// Validate returns every setting that is out of its range.
func (s *Settings) Validate() []seqd.Problem {
	var problems seqd.Problems
	check := problems.Check
	check(s.Start >= 1 && s.Start <= seqd.MaxNumber, "start", "%d is outside 1 to %d", s.Start, seqd.MaxNumber)
	check(s.Increment >= 1 && s.Increment <= mostIncrement, "increment", "%d is outside 1 to %d", s.Increment, mostIncrement)
	if s.Increment == 1 {
		check(s.Offset == 0, "offset", "%d needs an increment above it: with increment 1 there is no other offset than 0", s.Offset)
	} else {
		check(s.Offset >= 0 && s.Offset < max(1, s.Increment), "offset", "%d is outside 0 to %d, which is increment - 1", s.Offset, max(1, s.Increment)-1)
	}
	if len(problems) == 0 {
		p := s.ordinals()
		check(p.from(s.Start) <= p.last(), "start", "%d leaves no number of increment %d and offset %d", s.Start, s.Increment, s.Offset)
	}
	check(s.Ordering == Strict || s.Ordering == PerNode, "ordering", "%q is not one of %q", s.Ordering, []string{Strict, PerNode})
	sequencers := []string{SequencerAuto, SequencerRedis, SequencerStore}
	check(slices.Contains(sequencers, s.Sequencer), "sequencer", "%q is not one of %q", s.Sequencer, sequencers)
	check(s.MaxStep >= 1 && s.MaxStep <= mostStep, "maxStep", "%d is outside 1 to %d", s.MaxStep, int64(mostStep))
	check(s.Step >= 1 && s.Step <= max(1, s.MaxStep), "step", "%d is outside 1 to maxStep, which is %d", s.Step, s.MaxStep)
	check(s.Threshold > 0 && s.Threshold <= 1, "threshold", "%v is not above 0 and at most 1", s.Threshold)
	check(s.TargetDuration >= time.Second, "targetDuration", "%s is less than 1s", s.TargetDuration)
	check(s.OnRedisDown == Degrade || s.OnRedisDown == Reject, "onRedisDown", "%q is not one of %q", s.OnRedisDown, []string{Degrade, Reject})
	check(s.ReserveSegments >= 0 && s.ReserveSegments <= mostReserve, "reserveSegments", "%d is outside 0 to %d", s.ReserveSegments, mostReserve)
	check(s.RestoreGap == AutoGap || s.RestoreGap >= 0 && s.RestoreGap <= mostStep, "restoreGap", "%s is neither auto nor from 0 to %d", s.RestoreGap, int64(mostStep))
	check(s.PeriodRetention == 0 || s.PeriodRetention >= leastRetention && s.PeriodRetention <= mostRetention, "periodRetention",
		"%s is neither 0s nor from %s to %s", s.PeriodRetention, leastRetention, mostRetention)
	return append(problems, s.Settings.Validate()...)
}

// Strict reports whether numbers increase over all nodes.
func (s *Settings) Strict() bool { return s.Ordering == Strict }

// Traits implements [seqd.HasTraits].
func (s *Settings) Traits() seqd.Traits {
	p, t := s.ordinals(), s.Settings.Traits()
	t.First, t.Last, t.Increment, t.Offset = p.number(p.from(s.Start)), p.number(p.last()), s.Increment, s.Offset
	t.LeastGap = s.gap(0)
	if s.Strict() {
		t.Sequencer = seqd.Sequencer(s.Sequencer)
	}
	return t
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
