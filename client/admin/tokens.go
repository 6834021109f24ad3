package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/seqd/seqd/client"
)

// Token is a credential of a caller.
type Token struct {
	Name    string   `json:"name"`
	Scopes  []string `json:"scopes"`
	Enabled bool     `json:"enabled"`
	// Expires is zero for never.
	Expires time.Time `json:"expires,omitzero"`
	// Source is where the token is managed: config or api.
	Source string `json:"source"`
	// Version and UpdatedAt are only set for a token of the store.
	Version   int64     `json:"version,omitempty"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
	// OwnsOpen is true if the token owns what was made while nobody was asked for a token.
	OwnsOpen bool `json:"ownsOpen,omitempty"`
	// Secrets are its secrets, without what callers send.
	Secrets []Secret `json:"secrets"`
	// Secret is what callers send. Only CreateToken returns it.
	Secret string `json:"secret,omitempty"`
}

// Secret is one of the secrets of a token.
type Secret struct {
	ID string `json:"id"`
	// CreatedAt is zero if it is not known.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// CreatedBy is the name of the token that made it, [Nobody], or "" if it is not known.
	CreatedBy string `json:"createdBy,omitempty"`
	// Expires is zero for never.
	Expires time.Time `json:"expires,omitzero"`
	// Secret is what callers send. Only CreateSecret returns it.
	Secret string `json:"secret,omitempty"`
}

// Nobody is who made a secret while nobody was asked for a token.
const Nobody = "~"

// Made is a secret that a token has made.
type Made struct {
	// Caller is the name of the token whose secret it is.
	Caller string `json:"caller"`
	Secret
	// Deleted is whether the token was deleted with the secret, which was its last one.
	Deleted bool `json:"deleted,omitempty"`
}

// NewToken is a token to create.
type NewToken struct {
	Name   string
	Scopes []string
	// Expires is zero for never.
	Expires time.Time
	// Disabled makes a token that cannot be used yet.
	Disabled bool
	// OwnsOpen makes a token that owns what was made while nobody was asked for a token.
	OwnsOpen bool
}

// TokenPatch is a change of a token. What is nil stays.
type TokenPatch struct {
	Scopes []string
	// Expires is a pointer to the zero time for never.
	Expires *time.Time
	Enabled *bool
}

// Tokens returns a page of the tokens in the order of their names, without secrets. next is the
// name to continue after, "" on the last page.
func (a *Admin) Tokens(ctx context.Context, p Page) (list []Token, next string, err error) {
	var page struct {
		Tokens []Token `json:"tokens"`
		Next   string  `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "list tokens", Path: "/tokens", Query: p.query()}, &page)
	if err == nil && page.Tokens == nil {
		err = errNoList
	}
	return page.Tokens, page.Next, err
}

// Token returns a token, without its secret.
func (a *Admin) Token(ctx context.Context, name string) (t Token, err error) {
	_, err = a.ask(ctx, client.Request{Op: "get token", Path: named("/tokens/", name)}, &t)
	return t, err
}

// CreateToken creates a token and returns it with its secret, which is shown this once.
func (a *Admin) CreateToken(ctx context.Context, n NewToken) (t Token, err error) {
	body := map[string]any{"name": n.Name, "scopes": n.Scopes, "enabled": !n.Disabled}
	if !n.Expires.IsZero() {
		body["expires"] = n.Expires
	}
	if n.OwnsOpen {
		body["ownsOpen"] = true
	}
	err = a.changeToken(ctx, "create token", http.MethodPost, "/tokens", body, Change{}, &t)
	return t, err
}

// PatchToken changes a token. If ifMatch is not 0, only that version is changed.
func (a *Admin) PatchToken(ctx context.Context, name string, p TokenPatch, ifMatch int64) (t Token, err error) {
	body := map[string]any{}
	if p.Scopes != nil {
		body["scopes"] = p.Scopes
	}
	if p.Enabled != nil {
		body["enabled"] = *p.Enabled
	}
	if p.Expires != nil {
		body["expires"] = nil
		if !p.Expires.IsZero() {
			body["expires"] = *p.Expires
		}
	}
	err = a.changeToken(ctx, "patch token", http.MethodPatch, named("/tokens/", name), body, Change{IfMatch: ifMatch}, &t)
	return t, err
}

// DeleteToken deletes a token. If ifMatch is not 0, only that version is deleted.
func (a *Admin) DeleteToken(ctx context.Context, name string, ifMatch int64) error {
	_, err := a.change(ctx, "delete token", http.MethodDelete, named("/tokens/", name), nil, Change{IfMatch: ifMatch}, nil)
	return err
}

// CreateSecret adds a secret to a token and returns it with what callers send, which is shown this
// once. expires may be zero for never. The other secrets stay valid.
func (a *Admin) CreateSecret(ctx context.Context, name string, expires time.Time) (s Secret, err error) {
	body := map[string]any{}
	if !expires.IsZero() {
		body["expires"] = expires
	}
	err = a.changeToken(ctx, "create secret", http.MethodPost, named("/tokens/", name)+"/secrets", body, Change{}, &s)
	return s, err
}

// DeleteSecret revokes a secret of a token. The last one cannot be revoked.
func (a *Admin) DeleteSecret(ctx context.Context, name, id string) error {
	_, err := a.change(ctx, "delete secret", http.MethodDelete, named(named("/tokens/", name)+"/secrets/", id), nil, Change{}, nil)
	return err
}

// Made returns the secrets that a token has made, for tokens of its own making and for others. The
// token may be gone. by is its name, or [Nobody].
func (a *Admin) Made(ctx context.Context, by string) (list []Made, err error) {
	var made madeSecrets
	_, err = a.ask(ctx, client.Request{Op: "list made secrets", Path: named("/tokens/", by) + "/made"}, &made)
	return made.Secrets, err
}

// RevokeMade revokes what a token has made, deletes the tokens that have no other secret, and
// revokes what these have made. It returns what it has revoked. After an error it can be repeated.
func (a *Admin) RevokeMade(ctx context.Context, by string) (list []Made, err error) {
	var made madeSecrets
	_, err = a.change(ctx, "revoke made secrets", http.MethodDelete, named("/tokens/", by)+"/made", nil, Change{}, &made)
	return made.Secrets, err
}

type madeSecrets struct {
	Secrets []Made `json:"secrets"`
}

func (a *Admin) changeToken(ctx context.Context, op, method, target string, body any, c Change, made any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = a.change(ctx, op, method, target, text, c, made)
	return err
}
