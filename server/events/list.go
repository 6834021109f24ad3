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
func (f *Streams) List(ctx context.Context, bizType string, after int64, limit int, wait time.Duration) (list []Event, next, last int64, err error) {
	if err := seqd.CheckName(bizType); err != nil {
		return nil, 0, 0, err
	}
	for until := time.Now().Add(wait); ; {
		list, last, err := f.read(ctx, bizType, after, limit)
		if err == nil && len(list) == 0 { // nobody waits for what never comes
			err = f.none(ctx, bizType, after, last)
		}
		left := time.Until(until)
		switch {
		case err != nil:
			return nil, 0, 0, failure(err)
		case len(list) > 0:
			return list, list[len(list)-1].Position, last, nil
		case left <= 0 || f.opts.Stopping():
			return nil, max(after, 0), last, nil
		}
		within, cancel := context.WithTimeout(ctx, left)
		_ = f.Wait(within, bizType, after)
		cancel()
		if ctx.Err() != nil {
			return nil, 0, 0, seqd.AsError(ctx.Err())
		}
	}
}

// none returns why there never are events after a position behind which there are none, nil if there
// may be some.
func (f *Streams) none(ctx context.Context, bizType string, after, last int64) error {
	if last == 0 {
		if err := f.opts.Has(ctx, bizType); err != nil {
			return err
		}
	}
	if after > last {
		return seqd.Errorf(seqd.CodeInvalidRequest, "after is %d, and the last event of %s has position %d", after, bizType, last)
	}
	return nil
}

// failure returns what callers see of an error of the store, nil for nil.
func failure(err error) error {
	if gone, ok := errors.AsType[*GoneError](err); ok {
		return seqd.Errorf(seqd.CodeEventsGone, "the oldest event that is kept has position %d: go on with after=%d, or leave after out", gone.Oldest, gone.Oldest-1)
	}
	return storeerror.Of(err, "the events", "events")
}
