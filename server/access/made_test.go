package access_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/access"
)

// made returns who has the secrets that somebody has made, or what was revoked.
func made(t *testing.T, of func() ([]access.Made, error)) (list []string) {
	t.Helper()
	all := must.Get(of())(t)
	for _, m := range all {
		list = append(list, fmt.Sprint(m.Token, " ", m.Deleted))
	}
	return list
}

// Whoever has had the secret of an administrator may have made tokens, secrets of other tokens, and
// more with those. All of it is found and revoked after that token was deleted, and nothing else.
func TestRevokeMade(t *testing.T) {
	must.Code(t, must.Err(access.New(access.Options{Now: time.Now}).Made(t.Context(), "boss")), seqd.CodeStarting)
	store := &documents{Documents: newStore()}
	tokens := newTokens(t, store, token("ops", "ops-secret", "admin"))
	as := func(secret string) string {
		who := must.Get(tokens.Allow(header(secret), "", ""))(t)
		return who.Owner
	}
	create := func(name, by string) string {
		t.Helper()
		_, secret, err := tokens.Create(t.Context(), want(name, "admin"), by)
		must.Do(t, err)
		return secret
	}
	shop := create("shop", as("ops-secret"))
	boss := create("boss", as("ops-secret"))
	child := create("child", as(boss))
	grandchild := create("grandchild", as(child))
	guest := create("guest", access.Nobody)
	var added string
	for range 2 {
		var err error
		_, added, err = tokens.AddSecret(t.Context(), "shop", as(boss), time.Time{}, anyVersion)
		must.Do(t, err)
	}
	must.Get(tokens.Delete(t.Context(), "boss", anyVersion))(t)
	create("boss", as("ops-secret")) // a name says who it was, whatever its ID is

	listed := made(t, func() ([]access.Made, error) { return tokens.Made(t.Context(), "boss") })
	if want := []string{"child false", "shop false", "shop false"}; !slices.Equal(listed, want) {
		t.Errorf("boss has made %q, want %q", listed, want)
	}
	rivals := 1 // that change a token meanwhile
	store.update = func(ctx context.Context, doc persist.Document) error {
		if rivals--; rivals >= 0 {
			return persist.ErrConflict
		}
		return store.Documents.Update(ctx, doc)
	}
	revoke := func(by string) []string {
		return made(t, func() ([]access.Made, error) { return tokens.RevokeMade(t.Context(), by) })
	}
	if got, want := revoke("boss"), []string{"child true", "shop false", "shop false", "grandchild true"}; !slices.Equal(got, want) {
		t.Errorf("%q was revoked, want %q", got, want)
	}
	if rivals != -3 { // with that of the rival: nothing is written twice
		t.Errorf("%d writes", 1-rivals)
	}
	for secret, want := range map[string]string{shop: "shop", guest: "guest", added: "unauthorized", child: "unauthorized", grandchild: "unauthorized"} {
		if got := ownerOf(tokens, secret); seqd.OwnerName(got) != want {
			t.Errorf("a secret is for %s, want %s", got, want)
		}
	}
	if got := revoke("boss"); len(got) > 0 {
		t.Errorf("%q was revoked again", got)
	}
	if got := revoke(access.Nobody); !slices.Equal(got, []string{"guest true"}) || ownerOf(tokens, shop) == "unauthorized" {
		t.Errorf("%q was revoked", got)
	}
}

// A token that was made while nobody was asked for one is warned of, once for each version, while
// tokens are asked for.
func TestMadeWhileOpen(t *testing.T) {
	store := newStore()
	if _, _, err := newTokens(t, store).Create(t.Context(), want("monitoring", "admin"), access.Nobody); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []bool{false, true} {
		var log strings.Builder
		tokens := access.New(access.Options{Now: time.Now, Asked: asked, Log: slog.New(slog.NewTextHandler(&log, nil))})
		tokens.Use(access.Backing{Documents: store})
		for range 2 {
			must.Do(t, tokens.Reload(t.Context()))
		}
		if got := strings.Count(log.String(), "level=WARN"); (got == 1) != asked || got > 1 || asked && !strings.Contains(log.String(), "monitoring") {
			t.Errorf("asked for tokens %t: %s", asked, &log)
		}
	}
}

// A token of the store that one of the configuration hides is warned of: it is valid once that is
// removed from the configuration.
func TestHiddenToken(t *testing.T) {
	store := newStore()
	here := newTokens(t, store)
	secret := create(t, here, "shop", "read")
	var log strings.Builder
	there := access.New(access.Options{Config: []access.Token{token("shop", "shop-secret", "read")}, Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	there.Use(access.Backing{Documents: store})
	reload := func(warnings int) {
		t.Helper()
		must.Do(t, there.Reload(t.Context()))
		if got := strings.Count(log.String(), "level=WARN"); got != warnings || ownerOf(there, secret) != "unauthorized" {
			t.Errorf("%d warnings, want %d: %s", got, warnings, &log)
		}
	}
	reload(1)
	reload(1)
	must.Get(here.Delete(t.Context(), "shop", anyVersion))(t)
	reload(1)
}
