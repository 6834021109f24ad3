package console

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/httpapi"
)

// longestSignIn is the most bytes of the body of a sign-in.
const longestSignIn = 4096

var jsonType = []string{"application/json"}

// shownSession is the answer of GET /console/session.
type shownSession struct {
	TokensAskedFor bool     `json:"tokensAskedFor"`
	SignedIn       bool     `json:"signedIn"`
	Caller         string   `json:"caller,omitempty"`
	Scopes         []string `json:"scopes,omitempty"`
	Expires        string   `json:"expires,omitempty"`
	// NodeID and Build are not for strangers.
	NodeID string `json:"nodeId,omitempty"`
	Build  string `json:"build,omitempty"`
	// Encrypted is whether the browser uses HTTPS, as far as this node knows.
	Encrypted bool `json:"encrypted"`
}

// signedIn is the answer of POST /console/session.
type signedIn struct {
	Caller  string   `json:"caller"`
	Scopes  []string `json:"scopes"`
	Expires string   `json:"expires"`
}

// session answers /console/session.
func (c *Console) session(v *httpapi.Visit) error {
	if err := checkPage(v.Request()); err != nil {
		return err
	}
	if v.Request().URL.RawQuery != "" { // which the audit line would show
		return seqd.Errorf(seqd.CodeInvalidRequest, "%s has no parameters", sessionPath)
	}
	switch v.Request().Method {
	case http.MethodPost:
		return c.signIn(v)
	case http.MethodDelete:
		return c.signOut(v)
	}
	return c.showSession(v)
}

// showSession answers GET /console/session.
func (c *Console) showSession(v *httpapi.Visit) error {
	shown := shownSession{TokensAskedFor: c.opts.TokensAskedFor, Encrypted: c.encrypted(v.Request())}
	if c.opts.TokensAskedFor {
		token, until, err := c.whoIs(v.Request())
		switch {
		case err == nil:
			shown.SignedIn, shown.Caller, shown.Scopes = true, token.Name, token.Scopes
			shown.Expires = admin.Time(until)
			v.As(token.Identity(), "")
		case seqd.CodeOf(err) != seqd.CodeUnauthorized:
			return err
		}
	}
	if shown.SignedIn || !shown.TokensAskedFor {
		_, shown.NodeID = c.opts.Store()
		shown.Build = c.opts.Build
	}
	answer(v, http.StatusOK, shown)
	return nil
}

// whoIs returns the token of the session of a request, and when the session ends, in ms since the
// Unix epoch.
func (c *Console) whoIs(r *http.Request) (token access.Token, until int64, err error) {
	of, err := c.sessionOf(r)
	if err != nil {
		return token, 0, err
	}
	if token, err = c.tokenOf(of.Token); err != nil {
		return token, 0, err
	}
	return token, endOf(of.Expires, token), nil
}

// sessionOf returns the session of a request, or errNoSession.
func (c *Console) sessionOf(r *http.Request) (session, error) {
	cookie, ok := c.cookieOf(r)
	if !ok {
		return session{}, errNoSession
	}
	return c.sessions.find(r.Context(), cookie, c.caller(r))
}

// tokenOf returns the token that has a secret.
func (c *Console) tokenOf(secret string) (access.Token, error) {
	digest, _ := access.DigestOfSecret(secret) // no token has the digest of a secret that is none
	return c.opts.Tokens.Find(&digest)
}

// endOf returns the earlier end of a session and its token, in ms since the Unix epoch.
func endOf(session int64, token access.Token) int64 {
	if token.Expires.IsZero() {
		return session
	}
	return min(session, token.Expires.UnixMilli())
}

