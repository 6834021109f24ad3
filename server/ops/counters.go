package ops

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/backends"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/server/standings"
)

// ListCounters returns a page of counters: see [admin.Standings].
type ListCounters func(ctx context.Context, bizType, after string, limit int) ([]admin.Standing, string, error)

// Counters opens the store, calls f with what lists its counters, and changes nothing. Nodes may run,
// except with a bolt file.
func Counters(ctx context.Context, cfg *config.Config, f func(ListCounters) error) (err error) {
	if err := checkKept(ErrSnapshot, cfg.Store); err != nil {
		return err
	}
	store, err := backends.ReadStore(ctx, cfg.Store, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	r := &standings.Reader{Config: cfg.ForRepair(), Store: store}
	return f(func(ctx context.Context, bizType, after string, limit int) ([]admin.Standing, string, error) {
		list, next, err := r.List(ctx, bizType, after, limit)
		if shown, ok := errors.AsType[*seqd.Error](err); ok && shown.Err != nil {
			err = shown.Err // an operator may know what it is
		}
		return list, next, err
	})
}
