package access_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
)

func anyVersion(*access.Token) error { return nil }

// ownerOf returns the owner that a secret stands for, as stores see it, or the code of the error.
func ownerOf(tokens *access.Tokens, secret string) string {
	who, err := tokens.Allow(header(secret), "", "")
	if err != nil {
		return string(seqd.CodeOf(err))
	}
	c := seqd.Caller{Name: who.Name, Owner: who.Owner}
	return c.OwnerID()
}

// A caller gets a new secret before the old one is removed, and owns what it made with either.
func TestRotation(t *testing.T) {
	tokens := newTokens(t, newStore())
	old := create(t, tokens, "shop", "read")
	owner := ownerOf(tokens, old)
	if owner == "shop" || seqd.OwnerName(owner) != "shop" {
		t.Errorf("the owner is %s", owner)
	}
	added, fresh, err := tokens.AddSecret(t.Context(), "shop", "", time.Time{}, anyVersion)
	if err != nil || added.Revision != 2 || len(added.Secrets) != 2 || !added.Secrets[1].Made.Equal(begin) {
		t.Fatalf("%+v, %v", added, err)
	}
	for _, secret := range []string{old, fresh} {
		must.Equal(t, ownerOf(tokens, secret), owner, "the owner")
	}
	_, err = tokens.RemoveSecret(t.Context(), "shop", "0123456789ab", anyVersion)
	wantCode(t, err, seqd.CodeNotFound)
	if _, err = tokens.RemoveSecret(t.Context(), "shop", added.Secrets[0].ID(), anyVersion); err != nil {
		t.Fatal(err)
	}
	if a, b := ownerOf(tokens, old), ownerOf(tokens, fresh); a != "unauthorized" || b != owner {
		t.Errorf("the old secret is for %s, the new one for %s", a, b)
	}
	_, err = tokens.RemoveSecret(t.Context(), "shop", added.Secrets[1].ID(), anyVersion)
	wantCode(t, err, seqd.CodeConflict) // it is the last one
	refuse := seqd.Errorf(seqd.CodePreconditionFailed, "another version")
	_, _, err = tokens.AddSecret(t.Context(), "shop", "", time.Time{}, func(*access.Token) error { return refuse })
	wantCode(t, err, seqd.CodePreconditionFailed)
	_, err = tokens.RemoveSecret(t.Context(), "shop", added.Secrets[1].ID(), func(*access.Token) error { return refuse })
	wantCode(t, err, seqd.CodePreconditionFailed)
	for range 9 {
		if _, _, err := tokens.AddSecret(t.Context(), "shop", "", time.Time{}, anyVersion); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err = tokens.AddSecret(t.Context(), "shop", "", time.Time{}, anyVersion)
	wantCode(t, err, seqd.CodeConflict)

	// A name that is created again is another owner.
	must.Get(tokens.Delete(t.Context(), "shop", anyVersion))(t)
	if got := ownerOf(tokens, create(t, tokens, "shop", "read")); got == owner || seqd.OwnerName(got) != "shop" {
		t.Errorf("the owner is %s", got)
	}
}

// The name is the owner for tokens of the configuration, and of earlier versions. A token can own
// what was made while nobody was asked for a token.
func TestOwners(t *testing.T) {
	store := newStore()
	doc := persist.Document{Kind: access.Kind, Key: "old", Revision: 1, Body: `{"sha256":"` + access.DigestOf("old-secret").Hex() + `","scopes":["read"],"enabled":true}`}
	must.Do(t, store.Create(t.Context(), doc))
	heir := token("heir", "heir-secret", "read")
	heir.OwnsOpen = true
	tokens := newTokens(t, store, token("fixed", "fixed-secret", "read"), heir)
	first, secret, err := tokens.Create(t.Context(), access.Token{Name: "first", Scopes: []string{"read"}, Enabled: true, OwnsOpen: true}, "")
	if err != nil || !first.OwnsOpen {
		t.Fatalf("%+v, %v", first, err)
	}
	for secret, want := range map[string]string{"old-secret": "old", "fixed-secret": "fixed", "heir-secret": "", secret: ""} {
		must.Equal(t, ownerOf(tokens, secret), want, "the owner")
	}
	_, _, err = tokens.AddSecret(t.Context(), "fixed", "", time.Time{}, anyVersion)
	wantCode(t, err, seqd.CodeConflict)
	// What a caller may see tells nothing of a secret that people made up.
	fixed, err := tokens.Get(t.Context(), "fixed")
	if id := fixed.SecretID(0); err != nil || id != "000000000001" || first.SecretID(0) != first.Secrets[0].ID() {
		t.Errorf("the IDs are %s and %s, %v", id, first.SecretID(0), err)
	}
	// Nodes of that version can read it until it gets another secret.
	must.Get(tokens.Change(t.Context(), "old", func(token *access.Token) error { token.Scopes = []string{"admin"}; return nil }))(t)
	want := `{"sha256":"` + access.DigestOf("old-secret").Hex() + `","scopes":["admin"],"enabled":true}`
	must.Equal(t, must.Get(store.Read(t.Context(), access.Kind, "old"))(t).Body, want)
	// A token of an earlier version keeps its owner when its secret changes.
	if _, secret, err = tokens.AddSecret(t.Context(), "old", "", time.Time{}, anyVersion); err != nil || ownerOf(tokens, secret) != "old" {
		t.Errorf("%v: the owner is %q", err, ownerOf(tokens, secret))
	}
}

// The earlier expiry of a token and a secret counts, on every node.
func TestSecretExpires(t *testing.T) {
	store, now := newStore(), begin
	hour := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Hour) }
	made := func(name string, token, secret time.Time) string {
		here := newTokens(t, store)
		if _, _, err := here.Create(t.Context(), access.Token{Name: name, Scopes: []string{"read"}, Enabled: true, Expires: token}, ""); err != nil {
			t.Fatal(err)
		}
		_, text, err := here.AddSecret(t.Context(), name, "", secret, anyVersion)
		must.Do(t, err)
		return text
	}
	for _, test := range []struct {
		name                string
		token, secret, want time.Time
	}{
		{"none", time.Time{}, time.Time{}, time.Time{}},
		{"the token", hour(1), time.Time{}, hour(1)},
		{"the secret", time.Time{}, hour(1), hour(1)},
		{"the secret first", hour(2), hour(1), hour(1)},
		{"the token first", hour(1), hour(2), hour(1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			now = begin
			secret := made(strings.ReplaceAll(test.name, " ", "-"), test.token, test.secret)
			there := access.New(access.Options{Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
			there.Use(access.Backing{Documents: store})
			must.Do(t, there.Reload(t.Context()))
			digest := access.DigestOf(secret)
			if found, err := there.Find(&digest); err != nil || !found.Expires.Equal(test.want) {
				t.Errorf("it is found to expire at %s, %v, want %s", found.Expires, err, test.want)
			}
			if test.want.IsZero() {
				return
			}
			now = test.want.Add(-time.Millisecond)
			_, before := there.Allow(header(secret), "", "")
			now = test.want
			_, after := there.Allow(header(secret), "", "")
			if before != nil || seqd.CodeOf(after) != seqd.CodeUnauthorized {
				t.Errorf("before: %v, after: %v", before, after)
			}
		})
	}
}

// A name that is deleted and created again elsewhere, while a node changes the token or before
// somebody changes the version that they saw, keeps its new secret, and the old one stays revoked.
func TestRecreatedMeanwhile(t *testing.T) {
	store := newStore()
	here, there := newTokens(t, store), newTokens(t, store)
	old := create(t, here, "shop", "read")
	var fresh string
	seen := int64(0)
	changed, err := here.Change(t.Context(), "shop", func(token *access.Token) error {
		if fresh == "" {
			seen = token.Revision
			must.Get(there.Delete(t.Context(), "shop", anyVersion))(t)
			fresh = create(t, there, "shop", "read")
		}
		token.Scopes = []string{"admin"}
		return nil
	})
	if err != nil || changed.Revision == seen+1 {
		t.Errorf("%+v, %v", changed, err)
	}
	for _, node := range []*access.Tokens{here, there} {
		must.Do(t, node.Reload(t.Context()))
		if a, b := ownerOf(node, old), ownerOf(node, fresh); a != "unauthorized" || seqd.OwnerName(b) != "shop" {
			t.Errorf("the old secret is for %s, the new one for %s", a, b)
		}
	}
	// What was deleted is nowhere, and can be created.
	must.Get(here.Delete(t.Context(), "shop", anyVersion))(t)
	_, err = there.Get(t.Context(), "shop")
	wantCode(t, err, seqd.CodeNotFound)
	_, err = there.Delete(t.Context(), "shop", anyVersion)
	wantCode(t, err, seqd.CodeNotFound)
	if list, more, err := there.List(t.Context(), "", 1); len(list) > 0 || more || err != nil {
		t.Errorf("%v, %t, %v", list, more, err)
	}
	create(t, there, "shop", "read")
	_, _, err = here.Create(t.Context(), access.Token{Name: "shop", Scopes: []string{"read"}}, "")
	wantCode(t, err, seqd.CodeConflict)
}
