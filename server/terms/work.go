package terms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

var (
	// ErrTaken is returned when the session of another node owns a work, or may own it.
	ErrTaken = errors.New("another node does this work")
	// ErrNoSession is returned while this node may not work: it has no session, or its last beat is
	// too old.
	ErrNoSession = errors.New("this node has no session in the store now")
	// ErrLost is returned when this node does not own the work any more.
	ErrLost = errors.New("this node does not do this work any more")
)

// Work is a work that this node owns. Only one goroutine may use it at a time.
type Work struct {
	Owner
	// State is what the work keeps in its document, as JSON; nil before the first write.
	State json.RawMessage

	terms *Terms
	doc   persist.Document
}

// Key returns the key of the work's document.
func (w *Work) Key() string { return w.doc.Key }

// body is that of a work's document.
type body struct {
	Owner
	State json.RawMessage `json:"state,omitempty"`
}

// Take returns a work that this node owns from now on. If it owned the work already, the term stays:
// the node itself must not do a work twice at a time. The document is created if there is none. Errors are [ErrTaken], [ErrNoSession] and those of the
// store, after which it may be taken nevertheless: another Take finds out.
func (t *Terms) Take(ctx context.Context, kind, key string) (*Work, error) {
	w, err := t.read(ctx, kind, key)
	if err != nil {
		return nil, err
	}
	return w, w.take(ctx)
}

// read returns a work, whoever owns it.
func (t *Terms) read(ctx context.Context, kind, key string) (*Work, error) {
	w := &Work{terms: t}
	doc, err := t.opts.Documents.Read(ctx, kind, key)
	switch {
	case errors.Is(err, persist.ErrNotFound):
		w.doc = persist.Document{Kind: kind, Key: key}
		return w, nil
	case err != nil:
		return nil, err
	}
	var b body
	if err := json.Unmarshal([]byte(doc.Body), &b); err != nil {
		return nil, fmt.Errorf("%w: %s is damaged: %w", persist.ErrInvalid, doc.PersistID(), err)
	}
	w.doc, w.Owner, w.State = doc, b.Owner, b.State
	return w, nil
}

// take takes a work that was just read, unless this node owns it.
func (w *Work) take(ctx context.Context) error {
	t := w.terms
	s, ok := t.own()
	if !ok {
		return ErrNoSession
	}
	if w.Session == s.key {
		return nil
	}
	dead, err := t.gone(ctx, w.Session)
	if err != nil {
		return err
	}
	next, ok := w.taken(s.key, dead)
	if !ok || !t.settled() {
		return ErrTaken
	}
	err = w.put(ctx, s, next, w.State, w.doc.Expires)
	if persist.Overtaken(err) {
		return ErrTaken
	}
	return err
}

// settled reports whether this node may take anything yet.
func (t *Terms) settled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.opts.Shared || t.watch.settled(t.opts.Clock())
}

// gone reports whether a session is not in the store, and so can never work again.
func (t *Terms) gone(ctx context.Context, key string) (bool, error) {
	if key == "" || !t.opts.Shared { // the one of an earlier process
		return true, nil
	}
	_, err := t.opts.Documents.Read(ctx, kind, key)
	if errors.Is(err, persist.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// Write writes the state of the work, and when something is due, in ms since the Unix epoch, 0 for
// never: see [persist.Documents].Due. It returns [ErrNoSession] or [ErrLost] if this node may not, or
// an error of the store. After any error but ErrNoSession it may be written nevertheless, and the
// work must be taken again.
func (w *Work) Write(ctx context.Context, state json.RawMessage, expires int64) error {
	return w.write(ctx, w.Owner, state, expires)
}

// Release writes the state for the last time, and lets others take the work at once.
func (w *Work) Release(ctx context.Context, state json.RawMessage, expires int64) error {
	return w.write(ctx, Owner{Term: w.Term}, state, expires)
}

// write is K4, fence: it replaces the revision in which w.Owner owns the work. A session that was
// declared dead changes nothing once another one has taken the work, however late a write arrives,
// and nothing after a failover that may have lost a take.
func (w *Work) write(ctx context.Context, next Owner, state json.RawMessage, expires int64) error {
	s, ok := w.terms.own()
	switch {
	case sabotage.Off(sabotage.TermFence):
		if now, err := w.terms.read(ctx, w.doc.Kind, w.doc.Key); err == nil {
			w.doc = now.doc
		}
		s.fence, _ = w.terms.fence(ctx)
	case s.key != w.Session:
		return ErrLost
	case !ok:
		return ErrNoSession
	}
	err := w.put(ctx, s, next, state, expires)
	if persist.Overtaken(err) || errors.Is(err, persist.ErrNotFound) || errors.Is(err, persist.ErrFailedOver) {
		return ErrLost
	}
	return err
}

// put writes the next revision.
func (w *Work) put(ctx context.Context, s session, owner Owner, state json.RawMessage, expires int64) error {
	text, err := json.Marshal(body{owner, state})
	if err != nil {
		return fmt.Errorf("%w: the state of %s: %w", persist.ErrInvalid, w.doc.PersistID(), err)
	}
	next := w.doc
	next.Revision, next.Body, next.Timestamp, next.Expires = next.Revision+1, string(text), w.terms.opts.Now().UnixMilli(), expires
	if err = w.terms.put(ctx, next, s.fence); err == nil {
		w.doc, w.Owner, w.State = next, owner, state
	}
	return err
}
