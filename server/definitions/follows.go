package definitions

import (
	"context"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/server/config"
)

// heldUp is how long changes may go unfollowed before a node asks. A node that is well follows them
// every few seconds. A strategy changes only settleTime after the biz type was disabled. So a node
// that followed changes less than heldUp ago, and knows of no disable, has got its numbers before
// the strategy changes.
const heldUp = 15 * time.Second

// following returns the builder of a definition, which other nodes may change unless the
// configuration says what there is.
func (b *builder) following(name string, built state) *builder {
	if b.cfg.BizTypesFrom == config.FromConfig {
		return b
	}
	f := *b
	f.env.Follows = b.follows(name, built)
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
