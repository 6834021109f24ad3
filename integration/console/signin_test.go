package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/console/browser"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// expectStatus says that requests of the page may get these statuses.
func expectStatus(p *browser.Page, statuses ...string) {
	for _, status := range statuses {
		p.Expect("^network: Failed to load resource: the server responded with a status of " + status)
	}
}

// Behind a proxy that publishes a node below a path, the console works from that path on.
func TestBelowPath(t *testing.T) {
	t.Parallel()
	w := alone(t, withTokens()...)
	proxy := httptest.NewServer(http.StripPrefix("/a/ids", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", w.nodes[0].HTTP, r.In.Host
	}}))
	t.Cleanup(proxy.Close)
	p := browser.Open(t, proxy.URL)
	expectStatus(p, "401") // the page may just ask for something when the session ends
	p.Go("/a/ids/")
	w.signIn(p, adminSecret)
	p.See(proxy.URL + "/a/ids/seq/NAME")
	p.Click("link", "Biz types")
	p.Find("link", "invoice")
	p.Reload()
	p.Click("link", "invoice")
	p.Find("heading", "invoice")
	p.Click("button", "Sign out")
	p.Find("heading", "Sign in")
}

// endSession ends the session of the page on all nodes, as time does.
func (w *world) endSession(p *browser.Page) {
	w.Helper()
	cookies := p.Cookies()
	if len(cookies) != 1 {
		w.Fatalf("the page has the cookies %v, want 1", cookies)
	}
	w.curl(http.StatusNoContent, "DELETE", "/console/session", "", "Authorization", "", "Seqd-Console", "1", "Cookie", cookies[0].Name+"="+cookies[0].Value)
}

// Somebody signs in with a token, on any node, until they sign out.
func TestSignIn(t *testing.T) {
	t.Parallel()
	w := three(t, withTokens()...)
	p := browser.Open(t, w.url)
	expectStatus(p, "401")
	p.Go("/console#/access")
	p.Find("heading", "Sign in")
	p.Looks("sign-in")
	p.Axe("sign-in")

	p.Click("button", "Sign in")
	p.See("Enter a token.")
	p.Type("Token", "seqd_wrong")
	p.Click("button", "Sign in")
	p.See("This token is wrong, has expired, or is disabled.")
	if e := p.FindField("Token"); e.Properties["invalid"] != "true" || !strings.Contains(e.Description, "wrong") {
		t.Errorf("the field is not marked as wrong: %+v", e)
	}
	p.Shot("sign-in-wrong")
	p.Axe("sign-in with a wrong token")

	p.Press("Shift+Tab") // out of the field, and back
	p.Type("Token", " "+adminSecret+" ")
	p.Press("Enter")
	p.Find("heading", "Access") // where they wanted to go
	p.See("ops")
	for range 6 { // every node knows the session
		p.Reload()
		p.Find("heading", "Access")
		p.Find("button", "Sign out")
	}
	cookies := p.Cookies()
	if len(cookies) != 1 {
		t.Fatalf("the cookies are %v", cookies)
	}
	if c := cookies[0]; !c.HTTPOnly || c.SameSite != "Strict" || c.Path != "/console" || strings.Contains(c.Value, adminSecret) {
		t.Errorf("the cookie is %+v", c)
	}

	p.Click("button", "Sign out")
	p.Find("heading", "Sign in")
	if p.Shows("ops") {
		t.Error("the page still shows who was signed in")
	}
	if left := p.Cookies(); len(left) > 0 {
		t.Errorf("after sign-out there are the cookies %v", left)
	}
	// The former cookie is worth nothing on any node.
	for _, n := range w.nodes {
		a, err := n.Node.Do("GET", "/console/api/biz-types", "", "Seqd-Console", "1", "Cookie", cookies[0].Name+"="+cookies[0].Value)
		if err != nil || a.Status != http.StatusUnauthorized {
			t.Errorf("after sign-out %s says %d, %v", n.HTTP, a.Status, err)
		}
	}
}

// Somebody signs out while the store is away: the browser forgets the session, and the page says what
// that does not do.
func TestSignOutStoreAway(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := threeOnPostgres(t, withTokens()...)
	p := w.visit("#/biz-types")
	expectStatus(p, "503", "504", "401") // 401 if the page asks for something just when the session ends
	p.See("order")
	w.store.Kill()
	p.Click("button", "Sign out")
	dialog := p.In("dialog", "This browser is signed out")
	dialog.See("The store does not know", "a copy of the cookie could be used")
	if left := p.Cookies(); len(left) > 0 {
		t.Errorf("after sign-out there are the cookies %v", left)
	}
	dialog.Click("button", "Close")
	p.Find("heading", "Sign in")
}

