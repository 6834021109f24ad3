package definitions

import (
	"context"
	"time"

	"github.com/seqd/seqd/internal/sabotage"
)

// heldUp is how long changes may go unfollowed before a node asks. It is longer than a node takes
// that is not held up, and less than settleTime: a biz type that is disabled gets another strategy
// only after that, so what the store gave to a node that is not held up was given before.
const heldUp = 15 * time.Second

// follows returns a function that returns why what the store has just given must not be used: the
// node was held up (a process that was stopped, a machine that was suspended, a store that was
// away), and the definition of the biz type is not the one that was built. Another strategy may
// have gone on from what was in the store before.
func (b *builder) follows(name string, built digest) func(context.Context) error {
	return func(ctx context.Context) error {
		if b.unfollowed() < heldUp || sabotage.Off(sabotage.Follows) {
			return nil
		}
		doc, said, err := b.records.read(ctx, name)
		if err == nil && doc.Revision > 0 && said.digest() != built {
			err = beingChanged(nil)
		}
		return err
	}
}
