package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/terms"
)

// Restored lets the jobs fail that have not ended in a store, because a backup of it was restored:
// they may have gone on since, or been cancelled. It returns their IDs. They end once a node runs.
func Restored(ctx context.Context, documents persist.Documents, now time.Time) (ids []string, err error) {
	for doc, err := range persist.EveryDocument(ctx, documents, kind) {
		if err != nil {
			return ids, err
		}
		j, owner, err := jobIn(doc)
		if errors.Is(err, errRemoved) || err == nil && (j.ended() || j.Code != "") { // which is set: it fails anyway
			continue
		}
		if err != nil {
			return ids, err
		}
		j.fail(seqd.Errorf(seqd.CodeConflict, "a backup of the store was restored, in which this job had not ended: make another one for the numbers that you still need"))
		j.At = min(j.At, now.UnixMilli())
		text, err := json.Marshal(terms.Body{Owner: owner, State: j.encode()})
		if err != nil {
			return ids, err
		}
		doc.Revision, doc.Body, doc.Timestamp, doc.Expires = doc.Revision+1, string(text), now.UnixMilli(), j.due(0)
		if err := persist.Put(ctx, documents, doc); err != nil {
			return ids, err
		}
		ids = append(ids, doc.Key)
	}
	return ids, nil
}
