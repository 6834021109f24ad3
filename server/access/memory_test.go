package access_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
)

// If something else is read between a reading and what it does to memory, nobody knows which is
// newer. So the store is read once more.
func TestReadingsCross(t *testing.T) {
	for name, follow := range map[string]func(context.Context, *access.Tokens) error{
		"apply":  func(ctx context.Context, by *access.Tokens) error { return by.Apply(ctx, "shop") },
		"reload": func(ctx context.Context, by *access.Tokens) error { return by.Reload(ctx) },
	} {
		inner := newStore()
		store := &documents{Documents: inner}
		tokens, other := newTokens(t, store), newTokens(t, inner)
		secret := create(t, tokens, "shop", "read")
		crossed := false
		cross := func() {
			if crossed {
				return
			}
			crossed = true
			if err := follow(t.Context(), tokens); err != nil { // it still finds the token enabled
				t.Error(err)
			}
			must.Report(t, must.Err(other.Change(t.Context(), "shop", disable)))
		}
		store.read = func(ctx context.Context, kind, name string) (persist.Document, error) {
			cross()
			return inner.Read(ctx, kind, name)
		}
		store.list = func(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
			cross()
			return inner.List(ctx, kind, after, limit)
		}
		if err := follow(t.Context(), tokens); err != nil || isFor(tokens, secret) != "unauthorized" {
			t.Errorf("%s: %v, and the token is for %s", name, err, isFor(tokens, secret))
		}
	}
}

// What changes while all tokens are read counts at once, also if it cannot be read again.
func TestReloadKeepsChanges(t *testing.T) {
	inner := newStore()
	store := &documents{Documents: inner}
	tokens := newTokens(t, store)
	shop := create(t, tokens, "shop", "read")
	away := errors.New("away")
	for _, changes := range []int{1, 1200} {
		var fresh string
		store.list = func(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
			store.list = nil
			docs, err := inner.List(ctx, kind, after, limit)
			for i := range changes { // of 1200, memory does not know all names
				fresh = create(t, tokens, fmt.Sprintf("fresh%d-%d", changes, i), "read")
			}
			if changes == 1 {
				must.Report(t, must.Err(tokens.Change(ctx, "shop", disable)))
			}
			store.read = func(context.Context, string, string) (persist.Document, error) { return persist.Document{}, away }
			return docs, err
		}
		err := tokens.Reload(t.Context())
		store.read = nil
		if changes == 1 && !errors.Is(err, away) || changes > 1 && err != nil {
			t.Errorf("%d changes: %v", changes, err)
		}
		if a, b := isFor(tokens, shop), isFor(tokens, fresh); a != "unauthorized" || b == "unauthorized" {
			t.Errorf("%d changes: the secrets are for %s and %s", changes, a, b)
		}
	}
}
