package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
)

// Tokens is what /tokens manages. [access.Tokens] documents the methods.
type Tokens interface {
	List(ctx context.Context, after string, limit int) (list []access.Token, more bool, err error)
	Get(ctx context.Context, name string) (access.Token, error)
	Create(ctx context.Context, want access.Token) (made access.Token, secret string, err error)
	Change(ctx context.Context, name string, edit func(*access.Token) error) (access.Token, error)
	Delete(ctx context.Context, name string, may func(*access.Token) error) (access.Token, error)
}

var _ Tokens = (*access.Tokens)(nil)

// tokenRoutes serves /tokens.
type tokenRoutes struct{ tokens Tokens }

// shownToken is a token as callers see it.
type shownToken struct {
	Name    string   `json:"name"`
	Scopes  []string `json:"scopes"`
	Enabled bool     `json:"enabled"`
	Expires string   `json:"expires,omitempty"`
	Source  string   `json:"source"`
	// Version and UpdatedAt are only set for a token of the store.
	Version   int64  `json:"version,omitempty"`
	UpdatedAt string `json:"updatedAt,omitempty"`
	// Secret is only set in the answer that creates the token.
	Secret string `json:"secret,omitempty"`
}

func showToken(t access.Token) shownToken {
	shown := shownToken{Name: t.Name, Scopes: t.Scopes, Enabled: t.Enabled, Source: t.Source, Version: t.Revision}
	if !t.Expires.IsZero() {
		shown.Expires = t.Expires.UTC().Format(timeFormat)
	}
	if t.Revision > 0 {
		shown.UpdatedAt = t.Updated.UTC().Format(timeFormat)
	}
	return shown
}

// answerToken answers with a token, and with an ETag if it has a revision.
func answerToken(c *gin.Context, status int, t access.Token, secret string) {
	header := c.Writer.Header()
	header["Cache-Control"] = noStore
	if t.Revision > 0 {
		setETag(header, t.Revision)
		setRevision(c, t.Revision)
	}
	shown := showToken(t)
	shown.Secret = secret
	writeJSON(c, status, jsonType, shown)
}

// tokenPage is the answer of GET /tokens.
type tokenPage struct {
	Tokens []shownToken `json:"tokens"`
	Next   string       `json:"next,omitempty"`
}

// list answers GET /tokens.
func (r tokenRoutes) list(c *gin.Context) error {
	after, limit, err := readPage(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	list, more, err := r.tokens.List(c.Request.Context(), after, limit)
	if err != nil {
		return err
	}
	page := tokenPage{Tokens: make([]shownToken, 0, len(list))}
	for _, t := range list {
		page.Tokens = append(page.Tokens, showToken(t))
	}
	if more {
		page.Next = list[len(list)-1].Name
	}
	c.Writer.Header()["Cache-Control"] = noStore
	writeJSON(c, http.StatusOK, jsonType, page)
	return nil
}

// get answers GET /tokens/{name}.
func (r tokenRoutes) get(c *gin.Context) error {
	_, err := readQuery(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	t, err := r.tokens.Get(c.Request.Context(), c.Param("name"))
	if err != nil {
		return err
	}
	answerToken(c, http.StatusOK, t, "")
	return nil
}

// create answers POST /tokens. Only this answer contains the secret.
func (r tokenRoutes) create(c *gin.Context) error {
	want, err := readNewToken(c)
	if err != nil {
		return err
	}
	made, secret, err := r.tokens.Create(c.Request.Context(), want)
	if err != nil {
		return err
	}
	c.Writer.Header()["Location"] = []string{"/tokens/" + made.Name}
	answerToken(c, http.StatusCreated, made, secret)
	return nil
}

func readNewToken(c *gin.Context) (want access.Token, err error) {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return want, err
	}
	o, err := readObject(body(c), "name", "scopes", "expires", "enabled")
	if err != nil {
		return want, err
	}
	want.Enabled = true
	if err := o.take("name", "text", &want.Name); err != nil {
		return want, err
	}
	if seqd.CheckName(want.Name) == nil {
		setTarget(c, want.Name)
	}
	return want, editToken(o, &want)
}

// change answers PATCH /tokens/{name}: a merge patch (RFC 7396) of scopes, expires and
// enabled.
func (r tokenRoutes) change(c *gin.Context) error {
	o, match, err := readTokenPatch(c)
	if err != nil {
		return err
	}
	changed, err := r.tokens.Change(c.Request.Context(), c.Param("name"), func(t *access.Token) error {
		if err := match.check(t.Revision); err != nil {
			return err
		}
		return editToken(o, t)
	})
	if err != nil {
		return err
	}
	answerToken(c, http.StatusOK, changed, "")
	return nil
}

func readTokenPatch(c *gin.Context) (o object, match ifMatch, err error) {
	if _, err = readQuery(c.Request.URL.RawQuery); err != nil {
		return o, match, err
	}
	if match, err = readIfMatch(c.Request); err != nil {
		return o, match, err
	}
	if o, err = readObject(body(c), "scopes", "expires", "enabled"); err != nil {
		return o, match, err
	}
	var dry access.Token // a malformed body is an error whatever the token is
	return o, match, editToken(o, &dry)
}

// editToken applies an object to a token. If expires is null, the token never expires.
func editToken(o object, t *access.Token) error {
	if err := o.takeTexts("scopes", &t.Scopes); err != nil {
		return err
	}
	if err := o.take("enabled", "true or false", &t.Enabled); err != nil {
		return err
	}
	if _, there := o["expires"]; !there {
		return nil
	}
	if o.null("expires") {
		t.Expires = time.Time{}
		return nil
	}
	var text string
	if err := o.take("expires", "text or null", &text); err != nil {
		return err
	}
	var expires access.Expiry
	if err := expires.UnmarshalText([]byte(text)); err != nil {
		return invalidBody("expires: %s", err)
	}
	t.Expires = expires.Time
	return nil
}

// delete answers DELETE /tokens/{name}.
func (r tokenRoutes) delete(c *gin.Context) error {
	_, err := readQuery(c.Request.URL.RawQuery)
	if err != nil {
		return err
	}
	match, err := readIfMatch(c.Request)
	if err != nil {
		return err
	}
	removed, err := r.tokens.Delete(c.Request.Context(), c.Param("name"), func(t *access.Token) error { return match.check(t.Revision) })
	if err != nil {
		return err
	}
	setRevision(c, removed.Revision)
	c.Writer.Header()["Cache-Control"] = noStore
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}
