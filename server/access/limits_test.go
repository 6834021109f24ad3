package access_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
)

// TestExpiryIsKept checks that a token of the store expires on every node when its document says.
func TestExpiryIsKept(t *testing.T) {
	store := newStore()
	here := newTokens(t, store)
	end := begin.Add(time.Hour + 123*time.Millisecond)
	made, secret, err := here.Create(t.Context(), access.Token{Name: "shop", Scopes: []string{"read"}, Enabled: true, Expires: end}, "")
	if err != nil || !made.Expires.Equal(end) {
		t.Fatalf("made %+v, %v", made, err)
	}
	now := begin
	there := access.New(access.Options{Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
	there.Use(access.Backing{Documents: store})
	must.Do(t, there.Reload(t.Context()))
	if got, err := there.Get(t.Context(), "shop"); err != nil || !got.Expires.Equal(end) {
		t.Errorf("expires at %s, want %s, %v", got.Expires, end, err)
	}
	for at, want := range map[time.Time]string{end.Add(-time.Millisecond): "shop", end: "unauthorized"} {
		now = at
		must.Equal(t, isFor(there, secret), want, "at %s it is for", at)
	}
}

func TestExpiryText(t *testing.T) {
	for text, want := range map[string]string{
		"2027-01-31T00:00:00Z":              "2027-01-31T00:00:00Z",
		"2027-01-31T01:00:00.1239999+01:00": "2027-01-31T00:00:00.123Z",
		"1971-01-01T00:00:00Z":              "1971-01-01T00:00:00Z",
		"9999-12-31T23:59:59Z":              "9999-12-31T23:59:59Z",
		"1970-12-31T23:59:59Z":              "",
		"1971-01-01T00:30:00+01:00":         "",
		"9999-12-31T23:30:00-01:00":         "",
		"0001-01-01T00:00:00Z":              "",
		"2027-01-31":                        "",
		"":                                  "",
	} {
		var e access.Expiry
		if err := e.UnmarshalText([]byte(text)); (err != nil) != (want == "") {
			t.Errorf("%s: %v", text, err)
		} else if err == nil && e.Format(time.RFC3339Nano) != want {
			t.Errorf("%s was read as %s, want %s", text, e.Format(time.RFC3339Nano), want)
		}
	}
}

func TestDigestOfSecret(t *testing.T) {
	for secret, want := range map[string]bool{
		"": false, " ": false, "a b": false, "a\n": false, "\x7f": false, "é": false,
		"!": true, "~": true, strings.Repeat("x", 256): true, strings.Repeat("x", 257): false,
	} {
		digest, ok := access.DigestOfSecret(secret)
		if ok != want || ok && digest != access.DigestOf(secret) {
			t.Errorf("%.10q of %d bytes: %v", secret, len(secret), ok)
		}
		if who, err := newTokens(t, newStore(), token("shop", "~", "read")).AllowDigest(&digest, "", ""); (err == nil) != (secret == "~") || who.Name == "shop" != (err == nil) {
			t.Errorf("%.10q is for %q, %v", secret, who.Name, err)
		}
	}
}

func TestMostScopes(t *testing.T) {
	tokens := newTokens(t, newStore())
	for n, code := range map[int]seqd.Code{0: seqd.CodeInvalidRequest, 1: "", 100: "", 101: seqd.CodeInvalidRequest} {
		scopes := make([]string, n)
		for i := range scopes {
			scopes[i] = fmt.Sprintf("issue:b%d", i)
		}
		_, _, err := tokens.Create(t.Context(), want(fmt.Sprintf("t%d", n), scopes...), "")
		wantCode(t, err, code)
	}
	_, _, err := tokens.Create(t.Context(), want("a/b", "read"), "")
	wantCode(t, err, seqd.CodeInvalidRequest)
	for n := 1; err == nil || n == 1; n++ {
		if _, _, err = tokens.AddSecret(t.Context(), "t1", "", time.Time{}, anyone); n > 100 {
			t.Fatal("a token can have any number of secrets")
		}
	}
	wantCode(t, err, seqd.CodeConflict)
}

// TestListOfOddDocuments checks that a page is full and says whether there is more, although the
// store has documents in between that cannot be read.
func TestListOfOddDocuments(t *testing.T) {
	store := newStore()
	tokens := newTokens(t, store)
	create(t, tokens, "a", "read")
	create(t, tokens, "m", "read")
	create(t, tokens, "z", "read")
	for i := range 7 {
		must.Do(t, store.Create(t.Context(), persist.Document{Kind: access.Kind, Key: fmt.Sprintf("b%d", i), Revision: 1, Body: "odd"}))
	}
	for limit := range 5 {
		list, more, err := tokens.List(t.Context(), "", limit)
		if err != nil || len(list) != min(limit, 3) || more != (limit < 3) {
			t.Errorf("limit %d: %d tokens, more %v, %v", limit, len(list), more, err)
		}
	}
	if list, more, err := tokens.List(t.Context(), "a", 2); err != nil || len(list) != 2 || list[0].Name != "m" || list[1].Name != "z" || more {
		t.Errorf("after a: %v, more %v, %v", list, more, err)
	}
}

// TestOnlyChangesArePublished checks that other nodes are told nothing of a write that was not
// made.
func TestOnlyChangesArePublished(t *testing.T) {
	inner := newStore()
	store := &documents{Documents: inner}
	published := 0
	tokens := access.New(access.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	tokens.Use(access.Backing{Documents: store, Publish: func(ctx context.Context, _, _ string) { published++ }})
	must.Do(t, tokens.Reload(t.Context()))
	create(t, tokens, "shop", "read")
	if published != 1 {
		t.Errorf("published %d times", published)
	}
	store.update = func(context.Context, persist.Document) error { return persist.ErrConflict }
	_, _, err := tokens.Create(t.Context(), want("shop", "read"), "")
	wantCode(t, err, seqd.CodeConflict)
	_, err = tokens.Change(t.Context(), "shop", disable)
	wantCode(t, err, seqd.CodeConflict)
	store.update = func(context.Context, persist.Document) error { return persist.ErrNotFound }
	_, err = tokens.Delete(t.Context(), "shop", anyone)
	wantCode(t, err, seqd.CodeNotFound)
	if published != 1 {
		t.Errorf("published %d times", published)
	}
}

// TestPublishOutlivesItsCaller checks that other nodes are told of a change although its caller has
// gone.
func TestPublishOutlivesItsCaller(t *testing.T) {
	store := &documents{Documents: newStore()}
	tokens := access.New(access.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	published := errors.New("nothing was published")
	tokens.Use(access.Backing{Documents: store, Publish: func(ctx context.Context, _, _ string) { published = ctx.Err() }})
	ctx, cancel := context.WithCancel(t.Context())
	store.create = func(ctx context.Context, doc persist.Document) error {
		defer cancel()
		return store.Documents.Create(ctx, doc)
	}
	if _, _, err := tokens.Create(ctx, want("shop", "read"), ""); err != nil || published != nil {
		t.Errorf("%v, published with %v", err, published)
	}
}

// TestChangeToSomethingInvalid checks that a change that makes a token invalid is refused, and what
// a caller is told who lacks a scope.
func TestChangeToSomethingInvalid(t *testing.T) {
	tokens := newTokens(t, newStore())
	secret := create(t, tokens, "shop", "issue:other")
	_, err := tokens.Change(t.Context(), "shop", func(token *access.Token) error { token.Scopes = nil; return nil })
	wantCode(t, err, seqd.CodeInvalidRequest)
	for _, year := range []int{1970, 10000} {
		at := time.Date(year, 12, 31, 23, 59, 59, 0, time.UTC)
		_, _, err = tokens.AddSecret(t.Context(), "shop", "ops", at, anyVersion)
		wantCode(t, err, seqd.CodeInvalidRequest)
		_, err = tokens.Change(t.Context(), "shop", func(token *access.Token) error { token.Expires = at; return nil })
		wantCode(t, err, seqd.CodeInvalidRequest)
	}
	if got, err := tokens.Get(t.Context(), "shop"); err != nil || len(got.Scopes) != 1 || got.Revision != 1 {
		t.Errorf("it is %+v, %v", got, err)
	}
	for scope, want := range map[string]string{
		access.ScopeIssue: "the token has no scope that allows issue:order", access.ScopeAdmin: "the token does not have the scope admin",
		access.ScopeLease: "the token has no scope that allows lease:order",
	} {
		if _, err := tokens.Allow(header(secret), scope, "order"); seqd.AsError(err).Detail != want {
			t.Errorf("%s: %v, want %s", scope, err, want)
		}
	}
}
