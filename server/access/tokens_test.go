package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/persist/storeclock"
	"github.com/seqd/seqd/server/access"
)

// want is a valid token except for its digest.
func want(name string, scopes ...string) access.Token {
	return access.Token{Name: name, Scopes: scopes, Enabled: true}
}

func create(t *testing.T, tokens *access.Tokens, name string, scopes ...string) (secret string) {
	t.Helper()
	_, secret, err := tokens.Create(t.Context(), want(name, scopes...), "")
	must.Do(t, err)
	return secret
}

func isFor(tokens *access.Tokens, secret string) string {
	who, err := tokens.Allow(header(secret), "", "")
	digest, _ := access.DigestOfSecret(secret)
	if found, otherwise := tokens.Find(&digest); found.Name != who.Name || seqd.CodeOf(otherwise) != seqd.CodeOf(err) {
		return "another: " + found.Name
	}
	if err != nil {
		return string(seqd.CodeOf(err))
	}
	return who.Name
}

func disable(token *access.Token) error { token.Enabled = false; return nil }

func anyone(*access.Token) error { return nil }

// TestLife creates, changes and deletes a token, and checks what the node that does so and another
// node see.
func TestLife(t *testing.T) {
	store := newStore()
	here, there := newTokens(t, store), newTokens(t, store)
	secret := create(t, here, "shop", "issue:order*", "read")
	if got := isFor(here, secret); got != "shop" {
		t.Fatalf("created, and it is for %s", got)
	}
	follow := func(step, want string) {
		t.Helper()
		must.Do(t, there.Apply(t.Context(), "shop"))
		if a, b := isFor(here, secret), isFor(there, secret); a != want || b != want {
			t.Errorf("%s: it is for %q here and %q there, want %q", step, a, b, want)
		}
	}
	must.Equal(t, isFor(there, secret), "unauthorized", "before it was told of, it is for")
	follow("created", "shop")
	got, err := there.Get(t.Context(), "shop")
	if err != nil || got.Revision != 1 || !got.Updated.Equal(begin) || got.Source != access.FromAPI || got.Secrets[0].Sha256 != access.DigestOf(secret) || !got.Enabled {
		t.Errorf("got %+v, %v", got, err)
	}

	changed, err := here.Change(t.Context(), "shop", disable)
	if err != nil || changed.Revision != 2 || changed.Enabled {
		t.Fatalf("changed to %+v, %v", changed, err)
	}
	follow("disabled", "unauthorized")
	must.Get(here.Change(t.Context(), "shop", func(token *access.Token) error {
		token.Enabled, token.Scopes, token.Expires = true, []string{"admin"}, begin.Add(time.Hour)
		return nil
	}))(t)
	follow("enabled", "shop")
	must.Report(t, must.Err(there.Allow(header(secret), access.ScopeAdmin, "")))
	_, err = there.Allow(header(secret), access.ScopeIssue, "order")
	wantCode(t, err, seqd.CodeForbidden)

	removed, err := here.Delete(t.Context(), "shop", anyone)
	if err != nil || removed.Revision != 3 {
		t.Fatalf("removed %+v, %v", removed, err)
	}
	follow("removed", "unauthorized")
	_, err = here.Get(t.Context(), "shop")
	wantCode(t, err, seqd.CodeNotFound)

	fresh, again, err := here.Create(t.Context(), want("shop", "read"), "")
	follow("created again", "unauthorized")
	if err != nil || isFor(there, again) != "shop" || again == secret {
		t.Errorf("the new secret is not for it: %v", err)
	}
	if got, err := there.Get(t.Context(), "shop"); err != nil || got.Revision != 5 || fresh.Revision != 5 {
		t.Errorf("created again with revision %d, and it is %+v, %v", fresh.Revision, got, err)
	}
}

