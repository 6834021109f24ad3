package access_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
)

// Tokens of the configuration that are removed lose their right at once, and others get one.
func TestConfigure(t *testing.T) {
	tokens := newTokens(t, newStore(), token("shop", "a", "issue:*"), token("till", "b", "read"))
	made := create(t, tokens, "made", "read")
	digest := access.DigestOf("a")
	must.Equal(t, tokens.Configure([]access.Token{token("till", "c", "admin"), token("new", "d", "read")}), true, "a name is free")
	for secret, want := range map[string]string{"a": "unauthorized", "b": "unauthorized", "c": "till", "d": "new", made: "made"} {
		must.Equal(t, isFor(tokens, secret), want, "the secret is for")
	}
	_, err := tokens.AllowDigest(&digest, "", "") // as a connection of the Redis protocol does
	wantCode(t, err, seqd.CodeUnauthorized)
	_, err = tokens.Find(&digest) // as a session of the console does
	wantCode(t, err, seqd.CodeUnauthorized)
	wantCode(t, tokens.AllowNamed("shop", access.ScopeIssue, "order"), seqd.CodeUnauthorized)
	_, err = tokens.Get(t.Context(), "shop")
	wantCode(t, err, seqd.CodeNotFound)
	list, _, err := tokens.List(t.Context(), "", 10)
	must.Do(t, err)
	must.Equal(t, len(list), 3, "tokens that are listed")
	_, err = tokens.Change(t.Context(), "new", disable)
	wantCode(t, err, seqd.CodeConflict)
	must.Equal(t, tokens.Configure(nil), true, "names are free")
	must.Equal(t, isFor(tokens, "c"), "unauthorized", "the secret is for")
	must.Equal(t, tokens.Configure(nil), false, "names are free")
	create(t, tokens, "shop", "read")
}

// A token of the store is hidden while the configuration has one of its name.
func TestConfigureHides(t *testing.T) {
	tokens := newTokens(t, newStore())
	secret := create(t, tokens, "shop", "read")
	must.Equal(t, tokens.Configure([]access.Token{token("shop", "a", "admin")}), true, "a token of the store is hidden")
	must.Equal(t, isFor(tokens, secret)+", "+isFor(tokens, "a"), "unauthorized, shop", "the secrets are for")
	must.Equal(t, tokens.Configure(nil), true, "a name is free")
	must.Do(t, tokens.Reload(t.Context()))
	must.Equal(t, isFor(tokens, secret)+", "+isFor(tokens, "a"), "shop, unauthorized", "the secrets are for")
}

// What was read or written before a change of the configuration brings back nothing.
func TestConfigureCrosses(t *testing.T) {
	away := errors.New("away")
	for name, do := range map[string]func(*access.Tokens) error{
		"reload": func(tokens *access.Tokens) error { return tokens.Reload(t.Context()) },
		"apply":  func(tokens *access.Tokens) error { return tokens.Apply(t.Context(), "made") },
		"change": func(tokens *access.Tokens) error { return must.Err(tokens.Change(t.Context(), "made", disable)) },
	} {
		inner := newStore()
		store := &documents{Documents: inner}
		tokens := newTokens(t, store, token("shop", "a", "admin"))
		made := create(t, tokens, "made", "read")
		cross := func() {
			tokens.Configure([]access.Token{token("made", "b", "admin")})
			store.read, store.list, store.update = nil, nil, nil
		}
		store.read = func(ctx context.Context, kind, key string) (persist.Document, error) {
			doc, err := inner.Read(ctx, kind, key)
			if name != "change" {
				cross()
			}
			return doc, err
		}
		store.list = func(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
			docs, err := inner.List(ctx, kind, after, limit)
			cross()
			return docs, err
		}
		store.update = func(ctx context.Context, doc persist.Document) error {
			err := inner.Update(ctx, doc)
			cross()
			store.read = func(context.Context, string, string) (persist.Document, error) { return persist.Document{}, away }
			return err
		}
		must.Do(t, do(tokens))
		must.Equal(t, isFor(tokens, "a")+", "+isFor(tokens, made)+", "+isFor(tokens, "b"), "unauthorized, unauthorized, made", "%s: the secrets are for", name)
	}
}
