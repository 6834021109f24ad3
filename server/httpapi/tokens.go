package httpapi

import (
	"cmp"
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
	Create(ctx context.Context, want access.Token, by string) (made access.Token, secret string, err error)
	Change(ctx context.Context, name string, edit func(*access.Token) error) (access.Token, error)
	Delete(ctx context.Context, name string, may func(*access.Token) error) (access.Token, error)
	AddSecret(ctx context.Context, name, by string, expires time.Time, may func(*access.Token) error) (changed access.Token, secret string, err error)
	RemoveSecret(ctx context.Context, name, id string, may func(*access.Token) error) (access.Token, error)
	Made(ctx context.Context, by string) ([]access.Made, error)
	RevokeMade(ctx context.Context, by string) ([]access.Made, error)
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
	// OwnsOpen is true for a token that owns what was made while nobody was asked for a token.
	OwnsOpen bool   `json:"ownsOpen,omitempty"`
	Source   string `json:"source"`
	// Version and UpdatedAt are only set for a token of the store.
	Version   int64         `json:"version,omitempty"`
	UpdatedAt string        `json:"updatedAt,omitempty"`
	Secrets   []shownSecret `json:"secrets"`
	// Secret is only set in the answer that creates the token.
	Secret string `json:"secret,omitempty"`
}

// shownSecret is a secret as callers see it.
type shownSecret struct {
	ID string `json:"id"`
	// CreatedAt is missing if it is not known.
	CreatedAt string `json:"createdAt,omitempty"`
	// CreatedBy is the name of the token that made it, access.Nobody if nobody was asked for a
	// token, and missing if it is not known.
	CreatedBy string `json:"createdBy,omitempty"`
	Expires   string `json:"expires,omitempty"`
	// Secret is only set in the answer that creates the secret.
	Secret string `json:"secret,omitempty"`
}

func showSecret(t *access.Token, i int) shownSecret {
	shown := showMade(&t.Secrets[i])
	shown.ID = t.SecretID(i)
	return shown
}

// showMade shows a secret of the store.
func showMade(s *access.Secret) shownSecret {
	return shownSecret{ID: s.ID(), CreatedAt: shownTime(s.Made), CreatedBy: cmp.Or(seqd.OwnerName(s.By), s.By), Expires: shownTime(s.Expires)}
}

// maker returns who makes a secret by a request.
func maker(c *gin.Context) string { return cmp.Or(c.Param(callerParam), access.Nobody) }

func showSecrets(t access.Token) []shownSecret {
	shown := make([]shownSecret, 0, len(t.Secrets))
	for i := range t.Secrets {
		shown = append(shown, showSecret(&t, i))
	}
	return shown
}

func showToken(t access.Token) shownToken {
	return shownToken{
		Name: t.Name, Scopes: t.Scopes, Enabled: t.Enabled, Expires: shownTime(t.Expires), OwnsOpen: t.OwnsOpen,
		Source: t.Source, Version: t.Revision, UpdatedAt: shownTime(t.Updated), Secrets: showSecrets(t),
	}
}

// answerToken answers with a token, and with an ETag if it has a revision.
func answerToken(c *gin.Context, status int, t access.Token, secret string, err error) error {
	if err != nil {
		return err
	}
	shown := showToken(t)
	shown.Secret = secret
	answerOf(c, status, t, shown)
	return nil
}

// answerOf answers with something of a token, and with an ETag if the token has a revision.
func answerOf(c *gin.Context, status int, t access.Token, shown any) {
	header := c.Writer.Header()
	header["Cache-Control"] = noStore
	if t.Revision > 0 {
		setETag(header, t.Revision)
		setRevision(c, t.Revision)
	}
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
	return answerToken(c, http.StatusOK, t, "", err)
}

// create answers POST /tokens. Only this answer contains the secret.
func (r tokenRoutes) create(c *gin.Context) error {
	want, err := readNewToken(c)
	if err != nil {
		return err
	}
	made, secret, err := r.tokens.Create(c.Request.Context(), want, maker(c))
	if err != nil {
		return err
	}
	c.Writer.Header()["Location"] = []string{"tokens/" + made.Name}
	return answerToken(c, http.StatusCreated, made, secret, nil)
}

func readNewToken(c *gin.Context) (want access.Token, err error) {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return want, err
	}
	o, err := readObject(body(c), "name", "scopes", "expires", "enabled", "ownsOpen")
	if err != nil {
		return want, err
	}
	if err := o.take("ownsOpen", "true or false", &want.OwnsOpen); err != nil {
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
	return answerToken(c, http.StatusOK, changed, "", err)
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
	return takeExpires(o, &t.Expires)
}

