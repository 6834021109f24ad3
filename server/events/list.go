package events

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/storeerror"
)

var _ admin.Events = (*Streams)(nil)

// List implements [admin.Events].
func (f *Streams) List(ctx context.Context, bizType string, after int64, limit int, wait time.Duration) (list []Event, next int64, err error) {
	if err := seqd.CheckName(bizType); err != nil {
		return nil, 0, err
	}
	for until, sane := time.Now().Add(wait), false; ; sane = true {
		list, err = f.Read(ctx, bizType, after, limit)
		left := time.Until(until)
		switch {
		case err != nil:
			return nil, 0, failure(err)
		case len(list) > 0:
			return list, list[len(list)-1].Position, nil
		case left <= 0 || f.opts.Stopping():
			return f.none(ctx, bizType, after)
		case !sane: // nobody waits for what never comes
			if _, _, err := f.none(ctx, bizType, after); err != nil {
				return nil, 0, err
			}
		}
		// in parts, so that nobody waits on a node that is about to stop
		within, cancel := context.WithTimeout(ctx, min(left, pollPause))
		_ = f.Wait(within, bizType, after)
		cancel()
		if ctx.Err() != nil {
			return nil, 0, seqd.AsError(ctx.Err())
		}
	}
}

// none says that there are no events after a position, or why there never are.
func (f *Streams) none(ctx context.Context, bizType string, after int64) ([]Event, int64, error) {
	last, err := f.Last(ctx, bizType)
	if err == nil && last == 0 {
		err = f.opts.Has(ctx, bizType)
	}
	if err == nil && after > last {
		err = seqd.Errorf(seqd.CodeInvalidRequest, "after is %d, and the last event of %s has position %d", after, bizType, last)
	}
	return nil, max(after, 0), failure(err)
}

// failure returns what callers see of an error of the store, nil for nil.
func failure(err error) error {
	if gone, ok := errors.AsType[*GoneError](err); ok {
		return seqd.Errorf(seqd.CodeEventsGone, "the oldest event that is kept has position %d: go on with after=%d, or leave after out", gone.Oldest, gone.Oldest-1)
	}
	return storeerror.Of(err, "the events", "events")
}
