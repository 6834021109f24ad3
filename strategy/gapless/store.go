package gapless

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/lockorder"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// documents are the documents of a store, and the fence that protects changes of them.
type documents struct {
	persist.Documents
	counters persist.Counters
	fenced   persist.Fenced // nil if the store has no fences
	fence    *fence
	follows  func(context.Context) error // see [strategy.Env]; nil for nothing
}

// fence is the last fence that was read, if an operator has confirmed it. Others are read again each
// time. A write compares the fence, and a record that is newer than the document shows what an old
// fence does not ([ledger.RuleAhead]). So an old one does no harm, except that a counter looks as if
// it stood still after it was raised: so nothing is refused before the fence was read anew
// ([ledger.Command].Anew).
type fence struct {
	mu    lockorder.Inner // guards what follows
	last  persist.Fence
	known bool
}

// documentsOf returns the documents of a store.
func documentsOf(store persist.Store) documents {
	d := documents{Documents: store.Documents(), counters: store.Counters(), fence: new(fence)}
	d.fenced, _ = store.(persist.Fenced)
	return d
}

// execute does what a command of the machine asks for.
func (d *documents) execute(ctx context.Context, c *ledger.Command) ledger.Outcome {
	fenced := d.fenced
	if fenced != nil && c.Action == ledger.Read && !c.Anew {
		fenced = remembering{fenced, d.fence}
	}
	out := c.Execute(ctx, d.Documents, fenced)
	switch {
	case errors.Is(out.Err, persist.ErrFailedOver):
		d.fence.set(persist.Fence{}, false)
	case c.Anew && out.Fence.Current != "":
		d.fence.set(out.Fence, !out.Fence.FailedOver())
	}
	if out.Err == nil && d.follows != nil {
		out.Err = d.follows(ctx)
	}
	return out
}

// remembering is a fenced store that remembers the fence.
type remembering struct {
	persist.Fenced
	fence *fence
}

// Fence implements [persist.Fenced].
func (r remembering) Fence(ctx context.Context) (persist.Fence, error) {
	if last, known := r.fence.get(); known {
		return last, nil
	}
	now, err := r.Fenced.Fence(ctx)
	if err == nil {
		r.fence.set(now, !now.FailedOver())
	}
	return now, err
}

func (f *fence) get() (persist.Fence, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.known
}

func (f *fence) set(last persist.Fence, known bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.known = last, known
}

// floor returns the highest number that a counter of another strategy gave under this name. If a
// failover may have lost higher ones, it returns persist.ErrFailedOver.
func (d *documents) floor(ctx context.Context, name string) (int64, error) {
	c, err := d.counters.Read(ctx, name)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		return 0, nil
	case err == nil && c.FailedOver:
		return 0, fmt.Errorf("%w: nobody has raised %s since", persist.ErrFailedOver, name)
	}
	return c.Max, err
}

// unavailable is the error for callers if the store failed.
func unavailable(err error) error {
	_, known := errors.AsType[*seqd.Error](err)
	switch {
	case err == nil, known, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, persist.ErrInvalid), errors.Is(err, persist.ErrNewer):
		return &seqd.Error{Code: seqd.CodeInternal, Detail: "what the store has cannot be used; the log of the service says more", Err: err}
	}
	return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: detailAway, RetryAfter: time.Second, Err: err}
}

const detailAway = "the store cannot be used, and each number of a gapless biz type comes from there"