// takeExpires sets when something expires, if an object says so. null means never.
func takeExpires(o object, to *time.Time) error {
	if _, there := o["expires"]; !there {
		return nil
	}
	if o.null("expires") {
		*to = time.Time{}
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
	*to = expires.Time
	return nil
}

// delete answers DELETE /tokens/{name}.
func (r tokenRoutes) delete(c *gin.Context) error {
	may, err := readMatch(c)
	if err != nil {
		return err
	}
	removed, err := r.tokens.Delete(c.Request.Context(), c.Param("name"), may)
	return answerRemoval(c, removed, err)
}

// readMatch reads a request without parameters, and returns what checks whether its If-Match is
// that of the token.
func readMatch(c *gin.Context) (may func(*access.Token) error, err error) {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return nil, err
	}
	match, err := readIfMatch(c.Request)
	return func(t *access.Token) error { return match.check(t.Revision) }, err
}

// answerRemoval says that something was removed, and which version of its token that is.
func answerRemoval(c *gin.Context, t access.Token, err error) error {
	if err != nil {
		return err
	}
	setRevision(c, t.Revision)
	c.Writer.Header()["Cache-Control"] = noStore
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// listSecrets answers GET /tokens/{name}/secrets.
func (r tokenRoutes) listSecrets(c *gin.Context) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	t, err := r.tokens.Get(c.Request.Context(), c.Param("name"))
	if err != nil {
		return err
	}
	answerOf(c, http.StatusOK, t, struct {
		Secrets []shownSecret `json:"secrets"`
	}{showSecrets(t)})
	return nil
}

const secretsRoute = "/tokens/:name/secrets"

// hasBody reports whether a request has a body.
func hasBody(c *gin.Context) bool { return c.Request.ContentLength != 0 }

// addSecret answers POST /tokens/{name}/secrets, which needs no body. Only this answer contains the
// secret.
func (r tokenRoutes) addSecret(c *gin.Context) error {
	may, err := readMatch(c)
	if err != nil {
		return err
	}
	var expires time.Time
	if hasBody(c) {
		o, err := readObject(body(c), "expires")
		if err != nil {
			return err
		}
		if err := takeExpires(o, &expires); err != nil {
			return err
		}
	}
	t, secret, err := r.tokens.AddSecret(c.Request.Context(), c.Param("name"), maker(c), expires, may)
	if err != nil {
		return err
	}
	shown := showSecret(&t, len(t.Secrets)-1)
	shown.Secret = secret
	c.Writer.Header()["Location"] = []string{"secrets/" + shown.ID}
	answerOf(c, http.StatusCreated, t, shown)
	return nil
}

// removeSecret answers DELETE /tokens/{name}/secrets/{secret}.
func (r tokenRoutes) removeSecret(c *gin.Context) error {
	may, err := readMatch(c)
	if err != nil {
		return err
	}
	changed, err := r.tokens.RemoveSecret(c.Request.Context(), c.Param("name"), c.Param("secret"), may)
	return answerRemoval(c, changed, err)
}

// shownMade is a secret that a token has made.
type shownMade struct {
	Caller string `json:"caller"`
	shownSecret
	// Deleted is true if its token was deleted with it.
	Deleted bool `json:"deleted,omitempty"`
}

const madeRoute = "/tokens/:name/made"

// listMade answers GET /tokens/{name}/made.
func (r tokenRoutes) listMade(c *gin.Context) error { return r.answerMade(c, r.tokens.Made) }

// revokeMade answers DELETE /tokens/{name}/made.
func (r tokenRoutes) revokeMade(c *gin.Context) error { return r.answerMade(c, r.tokens.RevokeMade) }

// answerMade answers with what f returns for the name in the path.
func (r tokenRoutes) answerMade(c *gin.Context, f func(context.Context, string) ([]access.Made, error)) error {
	if _, err := readQuery(c.Request.URL.RawQuery); err != nil {
		return err
	}
	if name := c.Param("name"); name != access.Nobody && seqd.CheckName(name) != nil {
		return seqd.Errorf(seqd.CodeInvalidRequest, "%.70q is neither the name of a token nor %s, which stands for nobody", name, access.Nobody)
	}
	made, err := f(c.Request.Context(), c.Param("name"))
	if err != nil {
		return err
	}
	shown := make([]shownMade, 0, len(made))
	for _, m := range made {
		shown = append(shown, shownMade{Caller: m.Token, shownSecret: showMade(&m.Secret), Deleted: m.Deleted})
	}
	c.Writer.Header()["Cache-Control"] = noStore
	writeJSON(c, http.StatusOK, jsonType, struct {
		Secrets []shownMade `json:"secrets"`
	}{shown})
	return nil
}
