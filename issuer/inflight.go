package issuer

import (
	"context"
	"sync/atomic"
	"time"
)

// inflight counts calls, so that one can wait until all have returned.
type inflight struct {
	n    atomic.Int64 // the calls; less by closedBy once drain was called
	done atomic.Pointer[chan struct{}]
}

const closedBy = int64(1) << 60

// enter counts a call in, unless drain was called. leave counts it out.
func (f *inflight) enter() bool {
	if f.force() {
		return true
	}
	f.leave()
	return false
}

// force counts a call in, whether or not drain was called. It reports whether it was not.
func (f *inflight) force() (open bool) { return f.n.Add(1) > 0 }

func (f *inflight) leave() {
	if f.n.Add(-1) == -closedBy {
		select {
		case *f.done.Load() <- struct{}{}:
		default:
		}
	}
}

// lastCalls is how long calls in a chain are waited for before its plugins are closed: shorter than
// callers wait for a change.
const lastCalls = time.Second

// drain keeps further calls out and waits until all have left, at most for lastCalls or until ctx
// ends. It is called once.
func (f *inflight) drain(ctx context.Context) {
	done := make(chan struct{}, 1)
	f.done.Store(&done)
	if f.n.Add(-closedBy) == -closedBy {
		return
	}
	select {
	case <-done:
	case <-time.After(lastCalls):
	case <-ctx.Done():
	}
}
