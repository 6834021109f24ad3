package terms

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
)

var (
	// ErrTaken is returned when another session owns a work, or may own it: this node has not
	// watched for long enough to know.
	ErrTaken = errors.New("another node does this work")
	// ErrNoSession is returned while this node may not work: it has no session, or its last beat is
	// too old.
	ErrNoSession = errors.New("this node has no session in the store now")
	// ErrLost is returned when this node does not own the work any more.
	ErrLost = errors.New("this node does not do this work any more")
)

// Work is a work that this node owns, or did when it was read or written last. Only one goroutine
// may use it at a time.
type Work struct {
	Owner
	// State is what the work keeps in its document, as JSON; nil before the first write.
	State json.RawMessage

	terms *Terms
	in    place
	doc   persist.Document
}

// Key returns the key of the work's document.
func (w *Work) Key() string { return w.doc.Key }

// Body is that of a work's document, for packages that read or create documents themselves.
type Body struct {
	Owner
	State json.RawMessage `json:"state,omitempty"`
}

// Take makes this node the owner of a work, and returns the work. If there is no document, Take
// creates it. If this node owns the work already, the term stays: the caller must not do one work
// twice at a time. Errors are [ErrTaken], [ErrNoSession] and those of the store. After an error of
// the store the node may own the work nevertheless: another Take finds out.
func (t *Terms) Take(ctx context.Context, kind, key string) (*Work, error) {
	w, err := t.read(ctx, t.works, kind, key)
	if err != nil {
		return nil, err
	}
	return w, w.take(ctx)
}

// read reads a work, whoever owns it.
func (t *Terms) read(ctx context.Context, in place, kind, key string) (*Work, error) {
	var b Body
	doc, err := in.readBody(ctx, kind, key, &b)
	if err != nil {
		return nil, err
	}
	return &Work{Owner: b.Owner, State: b.State, terms: t, in: in, doc: doc}, nil
}

// take makes this node the owner of a work that was just read. It changes nothing if the node owns
// it.
func (w *Work) take(ctx context.Context) error {
	t := w.terms
	s, ok := t.own()
	if !ok {
		return ErrNoSession
	}
	if w.Session == s.key {
		return nil
	}
	dead, err := t.Gone(ctx, w.Session)
	if err != nil {
		return err
	}
	next, ok := w.taken(s.key, dead)
	if !ok || !t.settled() {
		return ErrTaken
	}
	err = w.put(ctx, s.fence, next, w.State, w.doc.Expires)
	if persist.Overtaken(err) {
		return ErrTaken
	}
	return err
}

// settled reports whether this node has watched for long enough to take anything: see
// [watch.settled].
func (t *Terms) settled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.opts.Shared || t.watch.settled(t.opts.Clock())
}

// Gone reports whether a session is dead: its document is not where this node's is, so it never
// works again. "" is the session of nobody.
func (t *Terms) Gone(ctx context.Context, key string) (bool, error) {
	if key == "" || !t.opts.Shared { // if the store is not shared, it is that of an earlier process
		return true, nil
	}
	_, err := t.readSession(ctx, key)
	if errors.Is(err, persist.ErrNotFound) {
		err = t.here(ctx)
		return err == nil, err
	}
	return false, err
}

// Write writes the state of the work. expires is when the document is due, in ms since the Unix
// epoch, 0 for never: see [persist.Documents].Due. Write returns [ErrNoSession] or [ErrLost] if
// this node may not write, or an error of the store. After any error except ErrNoSession the state
// may be written nevertheless, and the work must be taken again.
func (w *Work) Write(ctx context.Context, state json.RawMessage, expires int64) error {
	return w.write(ctx, w.Owner, state, expires)
}

// Release writes the state for the last time, and lets others take the work at once.
func (w *Work) Release(ctx context.Context, state json.RawMessage, expires int64) error {
	return w.write(ctx, Owner{Term: w.Term}, state, expires)
}

// write is K4, fence: it replaces the revision in which w.Owner owns the work, under the fence of
// the store that the session began under. So the store refuses the write, however late it arrives,
// if another session has taken the work, or after a failover that may have lost a take.
func (w *Work) write(ctx context.Context, next Owner, state json.RawMessage, expires int64) error {
	s, ok := w.terms.own()
	switch {
	case sabotage.Off(sabotage.TermFence):
		if now, err := w.terms.read(ctx, w.in, w.doc.Kind, w.doc.Key); err == nil {
			w.doc = now.doc
		}
		s.fence, _ = w.terms.fence(ctx)
	case s.key != w.Session:
		return ErrLost
	case !ok:
		return ErrNoSession
	}
	err := w.put(ctx, s.fence, next, state, expires)
	if persist.Overtaken(err) || errors.Is(err, persist.ErrNotFound) || errors.Is(err, persist.ErrFailedOver) {
		return ErrLost
	}
	return err
}

// put writes the next revision of the work's document, under a fence of the store.
func (w *Work) put(ctx context.Context, fence string, owner Owner, state json.RawMessage, expires int64) error {
	next := w.doc
	next.Expires = expires
	next, err := w.terms.putBody(ctx, w.in, next, Body{owner, state}, fence)
	if err == nil {
		w.doc, w.Owner, w.State = next, owner, state
	}
	return err
}
