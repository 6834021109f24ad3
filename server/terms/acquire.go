package terms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd/persist"
)

// ErrNoPermit is returned when no permit is free.
var ErrNoPermit = errors.New("no permit is free")

// Permit is one that this node holds until it frees it, or until its session ends: see
// [Terms.Session].
type Permit struct {
	// Slot is its number, from 0 to one less than there are permits.
	Slot int

	terms                    *Terms
	kind, key, session, name string
}

// Acquire gets one of a number of permits, which a document records, for what has a name. A session
// gets one for each name, however often it asks. Errors are [ErrNoPermit], [ErrNoSession] and those
// of the store, after which it may be held nevertheless.
func (t *Terms) Acquire(ctx context.Context, kind, key, name string, most int) (*Permit, error) {
	s, ok := t.own()
	switch {
	case !ok:
		return nil, ErrNoSession
	case !t.settled():
		return nil, ErrNoPermit
	}
	p := &Permit{terms: t, kind: kind, key: key, session: s.key, name: name}
	return p, p.change(ctx, func(before Permits) (next Permits, err error) {
		dead := make(map[string]bool)
		for _, h := range before.Holders {
			if len(before.Holders) >= most && h.Session != s.key && !dead[h.Session] {
				if dead[h.Session], err = t.gone(ctx, h.Session); err != nil {
					return next, err
				}
			}
		}
		if next, p.Slot, ok = before.take(s.key, name, most, func(session string) bool { return dead[session] }); !ok {
			return next, ErrNoPermit
		}
		return next, nil
	})
}

// StandBy is Acquire that waits until a permit is free, or until ctx ends.
func (t *Terms) StandBy(ctx context.Context, kind, key, name string, most int) (*Permit, error) {
	for {
		p, err := t.Acquire(ctx, kind, key, name, most)
		if !errors.Is(err, ErrNoPermit) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(beatPause):
		}
	}
}

// Free gives the permit back. After an error it may be free or not, and Free can be called again.
func (p *Permit) Free(ctx context.Context) error {
	err := p.change(ctx, func(before Permits) (Permits, error) {
		next, held := before.free(p.session, p.name)
		if !held {
			return next, errNothing
		}
		return next, nil
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}

// errNothing is why nothing is written.
var errNothing = errors.New("nothing changes")

// change changes the permits by compare-and-set, again if another node was first.
func (p *Permit) change(ctx context.Context, to func(Permits) (Permits, error)) error {
	t := p.terms
	for {
		s, ok := t.own()
		if !ok || s.key != p.session {
			return ErrNoSession
		}
		var before Permits
		doc, err := t.opts.Documents.Read(ctx, p.kind, p.key)
		switch {
		case errors.Is(err, persist.ErrNotFound):
			doc = persist.Document{Kind: p.kind, Key: p.key}
		case err != nil:
			return err
		default:
			if err = json.Unmarshal([]byte(doc.Body), &before); err != nil {
				return fmt.Errorf("%w: %s is damaged: %w", persist.ErrInvalid, doc.PersistID(), err)
			}
		}
		next, err := to(before)
		if err != nil {
			return err
		}
		text, err := json.Marshal(next)
		if err != nil {
			return err
		}
		doc.Revision, doc.Body, doc.Timestamp = doc.Revision+1, string(text), t.opts.Now().UnixMilli()
		if err = t.put(ctx, doc, s.fence); !persist.Overtaken(err) {
			return err
		}
	}
}