// Guessing is slowed down, and the page says so.
func TestSignInTooOften(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	p := browser.Open(t, w.url)
	expectStatus(p, "401", "429")
	p.Go("/console")
	for range 6 {
		if p.Shows("Too many attempts.") {
			break
		}
		p.Type("Token", "seqd_guess")
		before := len(p.Requests())
		p.Click("button", "Sign in")
		p.AwaitThat("the attempt was sent", func() bool { return len(p.Requests()) > before })
		p.Find("button", "Sign in")
	}
	p.See("Too many attempts. Try again in")
	p.Looks("sign-in-too-often")
}

// A session that has ended asks for sign-in over the page: what was typed stays, and then the
// request is sent.
func TestSessionEnds(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	p := w.visit("#/biz-types/order/numbers")
	expectStatus(p, "401")
	p.Type("How many*", "3")
	w.endSession(p)
	p.Click("button", "Take*")
	dialog := p.In("dialog", "Sign in again")
	dialog.See("The session of ops has ended.", "kept")
	p.Looks("sign-in-again")
	p.Axe("sign-in-again")
	dialog.Type("Token", adminSecret)
	dialog.Click("button", "Sign in")
	p.AwaitNone("dialog", "Sign in again")
	p.See("100", "101", "102")
	must.Equal(t, p.Value("How many*"), "3", "the field, as it was typed,")
}

// A token that is disabled ends its sessions.
func TestTokenDisabled(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w, p, secret := asGuest(t)
	p.See("guest", "order")
	w.curl(http.StatusOK, "PATCH", "/tokens/guest", `{"enabled":false}`)
	p.Click("link", "order")
	dialog := p.In("dialog", "Sign in again")
	dialog.See("The session of guest has ended.")
	dialog.Type("Token", secret)
	dialog.Click("button", "Sign in")
	dialog.See("This token is wrong, has expired, or is disabled.")
	dialog.Type("Token", readSecret)
	dialog.Click("button", "Sign in")
	p.Find("heading", "order")
	p.See("viewer", "segment")
}

// A token that expires ends its sessions, too.
func TestTokenExpires(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w, p, _ := asGuest(t)
	p.Type("Search", "ord")
	var expires time.Time
	lead := 2 * time.Second
	await.Eventually(t, "the change arrives before that time", func() error {
		expires = time.Now().Add(lead)
		lead *= 2
		a, err := w.nodes[0].Node.Do("PATCH", "/tokens/guest", fmt.Sprintf(`{"expires":%q}`, expires.UTC().Format(time.RFC3339Nano)), "Authorization", "Bearer "+adminSecret)
		if err == nil && a.Status != http.StatusOK {
			err = errors.New(a.Body)
		}
		return err
	})
	await.True(w, "the token expires", func() bool { return time.Now().After(expires) })
	p.Type("Search", "invoi")
	dialog := p.In("dialog", "Sign in again")
	dialog.See("The session of guest has ended.")
	dialog.Type("Token", readSecret)
	dialog.Click("button", "Sign in")
	p.See("1 biz type", "invoice")
	must.Equal(t, p.Value("Search"), "invoi", "the search")
}

// asGuest shows the list of biz types to somebody whose token, guest, may read. It can be changed.
func asGuest(t *testing.T) (w *world, p *browser.Page, secret string) {
	t.Helper()
	w = alone(t, withTokens()...)
	secret = createToken(w, `{"name":"guest","scopes":["read"]}`)
	p = browser.Open(t, w.url)
	expectStatus(p, "401")
	p.Go("/console#/biz-types")
	w.signIn(p, secret)
	return w, p, secret
}

// createToken creates a token with curl, and returns its secret.
func createToken(w *world, body string) string {
	w.Helper()
	return field(decode(w, w.curl(http.StatusCreated, "POST", "/tokens", body).body), "secret")
}

// refusedAt waits until a field is marked as wrong, and says why to a screen reader.
func refusedAt(p *browser.Page, label string) {
	p.AwaitThat(label+" is marked as wrong", func() bool {
		e := p.FindField(label)
		return e.Properties["invalid"] == "true" && e.Description != ""
	})
}