// A change says when it was made, and the deletion of a token removes what earlier deletions left:
// not too early if a node's clock was behind, or is ahead.
func TestClockOfChanges(t *testing.T) {
	now, ahead := begin, time.Duration(0)
	own := func() time.Time { return now.Add(ahead) }
	all := memory.New(func() time.Time { return now })
	store := all.Documents()
	tokens := access.New(access.Options{Now: own, Log: slog.New(slog.DiscardHandler)})
	tokens.Use(access.Backing{Documents: store, Clock: storeclock.New(all, own, func() time.Duration { return now.Sub(begin) })})
	for _, name := range []string{"shop", "till", "desk"} {
		create(t, tokens, name, "read")
	}
	now = now.Add(time.Hour)
	if changed, err := tokens.Change(t.Context(), "shop", disable); err != nil || !changed.Updated.Equal(now) {
		t.Errorf("changed %+v, %v", changed, err)
	}
	for _, step := range []struct {
		name         string
		after, ahead time.Duration
		left         string
	}{
		{"shop", 0, -9000 * time.Hour, "desk shop till"}, {"till", 59 * time.Minute, 9000 * time.Hour, "desk shop till"}, {"desk", 2 * time.Minute, 0, "desk till"},
	} {
		now, ahead = now.Add(step.after), step.ahead
		must.Get(tokens.Delete(t.Context(), step.name, anyone))(t)
		var left []string
		for _, doc := range must.Get(store.List(t.Context(), access.Kind, "", 9))(t) {
			left = append(left, doc.Key)
		}
		if got := strings.Join(left, " "); got != step.left {
			t.Errorf("after %s: %s are left", step.name, got)
		}
	}
}

// TestReload checks that a restarted node reads all pages of the store.
func TestReload(t *testing.T) {
	store := newStore()
	first := newTokens(t, store)
	secrets := make(map[string]string)
	for i := range 1201 {
		name := fmt.Sprintf("t%d", i)
		secrets[name] = create(t, first, name, "read")
	}
	again := newTokens(t, store)
	for name, secret := range secrets {
		if got := isFor(again, secret); got != name {
			t.Fatalf("that of %s is for %s", name, got)
		}
	}
	must.Get(first.Delete(t.Context(), "t7", anyone))(t)
	must.Do(t, again.Reload(t.Context()))
	must.Equal(t, isFor(again, secrets["t7"]), "unauthorized", "removed, and it is for")
}

