package terms

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seqd/seqd/persist"
)

// Edit changes the state of a work for its owner, who must look at it: the owner stays, and finds at
// its next write that it has to take the work again. So what Edit writes may not depend on what the
// owner has done since. A node without a session may call it. It returns [persist.ErrNotFound] if
// there is no such work.
func (t *Terms) Edit(ctx context.Context, kind, key string, edit func(state json.RawMessage) (next json.RawMessage, expires int64, err error)) error {
	for {
		fence, err := t.fence(ctx) // before the work is read: see K4
		if err != nil {
			return err
		}
		w, err := t.read(ctx, t.works, kind, key)
		if err != nil {
			return err
		}
		if w.State == nil {
			return fmt.Errorf("%s: %w", w.doc.PersistID(), persist.ErrNotFound)
		}
		state, expires, err := edit(w.State)
		if err != nil {
			return err
		}
		if err = w.put(ctx, fence, w.Owner, state, expires); !persist.Overtaken(err) {
			return err
		}
	}
}
