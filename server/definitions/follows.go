package definitions

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/server/config"
	"github.com/seqd/seqd/strategy"
)

// heldUp is how long changes may go unfollowed before a node asks. A node that is well follows them
// every few seconds. A strategy changes only settleTime after the biz type was disabled. So a node
// that followed changes less than heldUp ago, and knows of no disable, has got its numbers before
// the strategy changes.
const heldUp = 15 * time.Second

// following returns the builder of a definition, which other nodes may change.
func (b *builder) following(name string, built state) *builder {
	f := *b
	switch {
	case b.cfg.BizTypesFrom != config.FromConfig:
		f.env.Follows = b.follows(name, built)
	case b.present != nil && b.env.Store.Shared():
		f.agreed = new(agreed)
		f.env.Follows = b.stillAgreed(name, built, f.agreed)
		b.shapes.followed.Store(name, f.env.Follows)
	}
	return &f
}

// follows returns the Follows of [strategy.Env] for a definition. It returns nil while the node
// follows changes. If the node was held up (a process that was stopped, a machine that was
// suspended, a store that was away), it reads the definition, and returns an error if that is not
// the one that was built: then another strategy may have gone on from what was in the store before.
// It returns an error too if the node has followed a change, and what it had built has not closed
// yet. If there is no document, nobody has changed the biz type.
func (b *builder) follows(name string, built state) func(context.Context) error {
	return func(ctx context.Context) error {
		if sabotage.Off(sabotage.Follows) {
			return nil
		}
		unfollowed := b.unfollowed(kind, name) // before over is read: a change sets that first
		if built.over.Load() {
			return beingChanged(nil)
		}
		if unfollowed < heldUp {
			return nil
		}
		doc, said, err := b.records.read(ctx, name)
		if err == nil && doc.Revision > 0 && said.digest() != built.said {
			err = beingChanged(nil)
		}
		return err
	}
}

// agreed is the shape on record that a definition of this node's own issues in.
type agreed struct {
	keeper strategy.ShapeKeeper // the strategy; nil if it keeps no copy
	shape  atomic.Pointer[string]
	times  atomic.Int64 // how often others had begun to count this node when the shape was last compared
}

var _ strategy.ShapeKeeper = (*agreed)(nil)

// OnRecord implements [strategy.ShapeKeeper].
func (a *agreed) OnRecord(shape string) {
	a.shape.Store(&shape)
	if a.keeper != nil {
		a.keeper.OnRecord(shape)
	}
}

// stillAgreed returns the Follows of [strategy.Env] for a definition of this node's own. While
// other nodes count this one, they force no other shape on the biz type. After they did not, as
// after this node was held up, it reads the shape on record again: it says that it is there before
// it does, as at its start. If that is another shape, what was built issues no more, and
// [Catalogue.Mend] builds it again, which is then refused.
func (b *builder) stillAgreed(name string, built state, a *agreed) func(context.Context) error {
	return func(ctx context.Context) error {
		if sabotage.Off(sabotage.Counted) {
			return nil
		}
		if built.over.Load() {
			return beingChanged(nil)
		}
		times, err := b.present(ctx)
		if err != nil {
			return storeError(err)
		}
		if times == a.times.Load() {
			return nil
		}
		known, err := b.shapes.read(ctx, name)
		if err != nil {
			return err
		}
		if issued := a.shape.Load(); issued != nil && *issued != "" && *issued != known {
			built.over.Store(true)
			return beingChanged(nil)
		}
		a.times.Store(times)
		return nil
	}
}