// TestStarting checks that, before the store is read, tokens of the configuration work and others
// get a temporary error.
func TestStarting(t *testing.T) {
	store := newStore()
	secret := create(t, newTokens(t, store), "stored", "admin")
	tokens := access.New(access.Options{Config: []access.Token{token("fixed", "a", "admin")}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	check := func(stored string) {
		t.Helper()
		must.Equal(t, isFor(tokens, secret), stored, "the stored one is for")
		must.Equal(t, isFor(tokens, "a"), "fixed", "the fixed one is for")
		wantCode(t, must.Err(tokens.Allow(nil, "", "")), seqd.CodeUnauthorized)
	}
	check("starting")
	wantCode(t, tokens.Reload(t.Context()), seqd.CodeStarting)
	wantCode(t, tokens.Apply(t.Context(), "stored"), seqd.CodeStarting)
	for _, do := range []func() error{
		func() error { _, _, err := tokens.List(t.Context(), "", 10); return err },
		func() error { _, err := tokens.Get(t.Context(), "stored"); return err },
		func() error { _, _, err := tokens.Create(t.Context(), want("new", "read"), ""); return err },
		func() error { _, err := tokens.Change(t.Context(), "stored", disable); return err },
		func() error { _, err := tokens.Delete(t.Context(), "stored", anyone); return err },
	} {
		wantCode(t, do(), seqd.CodeStarting)
	}
	away := &documents{Documents: store, list: func(context.Context, string, string, int) ([]persist.Document, error) {
		return nil, persist.ErrUnavailable
	}}
	tokens.Use(access.Backing{Documents: away})
	must.Is(t, tokens.Reload(t.Context()), persist.ErrUnavailable)
	check("starting")
	away.list = nil
	must.Do(t, tokens.Reload(t.Context()))
	check("stored")
	must.Equal(t, isFor(tokens, "nobody"), "unauthorized", "an unknown one")
}

// TestConfigWins checks that tokens of the configuration cannot be changed and win over documents
// of the same name.
func TestConfigWins(t *testing.T) {
	store := newStore()
	old := create(t, newTokens(t, store), "shop", "admin")
	tokens := newTokens(t, store, token("shop", "a", "read"))
	check := func() {
		t.Helper()
		if isFor(tokens, "a") != "shop" || isFor(tokens, old) != "unauthorized" {
			t.Errorf("that of the configuration is for %s, that of the store for %s", isFor(tokens, "a"), isFor(tokens, old))
		}
	}
	check()
	must.Do(t, tokens.Apply(t.Context(), "shop"))
	check()
	must.Do(t, store.Delete(t.Context(), access.Kind, "shop", 1))
	must.Do(t, tokens.Apply(t.Context(), "shop"))
	check()
	_, _, err := tokens.Create(t.Context(), want("shop", "admin"), "")
	wantCode(t, err, seqd.CodeConflict)
	_, err = tokens.Change(t.Context(), "shop", disable)
	wantCode(t, err, seqd.CodeConflict)
	_, err = tokens.Delete(t.Context(), "shop", anyone)
	wantCode(t, err, seqd.CodeConflict)
	if got, err := tokens.Get(t.Context(), "shop"); err != nil || got.Source != access.FromConfig {
		t.Errorf("got %+v, %v", got, err)
	}
	check()
}

func TestNameTaken(t *testing.T) {
	tokens := newTokens(t, newStore())
	secret := create(t, tokens, "shop", "read")
	_, _, err := tokens.Create(t.Context(), want("shop", "admin"), "")
	wantCode(t, err, seqd.CodeConflict)
	must.Equal(t, isFor(tokens, secret), "shop", "the first one does not count any more")
	for _, name := range []string{"nobody", "", "a/b", strings.Repeat("x", 600), "\xff"} {
		_, err = tokens.Get(t.Context(), name)
		wantCode(t, err, seqd.CodeNotFound)
		_, err = tokens.Change(t.Context(), name, disable)
		wantCode(t, err, seqd.CodeNotFound)
		_, err = tokens.Delete(t.Context(), name, anyone)
		wantCode(t, err, seqd.CodeNotFound)
	}
}

func TestList(t *testing.T) {
	store := newStore()
	first := newTokens(t, store)
	for _, name := range []string{"b", "d", "f", "h"} {
		create(t, first, name, "read")
	}
	tokens := newTokens(t, store, token("a", "1", "read"), token("d", "2", "read"), token("g", "3", "read"), token("z", "4", "read"))
	for limit := 1; limit < 10; limit++ {
		var names string
		for after, more := "", true; more; {
			list, behind, err := tokens.List(t.Context(), after, limit)
			if err != nil || len(list) > limit || behind && len(list) < limit {
				t.Fatalf("limit %d: %d tokens, more %v, %v", limit, len(list), behind, err)
			}
			for _, token := range list {
				after = token.Name
				names += token.Name + "-" + token.Source[:1] + " "
			}
			more = behind
		}
		if want := "a-c b-a d-c f-a g-c h-a z-c "; names != want {
			t.Errorf("limit %d: %s, want %s", limit, names, want)
		}
	}
}

// TestConcurrentChanges changes one token on several nodes at once. No change is lost, and all
// nodes end with the same token.
func TestConcurrentChanges(t *testing.T) {
	store := newStore()
	nodes := []*access.Tokens{newTokens(t, store), newTokens(t, store), newTokens(t, store)}
	secret := create(t, nodes[0], "shop", "read")
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		done int
	)
	for i := range 30 {
		node, other := nodes[i%3], nodes[(i+1)%3]
		wg.Go(func() {
			_, err := node.Change(t.Context(), "shop", func(token *access.Token) error {
				token.Scopes = append(token.Scopes[:len(token.Scopes):len(token.Scopes)], fmt.Sprintf("issue:b%d", i))
				return nil
			})
			if err == nil {
				mu.Lock()
				done++
				mu.Unlock()
			} else if seqd.CodeOf(err) != seqd.CodeConflict {
				t.Error(err)
			}
			must.Report(t, other.Apply(t.Context(), "shop"))
		})
	}
	wg.Wait()
	final, err := nodes[0].Get(t.Context(), "shop")
	if err != nil || len(final.Scopes) != done+1 || final.Revision != int64(done+1) {
		t.Fatalf("%d changes, and it has %d scopes at revision %d, %v", done, len(final.Scopes), final.Revision, err)
	}
	for _, node := range nodes {
		must.Do(t, node.Apply(t.Context(), "shop"))
		must.Report(t, must.Err(node.Allow(header(secret), access.ScopeIssue, strings.TrimPrefix(final.Scopes[done], "issue:"))))
	}
}

// TestLateMemory checks that a late reading does not undo a newer one: a token is disabled or
// deleted, here or by another node, between an access to the store and what it does to memory.
func TestLateMemory(t *testing.T) {
	disableIt := func(t *testing.T, by *access.Tokens) {
		must.Report(t, must.Err(by.Change(t.Context(), "shop", disable)))
	}
	deleteIt := func(t *testing.T, by *access.Tokens) {
		must.Report(t, must.Err(by.Delete(t.Context(), "shop", anyone)))
	}
	follow := map[string]func(*testing.T, *access.Tokens){
		"nothing": nil,
		"apply": func(t *testing.T, by *access.Tokens) {
			must.Report(t, by.Apply(t.Context(), "shop"))
		},
		"reload": func(t *testing.T, by *access.Tokens) {
			must.Report(t, by.Reload(t.Context()))
		},
	}
	for ends, end := range map[string]func(*testing.T, *access.Tokens){"disabled": disableIt, "deleted": deleteIt} {
		for late, asks := range map[string]func(*testing.T, *access.Tokens){
			"apply": follow["apply"], "reload": follow["reload"],
			"change": func(t *testing.T, by *access.Tokens) {
				_, err := by.Change(t.Context(), "shop", func(token *access.Token) error { token.Scopes = []string{"admin"}; return nil })
				if err != nil && seqd.CodeOf(err) != seqd.CodeConflict && seqd.CodeOf(err) != seqd.CodeNotFound {
					t.Error(err)
				}
			},
		} {
			for after, follows := range follow {
				t.Run(late+", "+ends+", "+after, func(t *testing.T) { lateMemory(t, asks, end, follows) })
			}
		}
	}
}

// lateMemory calls end when late has asked the store, and then follows, unless the node itself has
// ended the token.
func lateMemory(t *testing.T, late, end, follows func(*testing.T, *access.Tokens)) {
	inner := newStore()
	store := &documents{Documents: inner}
	tokens, other := newTokens(t, store), newTokens(t, inner)
	secret := create(t, tokens, "shop", "read")
	ended := false
	meanwhile := func() {
		if ended {
			return
		}
		ended = true
		if follows == nil {
			end(t, tokens)
			return
		}
		end(t, other)
		follows(t, tokens)
	}
	store.read = func(ctx context.Context, kind, name string) (persist.Document, error) {
		doc, err := inner.Read(ctx, kind, name)
		meanwhile()
		return doc, err
	}
	store.list = func(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
		docs, err := inner.List(ctx, kind, after, limit)
		meanwhile()
		return docs, err
	}
	store.update = func(ctx context.Context, doc persist.Document) error {
		err := inner.Update(ctx, doc)
		meanwhile()
		return err
	}
	late(t, tokens)
	if got := isFor(tokens, secret); !ended || got != "unauthorized" {
		t.Errorf("the token is for %s", got)
	}
}

// TestReadingDelaysNothing checks that a token can be revoked while the store does not answer those
// who read others, which anybody may cause who can publish.
func TestReadingDelaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newStore()
		store := &documents{Documents: inner}
		tokens := newTokens(t, store)
		secret := create(t, tokens, "shop", "admin")
		answers := make(chan struct{})
		store.read = func(ctx context.Context, kind, name string) (persist.Document, error) {
			if name != "shop" {
				<-answers
			}
			return inner.Read(ctx, kind, name)
		}
		store.list = func(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
			<-answers
			return inner.List(ctx, kind, after, limit)
		}
		var wg sync.WaitGroup
		for i := range 2000 {
			wg.Go(func() {
				must.Report(t, tokens.Apply(t.Context(), fmt.Sprint("t", i)))
			})
		}
		wg.Go(func() {
			must.Report(t, tokens.Reload(t.Context()))
		})
		synctest.Wait()
		must.Report(t, must.Err(tokens.Change(t.Context(), "shop", disable)))
		close(answers)
		wg.Wait()
		must.Equal(t, isFor(tokens, secret), "unauthorized", "the token is for")
	})
}

