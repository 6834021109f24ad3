package terms

import (
	"context"
	"errors"

	"github.com/seqd/seqd/persist"
)

// ErrNoPermit is returned when no permit is free.
var ErrNoPermit = errors.New("no permit is free")

// Permit is a permit that this node holds until it calls Free, or until its session ends: see
// [Terms.Session].
type Permit struct {
	// Slot is the number of the permit, from 0 to one less than there are permits.
	Slot int

	terms                    *Terms
	kind, key, session, name string
}

// Acquire gets one of at most most permits, which the document of this kind and key records. name
// says what the permit is for: a session gets one for each name, however often it asks. Errors are
// [ErrNoPermit], [ErrNoSession] and those of the store. After an error of the store the session may
// hold the permit nevertheless, and it may not be the session that needs it next. So uses reports
// whether the caller uses the permit that it holds for another name: Acquire frees the others. If uses
// is nil, it uses all.
func (t *Terms) Acquire(ctx context.Context, kind, key, name string, most int, uses func(name string) bool) (*Permit, error) {
	if uses == nil {
		uses = func(string) bool { return true }
	}
	s, ok := t.own()
	switch {
	case !ok:
		return nil, ErrNoSession
	case !t.settled():
		return nil, ErrNoPermit
	}
	p := &Permit{terms: t, kind: kind, key: key, session: s.key, name: name}
	return p, p.change(ctx, func(before Permits) (next Permits, err error) {
		if err := t.here(ctx); err != nil {
			return next, err
		}
		dead := make(map[string]bool) // asked for only if all permits are held
		for _, h := range before.Holders {
			if len(before.Holders) >= most && h.Session != s.key && !dead[h.Session] {
				if dead[h.Session], err = t.Gone(ctx, h.Session); err != nil {
					return next, err
				}
			}
		}
		if next, p.Slot, ok = before.take(s.key, name, most, func(session string) bool { return dead[session] }, uses); !ok {
			return next, ErrNoPermit
		}
		return next, nil
	})
}

// Free gives the permit back. It returns nil too if the session that held it is over: then others
// free it. After an error it may be free or not, and Free must be called again.
func (p *Permit) Free(ctx context.Context) error {
	if key, _, _ := p.terms.Session(); key != p.session {
		return nil
	}
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

// errNothing lets change return without a write.
var errNothing = errors.New("nothing changes")

// change writes what to returns for the present permits, by compare-and-set. If another node was
// first, it calls to again.
func (p *Permit) change(ctx context.Context, to func(Permits) (Permits, error)) error {
	t := p.terms
	for {
		s, ok := t.own()
		if !ok || s.key != p.session {
			return ErrNoSession
		}
		var before Permits
		doc, err := t.coord.readBody(ctx, p.kind, p.key, &before)
		if err != nil {
			return err
		}
		next, err := to(before)
		if err != nil {
			return err
		}
		if _, err = t.putBody(ctx, t.coord, doc, next, s.fence); !persist.Overtaken(err) {
			return err
		}
	}
}
