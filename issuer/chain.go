package issuer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// chainPlugin is a plugin in the chain of one biz type.
type chainPlugin struct {
	seqd.BoundPlugin
	rejected  seqd.RejectedHandler // the plugin, if it is one
	abandoned atomic.Int64         // calls that have not returned and that nobody waits for
}

// mostAbandoned is how many calls of one plugin may hang. Further calls are refused, so that a
// plugin that blocks forever does not use up the memory.
const mostAbandoned = 100

// newChain sorts plugins by their order.
func newChain(plugins []seqd.BoundPlugin) []*chainPlugin {
	chain := make([]*chainPlugin, len(plugins))
	for i, p := range slices.SortedStableFunc(slices.Values(plugins), func(a, b seqd.BoundPlugin) int { return cmp.Compare(a.Order, b.Order) }) {
		chain[i] = &chainPlugin{BoundPlugin: p, rejected: ask[seqd.RejectedHandler](p.Plugin)}
	}
	return chain
}

// waits is how long one call may still wait, for plugins and for its biz type.
type waits struct {
	pluginTimeout time.Duration // for all plugins that may block
	deadline      time.Time     // for plugins that may block; zero before the first
	until         time.Time     // deadline for the biz type to be initialised or changed; zero before
	looks         bool          // the caller needs no numbers: nothing is tried again for it
}

func (w *waits) before(ctx context.Context, plug *chainPlugin, call *seqd.Call) error {
	if plug.Quick {
		return plug.callBefore(ctx, call)
	}
	return w.apart(ctx, plug, call, plug.callBefore)
}

func (w *waits) after(ctx context.Context, plug *chainPlugin, call *seqd.Call) error {
	if plug.Quick {
		return plug.callAfter(ctx, call)
	}
	return w.apart(ctx, plug, call, plug.callAfter)
}

func (w *waits) onError(ctx context.Context, plug *chainPlugin, call *seqd.Call, refusal *seqd.Error) error {
	if plug.Quick {
		return plug.callOnError(ctx, call, refusal)
	}
	return w.apart(ctx, plug, call, func(ctx context.Context, call *seqd.Call) error { return plug.callOnError(ctx, call, refusal) })
}

// rejected calls a plugin that is a [seqd.RejectedHandler].
func (w *waits) rejected(ctx context.Context, plug *chainPlugin, call *seqd.Call, refusal *seqd.Error) error {
	if plug.Quick {
		return plug.callRejected(ctx, call, refusal)
	}
	return w.apart(ctx, plug, call, func(ctx context.Context, call *seqd.Call) error { return plug.callRejected(ctx, call, refusal) })
}

func (plug *chainPlugin) callBefore(ctx context.Context, call *seqd.Call) (err error) {
	defer recoverFrom(seqd.CodePluginPanic, "plugin", plug.Name, &err)
	return plug.Plugin.Before(ctx, call)
}

func (plug *chainPlugin) callAfter(ctx context.Context, call *seqd.Call) (err error) {
	defer recoverFrom(seqd.CodePluginPanic, "plugin", plug.Name, &err)
	return plug.Plugin.After(ctx, call)
}

func (plug *chainPlugin) callOnError(ctx context.Context, call *seqd.Call, refusal *seqd.Error) (err error) {
	defer recoverFrom(seqd.CodePluginPanic, "plugin", plug.Name, &err)
	plug.Plugin.OnError(ctx, call, refusal)
	return nil
}

func (plug *chainPlugin) callRejected(ctx context.Context, call *seqd.Call, refusal *seqd.Error) (err error) {
	defer recoverFrom(seqd.CodePluginPanic, "plugin", plug.Name, &err)
	plug.rejected.Rejected(ctx, call, refusal)
	return nil
}

// The states of a call that runs apart.
const (
	running int32 = iota
	returned
	left
)

// apart runs f in a goroutine of its own, on a copy of call, and waits for it until the deadline.
// If f returns in time, call gets what f made of the copy.
func (w *waits) apart(ctx context.Context, plug *chainPlugin, call *seqd.Call, f func(context.Context, *seqd.Call) error) error {
	if plug.abandoned.Load() >= mostAbandoned {
		return &seqd.Error{Code: seqd.CodeTimeout, Detail: "plugin " + plug.Name + " hangs", RetryAfter: time.Second}
	}
	if w.deadline.IsZero() {
		w.deadline = time.Now().Add(w.pluginTimeout)
	}
	late, cancel := context.WithDeadline(ctx, w.deadline)
	defer cancel()
	own := &seqd.Call{
		BizType: call.BizType, Count: call.Count, Want: call.Want, Key: call.Key, TTL: call.TTL, Reservation: call.Reservation,
		Once: call.Once, Replayed: call.Replayed, Caller: call.Caller, Limit: call.Limit,
	}
	own.Sequence.CopyFrom(&call.Sequence)
	var state atomic.Int32
	done := make(chan error, 1)
	go func() {
		done <- f(late, own)
		if !state.CompareAndSwap(running, returned) {
			plug.abandoned.Add(-1)
		}
	}()
	select {
	case err := <-done:
		call.Limit = own.Limit
		call.Sequence.CopyFrom(&own.Sequence)
		return err
	case <-late.Done():
		if state.CompareAndSwap(running, left) {
			plug.abandoned.Add(1)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &seqd.Error{Code: seqd.CodeTimeout, Detail: "plugin " + plug.Name + " did not return in time", RetryAfter: time.Second}
	}
}

// close closes a plugin. It returns when ctx has ended, even if the plugin does not.
func (plug *chainPlugin) close(ctx context.Context) error {
	closer := ask[seqd.Closer](plug.Plugin)
	if closer == nil {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- plug.callClose(ctx, closer) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select { // a plugin that heeds ctx returns soon, with a better error
	case err := <-done:
		return err
	case <-time.After(closeGrace):
		return fmt.Errorf("it did not close: %w", ctx.Err())
	}
}

// closeGrace is how long a plugin may take to return after its context has ended.
const closeGrace = 200 * time.Millisecond

func (plug *chainPlugin) callClose(ctx context.Context, c seqd.Closer) (err error) {
	defer recoverFrom(seqd.CodePluginPanic, "plugin", plug.Name, &err)
	return c.Close(ctx)
}
