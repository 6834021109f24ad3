package nodes

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd/persist"
)

// Own is a document that only this node writes. It is not safe for concurrent use.
type Own struct {
	Documents persist.Documents
	// Kind is the kind of the document. Its key is the ID of the node.
	Kind, Key string
	// revision is the one that is there, 0 for none. It is not sure after an error: the document may
	// have been written nevertheless, or another node has purged it.
	revision int64
	unsure   bool
}

// Write writes the document over the one before. It expires at now + life.
func (o *Own) Write(ctx context.Context, body string, now time.Time, life time.Duration) error {
	if err := o.learn(ctx); err != nil {
		return err
	}
	doc := persist.Document{
		Kind: o.Kind, Key: o.Key, Revision: o.revision + 1, Body: body,
		Timestamp: now.UnixMilli(), Expires: now.Add(life).UnixMilli(),
	}
	err := persist.Put(ctx, o.Documents, doc)
	if o.unsure = err != nil; !o.unsure {
		o.revision = doc.Revision
	}
	return err
}

// learn reads which revision is there, unless that is sure.
func (o *Own) learn(ctx context.Context) error {
	if !o.unsure {
		return nil
	}
	known, err := o.Documents.Read(ctx, o.Kind, o.Key)
	switch {
	case err == nil:
		o.revision = known.Revision
	case errors.Is(err, persist.ErrNotFound):
		o.revision = 0
	default:
		return err
	}
	o.unsure = false
	return nil
}

// Written reports whether the document may be there.
func (o *Own) Written() bool { return o.revision > 0 || o.unsure }

// Delete removes the document.
func (o *Own) Delete(ctx context.Context) error {
	if err := o.learn(ctx); err != nil || !o.Written() {
		return err
	}
	err := o.Documents.Delete(ctx, o.Kind, o.Key, o.revision)
	o.unsure = err != nil
	return err
}
