// Package segment is the strategy "segment". It allocates ranges of numbers (segments) in the store
// and issues their numbers in increasing order. An allocation costs one write to the store. Some
// numbers are skipped, for example after a crash.
//
// Four strategies issue the numbers of one counter:
//   - [Strategy] issues from a double buffer in the memory of the node (buffer.go). It serves an
//     embedded store, and the ordering per-node.
//   - [Shared] issues from a cursor in Redis, in strict order over all nodes. Package cursor has the
//     state machine that decides what to do. Shared executes the commands of that machine (shared.go:
//     callers; sharing.go, batch.go: takes that callers share; drive.go: commands).
//   - [Stored] issues from the store itself, in strict order over all nodes. Package storetake has
//     its state machine (stored.go; sharing.go).
//   - [Following] issues through a Shared or a Stored, and changes to the other one if the sequencer
//     epoch of the counter says so (following.go).
//
// A family holds many counters, and has one of the four for each (family.go): a counter for each day,
// month or year (periodic.go, reopen.go), for each key (keyed.go, first.go), or for each key and
// period. Past periods are removed by package counters.
//
// The function build chooses between a family and a single counter. The function count chooses the
// strategy of one counter.
//
// With an increment above 1 all of them count in places. A spaced strategy converts places to numbers
// for callers (places.go, spaced.go).
//
// All ranges are allocated in ranges.go, in the sizes of the step rule in settings.go. Numbers are
// unique because the store gives each range away once (invariant U1), and each range goes to one
// place (U2).
//
// # Locks
//
// Locks have two ranks. The outer locks are sharing.mu, which guards a machine, and Following.mu. A
// goroutine locks an outer lock only while it holds no lock. All other locks are inner. A goroutine
// locks nothing while it holds an inner lock. While a goroutine holds a lock it does not wait, and
// does not call an observer, the store or Redis. A function that holds the lock of a machine returns
// such a call as a function, and its caller calls that after unlocking. Package lockorder asserts the
// order.
package segment

import (
	"context"
	"fmt"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy"
)

// Name is the name of the strategy in a biz type's definition.
const Name = "segment"

func init() {
	strategy.Register(strategy.Factory{
		Name: Name,
		Help: "Takes ranges of increasing numbers from the store and issues them from " +
			"memory. Fast; some numbers are skipped, for example after a crash.",
		Settings: func() any { s := DefaultSettings(); return &s },
		New:      build,
		Shape:    shape,
	})
}

// build makes the strategy for the ordering, the back ends and the calendar of a biz type.
func build(env strategy.Env, bizType seqd.BizType) (seqd.Strategy, error) {
	settings, ok := bizType.Settings.(*Settings)
	switch {
	case ok && (settings.Keyed || settings.Reset != seqd.ResetNever):
		return newFamily(env, bizType, settings, count), nil
	}
	return count(env, bizType, bizType.Name, nil)
}

// count makes the strategy of the counter named bizType.Name, which belongs to the biz type owner.
// part is nil unless that is keyed.
func count(env strategy.Env, bizType seqd.BizType, owner string, part *keyPart) (counting, error) {
	o, err := originOf(env, bizType, owner)
	if err != nil {
		return nil, err
	}
	if part != nil {
		o.member = &member{key: part}
	}
	var made counting = buffered(o)
	if o.settings.Strict() && env.Store.Shared() {
		if made, err = sequenced(env, o); err != nil {
			return nil, err
		}
	}
	return o.settings.places().spacing(made), nil
}

// shape returns what the numbers look like. If they are counted for each key, or are reset, or only
// some are issued, it includes that.
func shape(bizType seqd.BizType) string {
	settings, ok := bizType.Settings.(*Settings)
	if !ok {
		return Name
	}
	text := Name
	if settings.Keyed {
		text += " per key"
	}
	if settings.Reset != seqd.ResetNever {
		text += fmt.Sprintf(" %s in %s", settings.Reset, settings.TimeZone)
	}
	if increment, offset := settings.Increment, settings.Offset; increment > 1 {
		text += fmt.Sprintf(" %d mod %d", offset, increment)
	}
	return text
}

// Strategy issues the numbers of one biz type from this node's own double buffer. It is safe for
// concurrent use.
type Strategy struct {
	// The buffer is first: issuing touches little else, and with very many biz types every cache
	// line counts.
	buffer buffer
	ranges
	heritage known // from the previous strategy; not changed once issuing began
}

var (
	_ seqd.Strategy       = (*Strategy)(nil)
	_ seqd.HealthReporter = (*Strategy)(nil)
)

// New returns the strategy of one biz type, whose Settings must be of type *Settings with increment
// 1. It does no I/O.
func New(env strategy.Env, bizType seqd.BizType) (*Strategy, error) {
	o, err := unspaced(env, bizType)
	if err != nil {
		return nil, err
	}
	return buffered(o), nil
}

// buffered returns the strategy of one counter.
func buffered(o origin) *Strategy {
	s := &Strategy{ranges: ranges{origin: o}}
	s.buffer.init(s, o.settings.Threshold, o.settings.AcquireTimeout, o.settings.Start-1)
	return s
}

// Generate adds n consecutive numbers to seq, or several runs of them if a segment ends in between.
func (s *Strategy) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	return s.buffer.take(ctx, n, seq)
}

// some implements [takesSome].
func (s *Strategy) some(ctx context.Context, n int, seq *seqd.Sequence) error {
	p := patience{wait: s.buffer.wait}
	return s.buffer.takeWith(ctx, n, seq, &p)
}

// GenerateSome implements [seqd.PartialGenerator].
func (s *Strategy) GenerateSome(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateSome(ctx, n, seq, s)
}

// GenerateConsecutive implements [seqd.ConsecutiveGenerator].
func (s *Strategy) GenerateConsecutive(ctx context.Context, n int, seq *seqd.Sequence) error {
	return generateConsecutive(ctx, n, seq, s)
}

// GenerateRange implements [seqd.Ranger].
func (s *Strategy) GenerateRange(ctx context.Context, n int64, seq *seqd.Sequence) error {
	return s.handOut(ctx, n, s.buffer.top(), seq)
}

// Health returns why the next request would be refused.
func (s *Strategy) Health() error { return s.buffer.health() }

// Degraded implements [seqd.DegradedReporter].
func (s *Strategy) Degraded() *seqd.Error { return s.storeAway() }

// prepare implements [counting].
func (s *Strategy) prepare() { s.buffer.prepare() }

// forget implements [counting].
func (s *Strategy) forget(context.Context) error { return nil }

// Close returns the numbers that nobody got to the store, so that the next process continues where
// this one stopped.
func (s *Strategy) Close(ctx context.Context) error {
	s.endHandOuts(ctx)
	return s.giveBack(ctx, s.buffer.close(ctx, errStopping))
}