// signIn answers POST /console/session.
func (c *Console) signIn(v *httpapi.Visit) error {
	if !c.opts.TokensAskedFor {
		return errNoSignIn
	}
	if _, err := c.sessions.store(); err != nil {
		return err
	}
	text, err := v.Text("token")
	if err != nil {
		return err
	}
	secret := strings.TrimSpace(text)
	token, err := c.admit(v.Request(), secret)
	v.As(token.Identity(), "")
	if err != nil {
		return err
	}
	now := c.opts.Clock()
	of := session{Token: secret, Expires: endOf(now.Add(c.opts.Session).UnixMilli(), token)}
	made, err := c.sessions.create(v.Context(), of)
	if err != nil {
		return err
	}
	if former, ok := c.cookieOf(v.Request()); ok {
		_ = c.sessions.end(v.Context(), former) // if that fails, it ends by time
	}
	c.setCookie(v, made.cookie(), time.UnixMilli(of.Expires).Sub(now))
	answer(v, http.StatusOK, signedIn{Caller: token.Name, Scopes: token.Scopes, Expires: admin.Time(of.Expires)})
	return nil
}

var errNoSignIn = seqd.Errorf(seqd.CodeConflict, "this node asks nobody for a token, so nobody has to sign in")

// admit returns the token that has a secret, unless there were too many attempts.
func (c *Console) admit(r *http.Request, secret string) (access.Token, error) {
	undo, err := c.failures.take(c.caller(r))
	if err != nil {
		return access.Token{}, err
	}
	token, err := c.tokenOf(secret)
	switch {
	case err == nil:
		undo()
		_, err = c.signIns.take(token.Name)
		return token, err
	case seqd.CodeOf(err) == seqd.CodeUnauthorized:
		return access.Token{}, seqd.Errorf(seqd.CodeUnauthorized, "there is no token with this secret that is enabled and has not expired")
	}
	undo()
	return access.Token{}, err
}

// signOut answers DELETE /console/session. The browser forgets the session even if the store does
// not answer.
func (c *Console) signOut(v *httpapi.Visit) error {
	if !c.opts.TokensAskedFor {
		return errNoSignIn
	}
	c.setCookie(v, "", 0)
	of, err := c.sessionOf(v.Request())
	if err != nil {
		return err
	}
	if token, err := c.tokenOf(of.Token); err == nil {
		v.As(token.Identity(), "")
	}
	cookie, _ := c.cookieOf(v.Request()) // it is that of the session
	if err := c.sessions.end(v.Context(), cookie); err != nil {
		return err
	}
	v.Answer(http.StatusNoContent, nil, nil)
	return nil
}

// cookieName is the name of the cookie, which has a prefix if the browser uses HTTPS: then nothing
// that is not encrypted can set it.
const cookieName, secureCookieName = "seqd-console", "__Secure-seqd-console"

func (c *Console) cookieName(r *http.Request) string {
	if c.encrypted(r) {
		return secureCookieName
	}
	return cookieName
}

// cookieOf returns the cookie of a request. Of several with this name nobody knows which the page
// has set, so they are as none.
func (c *Console) cookieOf(r *http.Request) (value string, ok bool) {
	list := r.CookiesNamed(c.cookieName(r))
	if len(list) != 1 {
		return "", false
	}
	return list[0].Value, true
}

// setCookie sets the cookie for some time, or removes it if that is 0. It names no path: then the
// cookie is valid for the folder of /console/session, below the path of any proxy. The session ends
// on time whatever the browser does, so seconds are rounded up.
func (c *Console) setCookie(v *httpapi.Visit, value string, life time.Duration) {
	cookie := http.Cookie{
		Name: c.cookieName(v.Request()), Value: value, MaxAge: int(math.Ceil(life.Seconds())),
		Secure: c.encrypted(v.Request()), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
	if cookie.MaxAge <= 0 {
		cookie.MaxAge = -1 // that is how package http says 0
	}
	v.Header().Set("Set-Cookie", cookie.String())
}

// answer answers with a value, which can be encoded.
func answer(v *httpapi.Visit, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	v.Answer(status, jsonType, append(body, '\n'))
}
