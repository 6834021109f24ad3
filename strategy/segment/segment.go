// Package segment is the strategy "segment". It allocates ranges of numbers (segments) in the store
// and issues their numbers in increasing order. An allocation costs one write to the store. Some
// numbers are skipped, for example after a crash.
//
// A [Counter] issues the numbers of one counter (counter.go). They come from a source:
//   - local, a double buffer in the memory of the node (local.go, buffer.go), for an embedded store,
//     and for the ordering per-node;
//   - shared, a cursor in Redis, in strict order over all nodes. Package cursor has the state
//     machine that decides what to do. shared.go serves callers, sharing.go lets them share takes,
//     and drive.go executes the commands of the machine;
//   - stored, the store itself, in strict order over all nodes. Package storetake has its state
//     machine (stored.go; sharing.go).
//
// A counter moves from the cursor to the store, or back, if its sequencer epoch says so (moves.go).
// With an increment above 1, sources count in ordinals (ordinals.go).
//
// A family holds many counters (family.go): one for each day, month or year (periodic.go,
// reopen.go), for each key (keyed.go), or for each key and period. firstrange.go creates the
// counter of a new key and takes its first range. Past periods are removed by package counters.
//
// The function build chooses between a family and a single counter. The function count chooses the
// source.
//
// Ranges are allocated in ranges.go, the first one of a key in firstrange.go, one that a caller
// issues from later in handout.go, and one for a take from the store in stored.go. settings.go has
// the step rule. Numbers are unique because the store gives each range away once (invariant U1),
// and each range goes to one target (U2).
//
// # Locks
//
// Locks have two ranks. The outer locks are sharing.mu, which guards a machine, and moves.mu. A
// goroutine locks an outer lock only while it holds no lock. All other locks are inner. A goroutine
// locks nothing while it holds an inner lock. While a goroutine holds a lock it does not wait, and
// does not call an observer, the store or Redis. A function that holds the lock of a machine
// returns such a call as a function, and its caller calls that after unlocking. Package lockorder
// asserts the order.
package segment

import (
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

// count makes the counter named bizType.Name, which belongs to the biz type owner, with its source.
// part is nil if the biz type has no other.
func count(env strategy.Env, bizType seqd.BizType, owner string, part *part) (*Counter, error) {
	o, err := originOf(env, bizType, owner)
	if err != nil {
		return nil, err
	}
	o.part = part
	if o.settings.Strict() && env.Store.Shared() {
		return sequenced(env, o)
	}
	return buffered(o), nil
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

// New returns a strategy that issues from the memory of this node, whatever the settings say, which
// must be of type *Settings. It does no I/O.
func New(env strategy.Env, bizType seqd.BizType) (*Counter, error) {
	o, err := originOf(env, bizType, bizType.Name)
	if err != nil {
		return nil, err
	}
	return buffered(o), nil
}
