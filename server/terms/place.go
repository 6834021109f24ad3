package terms

import (
	"context"
	"errors"

	"github.com/seqd/seqd/coordination"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

// InStore is the ID that [Terms.Coordinator] returns if there is no coordinator.
const InStore = "store"

// place is where documents are kept: the store, or a coordinator.
type place struct {
	coordination.Documents
	fenced persist.Fenced // nil without fences
}

// put writes a document under a fence.
func (p place) put(ctx context.Context, doc persist.Document, fence string) error {
	if p.fenced == nil {
		return persist.Put(ctx, p.Documents, doc)
	}
	return persist.PutFenced(ctx, p.fenced, doc, fence)
}

// apart reports whether a coordinator has the sessions, the work "leader" and the permits.
func (t *Terms) apart() bool { return t.opts.Coordinator != nil && t.opts.Shared }

// Coordinator returns the ID of the coordinator that has the sessions, [InStore] if the store has
// them, "" if it is not known yet. trouble is why this node could not renew its session there, nil if
// it could.
func (t *Terms) Coordinator() (id string, trouble error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id, t.cause
}

// identify finds out which coordinator this node uses. One that lost its data is another one.
func (t *Terms) identify(ctx context.Context) error {
	if !t.apart() {
		return nil
	}
	id, err := coordination.Identify(ctx, t.coord)
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.id = id
	}
	return err
}

// readSession reads a session. One that is damaged has no body.
func (t *Terms) readSession(ctx context.Context, key string) (persist.Document, error) {
	doc, err := t.coord.Read(ctx, kind, key)
	if coordination.Damaged(doc, err) {
		doc.Body, err = "", nil
	}
	return doc, err
}

// noteDamaged warns once of each session that is damaged. It counts as one whose node does not beat.
func (t *Terms) noteDamaged(docs []persist.Document) {
	damaged := make(map[string]bool)
	for _, doc := range docs {
		if damaged[doc.Key] = doc.Body == ""; damaged[doc.Key] && !t.damaged[doc.Key] {
			t.opts.Log.Warn("the session of a node is damaged; it ends unless it is written again", "key", doc.Key)
		}
	}
	t.damaged = damaged
}

// here returns [ErrNoSession] unless the last beat of this node is where it was written. If it is
// not, that place lost its data, or has those of an older copy: what else is missing there was not
// removed by anybody.
func (t *Terms) here(ctx context.Context) error {
	s, ok := t.own()
	switch {
	case !ok:
		return ErrNoSession
	case !t.opts.Shared, sabotage.Off(sabotage.TermHere):
		return nil
	}
	known, err := t.coord.Read(ctx, kind, s.key)
	if errors.Is(err, persist.ErrNotFound) || err == nil && known.Revision < s.revision {
		return ErrNoSession
	}
	return err
}
