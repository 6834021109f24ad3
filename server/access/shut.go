package access

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd/persist"
)

// Shut disables every token of a store, and returns the names of those that were enabled. It is for
// a store that was restored from a backup: tokens that were disabled, deleted or limited since are
// valid again. It continues after an error, and can be called again. Nodes that run may refuse the
// tokens some seconds later.
func Shut(ctx context.Context, docs persist.Documents, now time.Time) (names []string, err error) {
	for doc, failed := range persist.EveryDocument(ctx, docs, Kind) {
		if failed != nil {
			return names, errors.Join(err, failed)
		}
		t, damaged := readDocument(doc)
		if damaged != nil || !t.Enabled { // nobody can use a token that is damaged
			continue
		}
		t.Enabled, t.Revision, t.Updated = false, t.Revision+1, now
		if failed := docs.Update(ctx, documentOf(t)); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", t.Name, failed))
			continue
		}
		names = append(names, t.Name)
	}
	return names, err
}
