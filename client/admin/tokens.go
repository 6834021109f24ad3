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
	// Secret is what callers send. Only CreateToken returns it.
	Secret string `json:"secret,omitempty"`
}

// NewToken is a token to create.
type NewToken struct {
	Name   string
	Scopes []string
	// Expires is zero for never.
	Expires time.Time
	// Disabled makes a token that cannot be used yet.
	Disabled bool
}

// TokenPatch is a change of a token. What is nil stays.
type TokenPatch struct {
	Scopes []string
	// Expires is a pointer to the zero time for never.
	Expires *time.Time
	Enabled *bool
}

// Tokens returns a page of the tokens in the order of their names, without secrets. next is the name
// to continue after, "" on the last page.
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

func (a *Admin) changeToken(ctx context.Context, op, method, target string, body any, c Change, t *Token) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = a.change(ctx, op, method, target, text, c, t)
	return err
}
