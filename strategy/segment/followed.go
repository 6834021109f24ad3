package segment

import (
	"context"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
)

// followed returns the store of a strategy, whose numbers count only while this process follows
// what others change: see [strategy.Env].
func followed(e strategy.Env) persist.Store {
	if e.Follows == nil {
		return e.Store
	}
	return followedStore{e.Store, e.Follows}
}

type followedStore struct {
	persist.Store
	follows func(context.Context) error
}

var _ persist.Store = followedStore{}

// Counters implements [persist.Store].
func (s followedStore) Counters() persist.Counters {
	return followedCounters{s.Store.Counters(), s.follows}
}

// followedCounters are the counters of a followedStore. What they allocated in vain is skipped.
type followedCounters struct {
	persist.Counters
	follows func(context.Context) error
}

// Create implements [persist.Counters]. Its caller has the numbers up to c.Max.
func (f followedCounters) Create(ctx context.Context, c persist.Counter) error {
	if err := f.Counters.Create(ctx, c); err != nil {
		return err
	}
	return f.follows(ctx)
}

// Allocate implements [persist.Counters].
func (f followedCounters) Allocate(ctx context.Context, req persist.Request) (persist.Range, error) {
	r, err := f.Counters.Allocate(ctx, req)
	if err == nil {
		err = f.follows(ctx)
	}
	if err != nil {
		return persist.Range{}, err
	}
	return r, nil
}
