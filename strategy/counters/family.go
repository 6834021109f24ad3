package counters

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/strategy"
)

// Base is what all counters of a biz type have in common.
type Base struct {
	Env      *strategy.Env
	BizType  *seqd.BizType
	Settings *Settings
}

// Kind is what a strategy implements for its [Family]: how one counter is opened and closed, what
// is known of it, which keys there are, and how the store is asked.
type Kind[C any, V Known] interface {
	// OpenCounter and CloseCounter are Open and Close of [Options]. The counter of a new key need not
	// be in the store when OpenCounter returns: its first numbers may create it.
	OpenCounter(ctx context.Context, name Name, by string) (C, error)
	CloseCounter(ctx context.Context, name Name, counter C) error
	// Knows returns what is known of a counter. It is called after CloseCounter, and may be called
	// while the counter is in use.
	Knows(name Name, counter C) V
	// CountKeys counts, in the store, the keys that have a counter of a period. It may take long.
	CountKeys(ctx context.Context, p seqd.Period) (int64, error)
	// IsAway reports whether an error of the store says that it cannot be used now. Other errors,
	// such as that a counter is exhausted, say nothing.
	IsAway(err error) bool
	// LookAtStore asks the store whether it can be used.
	LookAtStore(ctx context.Context) error
}

// Family is all counters of a biz type that has several. It opens and closes them (see [Set]),
// remembers what was known of those that are closed (see [Memory]), watches a store that cannot be
// used (reach.go), and has the [Places] of keys.
//
// The type of a strategy embeds a *Family and implements the [Kind]. It calls Acquire for each
// request, and Note with what the store answered. For a key that may be new it calls
// [Places.Check], and it takes a place before it creates the counter. Family implements
// [seqd.Learner] and Close for it.
//
// A Family is safe for concurrent use.
type Family[C any, V Known] struct {
	*Set[C]
	Base
	Calendar Calendar
	Memory   Memory[V] // of counters that are not open, here or in the previous strategy
	kind     Kind[C, V]

	mu   lockorder.Inner // guards what follows
	away error           // why the store cannot be used, nil if it can
	// watching is whether watch runs. If the store answers some calls and not others, away changes
	// often, and there is still one watcher.
	watching bool
	places   map[seqd.Period]*Places // of the latest periods; nil before the first
}

// idleKey is for how long a key may be unused before its counter is closed. Numbers that segment
// has in hand go back to the store then. They are not skipped if the node crashes, and other nodes
// get them. A key that is used less often costs two writes for each use instead of one in many; at
// 10 minutes that is next to nothing.
const idleKey = 10 * time.Minute

// NewFamily returns a family without open counters. If the biz type is keyed, its settings say how
// many counters stay open and how many closed ones are remembered. Otherwise the parameter most
// says how many stay open, and remember how many are remembered at least. timeout is that of
// [Options]. NewFamily does no I/O.
func NewFamily[C any, V Known](b Base, kind Kind[C, V], most, remember int, timeout time.Duration) *Family[C, V] {
	f := &Family[C, V]{Base: b, kind: kind}
	f.Calendar.Calendar = b.Settings.Traits().Calendar
	f.Memory.Least = remember
	o := Options[C]{Most: most, Wait: b.Settings.AcquireTimeout, Timeout: timeout, Open: kind.OpenCounter, Close: f.shutCounter}
	if b.Settings.Keyed {
		f.Memory.Least = max(Remembered, b.Settings.LiveKeys)
		o.Most, o.MostEach, o.Idle = b.Settings.LiveKeys, b.Settings.LiveKeysPerCaller, idleKey
	}
	f.Set = NewSet(o)
	return f
}

// shutCounter closes a counter, and remembers what is known of it.
func (f *Family[C, V]) shutCounter(ctx context.Context, name Name, counter C) error {
	defer func() { f.Memory.Keep(name, f.kind.Knows(name, counter)) }()
	return f.kind.CloseCounter(ctx, name, counter)
}

// mostPeriods is the number of periods whose places a family keeps.
const mostPeriods = 4

// Places returns the places of the keys of a period, which it makes if need be. To make more than
// mostPeriods it drops those of the earliest period. The timer of these still gives back what is in
// hand.
func (f *Family[C, V]) Places(p seqd.Period) *Places {
	f.mu.Lock()
	defer f.mu.Unlock()
	if places, ok := f.places[p]; ok {
		return places
	}
	if f.places == nil {
		f.places = make(map[seqd.Period]*Places)
	}
	if len(f.places) >= mostPeriods {
		delete(f.places, slices.Min(slices.Collect(maps.Keys(f.places))))
	}
	places := newPlaces(f.Running, &f.Base, p, f.kind.CountKeys)
	f.places[p] = places
	return places
}

// Learn implements [seqd.Learner]. If numbers were reset at other times, periods have other
// counters.
func (f *Family[C, V]) Learn(from any) { f.Memory.Learn(from) }

// Knowledge implements [seqd.Learner]: it returns memos for [Memory.Learn], of open and of closed
// counters. A counter that is still being opened has issued nothing.
func (f *Family[C, V]) Knowledge() any {
	open := make(map[Name]C)
	f.Each(func(name Name, counter C) { open[name] = counter })
	all := f.Memory.All() // after that, because what is closed meanwhile is kept
	var nothing V
	for name, counter := range open {
		if known := f.kind.Knows(name, counter); known != nothing {
			all = append(all, Memo[V]{name, known})
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// Close closes all counters, also those in use, and then gives back the places that this node has
// not used. It does not wait for watch and recount, which end by themselves.
func (f *Family[C, V]) Close(ctx context.Context) error {
	err := f.Set.Close(ctx)
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.places))
	f.mu.Unlock()
	for _, places := range all {
		err = errors.Join(err, places.Close(ctx))
	}
	return err
}
