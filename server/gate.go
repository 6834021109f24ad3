package server

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seqd/seqd/persist"
)

// gate keeps a node from using a store that could not be reached when the run began. The store that
// answers later may be another one, so every operation fails until it is known to be that of this
// node's cluster.
type gate struct {
	open atomic.Bool
}

var errGate = fmt.Errorf("%w: it could not be reached at the start, and is still to be compared with the cluster that the reservation on disk is of", persist.ErrUnavailable)

// passKey marks the contexts of the operations that compare the store.
type passKey struct{}

// pass returns a context for operations that need not wait for the gate.
func (g *gate) pass(ctx context.Context) context.Context {
	return context.WithValue(ctx, passKey{}, g)
}

// admit returns why an operation on the store must not be done, nil if it may.
func (g *gate) admit(ctx context.Context) error {
	if g.open.Load() || ctx.Value(passKey{}) == g {
		return nil
	}
	return errGate
}

// admit is what the store asks before every operation.
func (r *runtime) admit(ctx context.Context) error {
	if r.gate == nil {
		return nil
	}
	return r.gate.admit(ctx)
}
