package definitions

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// changeEvent is the event of the last change of a definition (V1). It is written with the change. The
// node that wrote it copies it then, and the next change copies it again before it replaces it. If a
// node is killed in between, the leader copies it: see [Editor.CopyEvents].
type changeEvent struct {
	// Began is the version at which events began to be counted, and Last the number of this one.
	Began int64 `json:"began"`
	Last  int64 `json:"last"`
	// At is when it happened, in ms since the Unix epoch. Version is what the change made.
	At      int64 `json:"at"`
	Version int64 `json:"version"`
	// Change is put, patch, enabled, disabled or deleted, and Caller who asked for it.
	Change string `json:"change"`
	Caller string `json:"caller,omitempty"`
}

// document returns the batch of the event.
func (t *changeEvent) document(name string) (persist.Document, error) {
	data, err := json.Marshal(struct {
		Version int64  `json:"version"`
		Change  string `json:"change"`
		Caller  string `json:"caller,omitempty"`
	}{t.Version, t.Change, t.Caller})
	if err != nil {
		return persist.Document{}, err
	}
	b := persist.EventBatch{
		BizType: name, Source: fmt.Sprintf("%s@definition.%d", name, t.Began), First: t.Last,
		Events: []persist.SourceEvent{{Type: persist.EventDefinition, At: t.At, Data: data}},
	}
	return b.Document()
}

// hasEvents reports whether the biz type has events.
func (s stored) hasEvents() bool {
	var d struct {
		Events bool `json:"events"`
	}
	return json.Unmarshal(s.Definition, &d) == nil && d.Events
}

// tell adds the event of a change to what the change writes as a version, if the biz type has or had
// events. It copies the event before, which that replaces.
func (e *Editor) tell(ctx context.Context, name string, before stored, said *stored, version int64, what, by string) error {
	said.Event = before.Event
	if err := e.copyEvent(ctx, name, before.Event); err != nil {
		return err
	}
	if !before.hasEvents() && !said.hasEvents() {
		return nil
	}
	next := changeEvent{Began: version, At: e.records.now().UnixMilli(), Version: version, Change: what, Caller: by}
	if before.Event != nil {
		next.Began, next.Last = before.Event.Began, before.Event.Last
	}
	next.Last++
	said.Event = &next
	return nil
}

// copyEvent copies the event of a change, nil for none.
func (e *Editor) copyEvent(ctx context.Context, name string, t *changeEvent) error {
	if t == nil {
		return nil
	}
	doc, err := t.document(name)
	if err == nil {
		err = e.records.documents.Keep(ctx, []persist.Document{doc})
	}
	return err
}

// CopyEvents copies the event of the last change of each definition.
func (e *Editor) CopyEvents(ctx context.Context) error {
	if e.catalogue.locked {
		return nil
	}
	for doc, err := range persist.EveryDocument(ctx, e.records.documents, kind) {
		if err != nil {
			return err
		}
		said, err := decode(doc)
		if err != nil {
			continue // it has no event
		}
		if err := e.copyEvent(ctx, doc.Key, said.Event); err != nil {
			return err
		}
	}
	return nil
}

// HasEvents returns why a biz type has no events, nil if it has.
func (e *Editor) HasEvents(ctx context.Context, name string) error {
	b, err := e.Get(ctx, name)
	if err == nil && !(stored{Definition: b.Definition}).hasEvents() {
		err = seqd.Errorf(seqd.CodeConflict, "%s has no events: set events: true in its definition", name)
	}
	return err
}
