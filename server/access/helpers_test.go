package access_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/access"
)

// begin is the time at which each test starts.
var begin = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// token returns an enabled token of the configuration that never expires.
func token(name, secret string, scopes ...string) access.Token {
	return access.Token{Name: name, Secrets: access.SecretOf(secret), Scopes: scopes, Enabled: true}
}

func header(secret string) []string { return []string{"Bearer " + secret} }

// newTokens returns tokens over a store, after reading those in the store.
func newTokens(t testing.TB, store persist.Documents, config ...access.Token) *access.Tokens {
	t.Helper()
	tokens := access.New(access.Options{Config: config, Now: func() time.Time { return begin }, Log: slog.New(slog.DiscardHandler)})
	tokens.Use(access.Backing{Documents: store})
	must.Do(t, tokens.Reload(t.Context()))
	return tokens
}

func newStore() persist.Documents {
	return memory.New(func() time.Time { return begin }).Documents()
}

func wantCode(t testing.TB, err error, code seqd.Code) {
	t.Helper()
	if got := seqd.CodeOf(err); got != code {
		t.Fatalf("the error is %v, want the code %q", err, code)
	}
}

// documents is a store whose operations a test can replace.
type documents struct {
	persist.Documents
	read   func(context.Context, string, string) (persist.Document, error)
	create func(context.Context, persist.Document) error
	update func(context.Context, persist.Document) error
	list   func(context.Context, string, string, int) ([]persist.Document, error)
}

func (d *documents) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	if d.read != nil {
		return d.read(ctx, kind, key)
	}
	return d.Documents.Read(ctx, kind, key)
}

func (d *documents) Create(ctx context.Context, doc persist.Document) error {
	if d.create != nil {
		return d.create(ctx, doc)
	}
	return d.Documents.Create(ctx, doc)
}

func (d *documents) Update(ctx context.Context, doc persist.Document) error {
	if d.update != nil {
		return d.update(ctx, doc)
	}
	return d.Documents.Update(ctx, doc)
}

func (d *documents) List(ctx context.Context, kind, after string, limit int) ([]persist.Document, error) {
	if d.list != nil {
		return d.list(ctx, kind, after, limit)
	}
	return d.Documents.List(ctx, kind, after, limit)
}
