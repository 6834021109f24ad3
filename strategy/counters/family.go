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

// Kind is what a counter is to a strategy.
type Kind[C any, V Known] interface {
	// OpenCounter and CloseCounter are Open and Close of [Options].
	OpenCounter(ctx context.Context, name Name, by string) (C, error)
	CloseCounter(ctx context.Context, name Name, counter C) error
	// Knows returns what is known of a counter. It is called when the counter was closed, and may be
	// called while it is in use.
	Knows(name Name, counter C) V
	// CountKeys returns how many keys have a counter of a period.
	CountKeys(ctx context.Context, p seqd.Period) (int64, error)
	// IsAway reports whether an error of the store says that it cannot be used now. Other errors,
	// such as that a counter is exhausted, say nothing.
	IsAway(err error) bool
	// LookAtStore asks the store whether it can be used.
	LookAtStore(ctx context.Context) error
}

// Family is all counters of a biz type that has several. It opens and closes them (see [Set]),
// remembers what was known of those that are closed, watches a store that cannot be used
// (reach.go), and has the places of keys. A strategy embeds its Family, and is the Kind. Family
// implements [seqd.Learner] and Close. It is safe for concurrent use.
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

// NewFamily returns a family without open counters. The settings say how many counters stay open of
// a biz type with keys. Without keys, most of them do, and at least remember closed ones are
// remembered. timeout is that of [Options]. NewFamily does no I/O.
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

// mostPeriods is of how many periods a family has places at most.
const mostPeriods = 4

// Places returns the places of the keys of a period. New ones replace those of the earliest period
// if there are many.
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

// Knowledge implements [seqd.Learner]: it returns memos for [Memory.Learn]. A counter that is still
// being opened has issued nothing.
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

// Close closes all counters, and gives back the places that this node has not used.
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
