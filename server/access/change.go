package access

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/storeclock"
)

// mostAttempts is how often a change is tried if other nodes change the same token.
const mostAttempts = 5

// mostPurged is how many documents of deleted tokens a deletion removes.
const mostPurged = 100

// AddSecret adds a secret to a token of the store, and returns the token and the secret, which it
// does not keep. by is who makes it, and expires may be zero for never. may sees the current token
// and may refuse.
func (t *Tokens) AddSecret(ctx context.Context, name, by string, expires time.Time, may func(*Token) error) (changed Token, secret string, err error) {
	secret, digest := NewSecret()
	changed, err = t.Change(ctx, name, func(token *Token) error {
		if err := may(token); err != nil {
			return err
		}
		if len(token.Secrets) == mostSecrets {
			return seqd.Errorf(seqd.CodeConflict, "the token has %d secrets, the most that are possible: remove one first", mostSecrets)
		}
		token.Secrets = append(slices.Clone(token.Secrets), Secret{Sha256: digest, Made: t.now(), By: by, Expires: expires})
		return nil
	})
	return changed, secret, err
}

// RemoveSecret removes a secret of a token of the store. may sees the current token and may refuse.
func (t *Tokens) RemoveSecret(ctx context.Context, name, id string, may func(*Token) error) (changed Token, err error) {
	return t.Change(ctx, name, func(token *Token) error {
		if err := may(token); err != nil {
			return err
		}
		i := slices.IndexFunc(token.Secrets, func(s Secret) bool { return s.ID() == id })
		if i < 0 {
			return errNoSecret
		}
		if len(token.Secrets) == 1 {
			return seqd.Errorf(seqd.CodeConflict, "it is the only secret of the token: make another one first, or disable or delete the token")
		}
		token.Secrets = slices.Delete(slices.Clone(token.Secrets), i, i+1)
		return nil
	})
}

// Change calls edit to change scopes, expiry and enabled of a token of the store. edit sees the
// current token and may refuse. It is called again if another node changed the token meanwhile.
func (t *Tokens) Change(ctx context.Context, name string, edit func(*Token) error) (changed Token, err error) {
	if _, fixed := t.fixed(name); fixed {
		return changed, errFixed
	}
	err = t.attempts(ctx, name, edit, func(store persist.Documents, token Token) (to *Token, err error) {
		to, err = t.update(ctx, store, &token)
		changed = token
		return to, err
	})
	if err != nil {
		return Token{}, err
	}
	return changed, nil
}

// update writes the next revision of a token, and returns what memory has then.
func (t *Tokens) update(ctx context.Context, store persist.Documents, token *Token) (*Token, error) {
	token.Revision++
	token.Updated = t.now()
	doc := documentOf(*token)
	return t.memoryOf(doc), store.Update(ctx, doc)
}

// Delete removes a token of the store and returns it. It calls may with the current token; an error
// of may keeps the token.
func (t *Tokens) Delete(ctx context.Context, name string, may func(*Token) error) (removed Token, err error) {
	if _, fixed := t.fixed(name); fixed {
		return removed, errFixed
	}
	err = t.attempts(ctx, name, may, func(store persist.Documents, token Token) (*Token, error) {
		removed = token
		return nil, t.remove(ctx, store, &token)
	})
	if err != nil {
		return Token{}, err
	}
	return removed, nil
}

// remove deletes a token.
func (t *Tokens) remove(ctx context.Context, store persist.Documents, token *Token) error {
	now, backing := t.now(), t.backing.Load()
	latest := now.UnixMilli()
	if backing.Clock != nil {
		times, err := backing.Clock.Times(ctx)
		if err != nil {
			return err
		}
		latest = times.Latest
	}
	if err := store.Update(ctx, goneOf(*token, now, latest)); err != nil {
		return err
	}
	if backing.Clock != nil {
		_ = purge(ctx, store, backing.Clock) // the next deletion tries again
	}
	return nil
}

// purge removes what earlier deletions left, unless the clock may be ahead.
func purge(ctx context.Context, store persist.Documents, clock *storeclock.Clock) error {
	before, ok, err := clock.Past(ctx, store)
	if ok {
		_, err = store.Purge(ctx, Kind, before, mostPurged)
	}
	return err
}

// attempts reads a token, calls edit, and writes: see [Tokens.write]. It starts again if another
// node wrote first.
func (t *Tokens) attempts(ctx context.Context, name string, edit func(*Token) error, write func(persist.Documents, Token) (*Token, error)) error {
	for range mostAttempts {
		store, err := t.documents()
		if err != nil {
			return err
		}
		token, err := get(ctx, store, name)
		if err != nil {
			return err
		}
		if err := edit(&token); err != nil {
			return err
		}
		if err := check(token); err != nil {
			return err
		}
		err = t.write(ctx, name, func(store persist.Documents) (*Token, error) { return write(store, token) })
		switch {
		case err == nil:
			return nil
		case errors.Is(err, persist.ErrNotFound):
			return errNotFound
		case !errors.Is(err, persist.ErrConflict):
			return unwritten(err)
		}
	}
	return seqd.Errorf(seqd.CodeConflict, "other nodes keep changing the token; try again")
}

// write announces a change, makes it, and publishes it. change returns what memory has then, nil
// for none.
func (t *Tokens) write(ctx context.Context, name string, change func(persist.Documents) (*Token, error)) error {
	if _, err := t.documents(); err != nil {
		return err
	}
	b := t.backing.Load()
	if err := b.announce(ctx, name); err != nil {
		return unavailable(err)
	}
	began := t.memory.begin()
	to, err := change(b.Documents)
	// If something else was read meanwhile, it may be older or newer than what was written.
	if err == nil && !t.memory.settle(name, began, to) && t.Apply(context.WithoutCancel(ctx), name) != nil {
		t.memory.settle(name, t.memory.begin(), to)
	}
	if !persist.Overtaken(err) && !errors.Is(err, persist.ErrNotFound) {
		b.publish(ctx, name)
	}
	return err
}