// TestChangeSeesTheLatest checks that edit is called again with another node's change.
func TestChangeSeesTheLatest(t *testing.T) {
	store := newStore()
	here, there := newTokens(t, store), newTokens(t, store)
	create(t, here, "shop", "read")
	var seen []int64
	_, err := here.Change(t.Context(), "shop", func(token *access.Token) error {
		seen = append(seen, token.Revision)
		if len(seen) == 1 {
			if _, err := there.Change(t.Context(), "shop", disable); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(seen) != 2 || seen[0] != 1 || seen[1] != 2 {
		t.Errorf("edit saw the revisions %v, %v", seen, err)
	}
	refused := errors.New("no")
	if _, err := here.Change(t.Context(), "shop", func(*access.Token) error { return refused }); err != refused {
		t.Errorf("error %v", err)
	}
	if _, err := here.Delete(t.Context(), "shop", func(*access.Token) error { return refused }); err != refused {
		t.Errorf("error %v", err)
	}
	_, err = here.Change(t.Context(), "shop", func(*access.Token) error {
		_, err := there.Change(t.Context(), "shop", disable)
		return err
	})
	wantCode(t, err, seqd.CodeConflict)
}

// TestStoreAway checks that, without the store, nothing can be changed or shown, and known tokens
// still work.
func TestStoreAway(t *testing.T) {
	inner := newStore()
	store := &documents{Documents: inner}
	published := 0
	tokens := access.New(access.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	tokens.Use(access.Backing{Documents: store, Publish: func(context.Context, string, string) { published++ }})
	must.Do(t, tokens.Reload(t.Context()))
	secret := create(t, tokens, "shop", "admin")
	if _, _, err := tokens.Create(t.Context(), want("guest", "read"), access.Nobody); err != nil {
		t.Fatal(err)
	}
	create(t, tokens, "gone", "read")
	must.Get(tokens.Delete(t.Context(), "gone", anyone))(t)
	away := fmt.Errorf("%w: mongodb://root:hunter2@db", persist.ErrUnavailable)
	lost := func(context.Context, string, string) (persist.Document, error) { return persist.Document{}, away }
	store.read = lost
	store.list = func(context.Context, string, string, int) ([]persist.Document, error) { return nil, away }
	store.create = func(context.Context, persist.Document) error { return away }
	store.update = store.create
	check := func(err error) {
		t.Helper()
		wantCode(t, err, seqd.CodeStoreUnavailable)
		if e := seqd.AsError(err); strings.Contains(e.Detail, "hunter2") || e.RetryAfter <= 0 {
			t.Errorf("the caller is told %q, to try again in %s", e.Detail, e.RetryAfter)
		}
		if isFor(tokens, secret) != "shop" {
			t.Error("the token does not count any more")
		}
	}
	_, _, err := tokens.List(t.Context(), "", 10)
	check(err)
	_, err = tokens.Get(t.Context(), "shop")
	check(err)
	_, _, err = tokens.Create(t.Context(), want("new", "read"), "")
	check(err)
	_, err = tokens.Change(t.Context(), "shop", disable)
	check(err)
	_, err = tokens.Made(t.Context(), "shop")
	check(err)
	_, err = tokens.RevokeMade(t.Context(), "shop")
	check(err)
	store.create = func(context.Context, persist.Document) error { return persist.ErrExists }
	_, _, err = tokens.Create(t.Context(), want("new", "read"), "")
	check(err)
	if names, err := access.Shut(t.Context(), store, begin); len(names) > 0 || !errors.Is(err, away) {
		t.Errorf("shut %v, %v", names, err)
	}
	for _, err := range []error{tokens.Reload(t.Context()), tokens.Apply(t.Context(), "shop")} {
		if !errors.Is(err, away) || isFor(tokens, secret) != "shop" {
			t.Errorf("error %v", err)
		}
	}
	// Reads work again, writes do not. So the outcome of the write is unknown, and other nodes are
	// told to look.
	store.read, published = nil, 0
	_, err = tokens.Change(t.Context(), "shop", disable)
	check(err)
	_, err = tokens.Delete(t.Context(), "shop", anyone)
	check(err)
	if published != 2 {
		t.Errorf("published %d times, want 2", published)
	}
	_, _, err = tokens.Create(t.Context(), want("gone", "read"), "") // in the place of what was deleted
	check(err)
	// If neither works any more, what was not written does not count.
	unwritten := store.update
	store.update = func(context.Context, persist.Document) error { store.read = lost; return away }
	_, err = tokens.Change(t.Context(), "shop", disable)
	check(err)
	store.read, store.update = nil, unwritten
	store.list = nil
	if names, err := access.Shut(t.Context(), store, begin); len(names) > 0 || !errors.Is(err, away) {
		t.Errorf("shut %v, %v", names, err)
	}
	if revoked, err := tokens.RevokeMade(t.Context(), access.Nobody); len(revoked) > 0 || seqd.CodeOf(err) != seqd.CodeStoreUnavailable {
		t.Errorf("revoked %v, %v", revoked, err)
	}
	// What a change wrote is known here if it cannot be read again.
	store.update = func(ctx context.Context, doc persist.Document) error {
		err := inner.Update(ctx, doc)
		must.Report(t, tokens.Apply(ctx, "shop"))
		store.read = lost
		return err
	}
	if _, err := tokens.Delete(t.Context(), "shop", anyone); err != nil || isFor(tokens, secret) != "unauthorized" {
		t.Errorf("deleted, %v, and it is for %s", err, isFor(tokens, secret))
	}
}

// TestHooks checks that other nodes are told before and after each change, and that nothing changes
// if they cannot be told.
func TestHooks(t *testing.T) {
	var told []string
	refuse := error(nil)
	tokens := access.New(access.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	tokens.Use(access.Backing{
		Documents: newStore(),
		Announce: func(_ context.Context, kind, key string) error {
			told = append(told, "announce "+kind+" "+key)
			return refuse
		},
		Publish: func(_ context.Context, kind, key string) { told = append(told, "publish "+kind+" "+key) },
	})
	must.Do(t, tokens.Reload(t.Context()))
	secret := create(t, tokens, "shop", "read")
	must.Get(tokens.Change(t.Context(), "shop", disable))(t)
	must.Get(tokens.Delete(t.Context(), "shop", anyone))(t)
	if got, want := strings.Join(told, ", "), strings.Repeat("announce token shop, publish token shop, ", 3); got+", " != want {
		t.Errorf("told %s", got)
	}
	told, refuse = nil, errors.New("nobody listens")
	_, _, err := tokens.Create(t.Context(), want("shop", "read"), "")
	wantCode(t, err, seqd.CodeStoreUnavailable)
	if len(told) != 1 || isFor(tokens, secret) != "unauthorized" {
		t.Errorf("told %s", told)
	}
	refuse = seqd.Errorf(seqd.CodeRedisUnavailable, "no")
	_, _, err = tokens.Create(t.Context(), want("shop", "read"), "")
	wantCode(t, err, seqd.CodeRedisUnavailable)
}

// TestUnreadableDocuments checks that a document that cannot be understood lets nobody in, even if
// the token was known before, and that the log does not show its contents.
func TestUnreadableDocuments(t *testing.T) {
	digest := access.DigestOf(secret).Hex()
	for name, body := range map[string]string{
		"no JSON":         `nothing`,
		"rest":            `{"sha256":"` + digest + `","scopes":["admin"],"enabled":true} {}`,
		"a newer key":     `{"sha256":"` + digest + `","scopes":["admin"],"enabled":true,"networks":["10.0.0.0/8"]}`,
		"no digest":       `{"scopes":["admin"],"enabled":true}`,
		"a bad digest":    `{"sha256":"hunter2","scopes":["admin"],"enabled":true}`,
		"a bad making":    `{"secrets":[{"sha256":"` + digest + `","made":"hunter2"}],"scopes":["admin"],"enabled":true}`,
		"a bad end":       `{"secrets":[{"sha256":"` + digest + `","expires":"hunter2"}],"scopes":["admin"],"enabled":true}`,
		"many secrets":    `{"secrets":[` + strings.Repeat(`{"sha256":"`+digest+`"},`, 10) + `{"sha256":"` + digest + `"}],"scopes":["admin"],"enabled":true}`,
		"no scopes":       `{"sha256":"` + digest + `","enabled":true}`,
		"a bad scope":     `{"sha256":"` + digest + `","scopes":["hunter2"],"enabled":true}`,
		"a bad time":      `{"sha256":"` + digest + `","scopes":["admin"],"enabled":true,"expires":"hunter2"}`,
		"another type":    `{"sha256":"` + digest + `","scopes":"hunter2","enabled":true}`,
		"a zero digest":   `{"sha256":"` + strings.Repeat("0", 64) + `","scopes":["admin"],"enabled":true}`,
		"a number for it": `{"sha256":5,"scopes":["admin"],"enabled":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore()
			var log bytes.Buffer
			tokens := access.New(access.Options{Now: time.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
			tokens.Use(access.Backing{Documents: store})
			must.Do(t, tokens.Reload(t.Context()))
			known := create(t, tokens, "shop", "admin")
			must.Do(t, store.Update(t.Context(), persist.Document{Kind: access.Kind, Key: "shop", Revision: 2, Body: body}))
			for _, follow := range []func() error{func() error { return tokens.Apply(t.Context(), "shop") }, func() error { return tokens.Reload(t.Context()) }} {
				must.Do(t, follow())
				if isFor(tokens, secret) != "unauthorized" || isFor(tokens, known) != "unauthorized" {
					t.Error("somebody got in")
				}
			}
			if strings.Count(log.String(), "\n") != 1 || strings.Contains(log.String(), "hunter2") || strings.Contains(log.String(), digest) {
				t.Errorf("logged %q", log.String())
			}
			if said := strings.Contains(log.String(), "64 hexadecimal digits"); said != (name == "a bad digest") {
				t.Errorf("logged %q", log.String())
			}
			_, err := tokens.Get(t.Context(), "shop")
			wantCode(t, err, seqd.CodeConflict)
			if list, _, err := tokens.List(t.Context(), "", 10); err != nil || len(list) != 0 {
				t.Errorf("listed %v, %v", list, err)
			}
		})
	}
}

// After a restore all tokens of the store can be shut, and be enabled again as they were.
func TestShut(t *testing.T) {
	store, own := newStore(), token("ops", "seqd_ops", "admin")
	tokens := newTokens(t, store, own)
	secret := create(t, tokens, "shop", "issue:order")
	create(t, tokens, "till", "read")
	must.Get(tokens.Change(t.Context(), "till", disable))(t)
	for _, want := range []string{"[shop]", "[]"} {
		must.Equal(t, fmt.Sprint(must.Get(access.Shut(t.Context(), store, begin))(t)), want)
	}
	tokens = newTokens(t, store, own)
	if a, b := isFor(tokens, secret), isFor(tokens, "seqd_ops"); a != "unauthorized" || b != "ops" {
		t.Errorf("the secrets are for %s and %s", a, b)
	}
	must.Get(tokens.Change(t.Context(), "shop", func(t *access.Token) error { t.Enabled = true; return nil }))(t)
	must.Equal(t, isFor(tokens, secret), "shop", "enabled again, it is for")
}
