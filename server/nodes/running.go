package nodes

import (
	"context"
	"time"

	"github.com/seqd/seqd/persist"
)

// lookPause is the pause between two looks of [Running].
const lookPause = 500 * time.Millisecond

// Running returns the names of the nodes that use a store, for commands that run beside the
// service. The document of a node that was killed, or of a copy of the store that was put back,
// still counts for a while: then Running calls waits with the names, unless it is nil, and waits
// until a document changes or expires, for 20 s at most.
func Running(ctx context.Context, store persist.Store, waits func(names string)) (names []string, err error) {
	var first map[string]int64
	for {
		now, err := store.Now(ctx)
		if err != nil {
			return nil, err
		}
		docs, err := store.Documents().List(ctx, kind, "", mostNodes)
		if err != nil {
			return nil, err
		}
		seen, all, run := make(map[string]int64, len(docs)), []string(nil), []string(nil)
		for _, doc := range docs {
			if doc.Expires < now.UnixMilli() {
				continue
			}
			name := nameOf(doc.Key, doc.Body)
			seen[doc.Key], all = doc.Revision, append(all, name)
			if revision, was := first[doc.Key]; first != nil && (!was || revision != doc.Revision) {
				run = append(run, name)
			}
		}
		if len(run) > 0 || len(all) == 0 {
			return run, nil
		}
		if first == nil {
			if first = seen; waits != nil {
				waits(Few(all))
			}
		}
		select {
		case <-time.After(lookPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// nameOf returns the name of the node that wrote a document.
func nameOf(id, body string) string {
	if node, ok := readNode(id, body); ok {
		return shown(node)
	}
	return id
}
