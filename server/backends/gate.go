package backends

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/seqd/seqd/persist"
)

// Gate keeps a node from using a store that could not be reached at the start. The store that
// answers later may be another one, so every operation fails until [Store.Confirm] has found that
// it is that of this node's cluster. The zero Gate is open.
type Gate struct{ shut atomic.Bool }

var errGate = fmt.Errorf("%w: it could not be reached at the start, and is still to be compared with the cluster that the reservation on disk is of", persist.ErrUnavailable)

// passKey marks the contexts of the operations that compare the store.
type passKey struct{}

// pass returns a context for operations that need not wait for the gate.
func (g *Gate) pass(ctx context.Context) context.Context {
	return context.WithValue(ctx, passKey{}, g)
}

// Admit is what a driver asks before every operation. It returns why the operation must not be
// done, nil if it may.
func (g *Gate) Admit(ctx context.Context) error {
	if !g.shut.Load() || ctx.Value(passKey{}) == g {
		return nil
	}
	return errGate
}
