package access_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/access"
)

func TestAllowNamed(t *testing.T) {
	now := begin
	expiring, disabled := token("expiring", "a", "issue:*"), token("disabled", "b", "issue:*")
	expiring.Expires, disabled.Enabled = begin.Add(time.Second), false
	twin := token("twin", "a", "issue:user") // the secret of another token
	tokens := access.New(access.Options{
		Config: []access.Token{expiring, disabled, twin, token("shop", secret, "issue:order*")},
		Now:    func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
	})
	want := func(name, bizType string, code seqd.Code) {
		t.Helper()
		must.Code(t, tokens.AllowNamed(name, access.ScopeIssue, bizType), code, "%s for %s", name, bizType)
	}
	want("shop", "order-eu", "")
	want("shop", "user", seqd.CodeForbidden)
	want("expiring", "user", "")
	want("twin", "user", "")
	want("twin", "order", seqd.CodeForbidden)
	want("disabled", "user", seqd.CodeUnauthorized)
	want("nobody", "user", seqd.CodeStarting) // it may be in the store
	tokens.Use(access.Backing{Documents: newStore()})
	must.Do(t, tokens.Reload(t.Context()))
	want("nobody", "user", seqd.CodeUnauthorized)
	want("", "user", seqd.CodeUnauthorized)
	now = begin.Add(time.Second)
	want("expiring", "user", seqd.CodeUnauthorized)
	if _, _, err := tokens.Create(t.Context(), token("nobody", "", "issue:user"), ""); err != nil {
		t.Fatal(err)
	}
	want("nobody", "user", "")
}
