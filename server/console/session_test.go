package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// wantSignedOut checks that a node lets nobody in with a cookie.
func (n *node) wantSignedOut(cookie string) {
	n.w.t.Helper()
	want(n.w.t, n.page("GET", "/console/api/biz-types", "", with(cookie)), http.StatusUnauthorized, "unauthorized")
	if s := n.session(with(cookie)); s.SignedIn || s.NodeID != "" || s.Build != "" || s.Caller != "" || s.Scopes != nil || s.Expires != "" || !s.TokensAskedFor {
		n.w.t.Errorf("the session is %+v", s)
	}
}

// wantSignedIn checks that a node lets the token ops in with a cookie.
func (n *node) wantSignedIn(cookie string) {
	n.w.t.Helper()
	want(n.w.t, n.page("GET", "/console/api/seq/order", "", with(cookie)), http.StatusOK, "")
	if s := n.session(with(cookie)); !s.SignedIn || s.NodeID != "node-1" || s.Build != "v1" || s.Caller != "ops" {
		n.w.t.Errorf("the session is %+v", s)
	}
}

func TestLifeOfASession(t *testing.T) {
	w := newWorld(t)
	one, two := w.node(), w.node()
	one.wantSignedOut("")
	answer := one.page("POST", "/console/session", signInWith("  "+opsSecret+"\n"))
	want(t, answer, http.StatusOK, "")
	const body = `{"caller":"ops","scopes":["admin","issue:*"],"expires":"2026-11-23T16:00:00.000Z"}` + "\n"
	if got := answer.Body.String(); got != body || answer.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the answer is %s, want %s", got, body)
	}
	cookie := cookieIn(t, answer)
	if got, wanted := answer.Header().Get("Set-Cookie"), "seqd-console="+cookie.Value+"; Max-Age=28800; HttpOnly; SameSite=Strict"; got != wanted {
		t.Errorf("the cookie is %s, want %s", got, wanted)
	}
	if s := two.session(with(cookie.Value)); s.Expires != "2026-11-23T16:00:00.000Z" || len(s.Scopes) != 2 {
		t.Errorf("the session is %+v", s)
	}
	one.wantSignedIn(cookie.Value)
	two.wantSignedIn(cookie.Value) // every node knows every session

	answer = two.page("DELETE", "/console/session", "", with(cookie.Value))
	want(t, answer, http.StatusNoContent, "")
	if got := answer.Header().Get("Set-Cookie"); got != "seqd-console=; Max-Age=0; HttpOnly; SameSite=Strict" {
		t.Errorf("the sign-out sets %s", got)
	}
	two.wantSignedOut(cookie.Value)
	one.wantSignedOut(cookie.Value) // although it has seen the session
	if list := w.sessions(); len(list) != 0 {
		t.Errorf("there are %d sessions left", len(list))
	}
	want(t, two.page("DELETE", "/console/session", "", with(cookie.Value)), http.StatusUnauthorized, "unauthorized")
	want(t, two.page("DELETE", "/console/session", ""), http.StatusUnauthorized, "unauthorized")
	w.store.setAway(true)
	for _, n := range []*node{one, two} { // neither remembers it
		want(t, n.page("GET", "/console/api/seq/order", "", with(cookie.Value)), http.StatusServiceUnavailable, "store_unavailable")
	}
}

func TestSignInAgain(t *testing.T) {
	w := newWorld(t)
	n := w.node()
	former := n.signIn(readerSecret)
	answer := n.page("POST", "/console/session", signInWith(opsSecret), with(former))
	want(t, answer, http.StatusOK, "")
	n.wantSignedOut(former)
	n.wantSignedIn(cookieIn(t, answer).Value)
	// a sign-in that fails ends nothing
	want(t, n.page("POST", "/console/session", signInWith("wrong"), with(cookieIn(t, answer).Value)), http.StatusUnauthorized, "unauthorized")
	n.wantSignedIn(cookieIn(t, answer).Value)
}

func TestSessionsEndByTime(t *testing.T) {
	w := newWorld(t)
	n, other := w.node(func(s *settings) { s.ahead = -9 * time.Hour }), w.node(func(s *settings) { s.ahead = 9 * time.Hour })
	long, short := n.signIn(opsSecret), n.signIn(briefSecret)
	if s := n.session(with(short)); s.Caller != "brief" || s.Expires != "2026-11-23T09:00:00.000Z" {
		t.Errorf("the session outlives its token: %+v", s)
	}
	w.pass(time.Hour - time.Millisecond)
	want(t, n.page("GET", "/console/api/biz-types/none/history", "", with(short)), http.StatusNotFound, "unknown_biz_type")
	w.pass(time.Millisecond)
	n.wantSignedOut(short)
	other.wantSignedOut(short)
	n.wantSignedIn(long)
	w.pass(7*time.Hour - time.Millisecond)
	n.wantSignedIn(long)
	w.pass(time.Millisecond)
	n.wantSignedOut(long)
	other.wantSignedOut(long)
}

// A session ends with its token, at once.
func TestSessionsEndWithTheirToken(t *testing.T) {
	w := newWorld(t)
	n := w.node()
	admin := with(n.signIn(opsSecret))
	made := n.page("POST", "/console/api/tokens", `{"name":"made","scopes":["read"]}`, admin)
	want(t, made, http.StatusCreated, "")
	var token struct{ Secret string }
	must.Do(t, json.Unmarshal(made.Body.Bytes(), &token))
	cookie := n.signIn(token.Secret)
	read := func() *httptest.ResponseRecorder { return n.page("GET", "/console/api/tokens", "", with(cookie)) }
	change := func(body string) {
		want(t, n.page("PATCH", "/console/api/tokens/made", body, admin), http.StatusOK, "")
	}
	want(t, read(), http.StatusOK, "")
	change(`{"enabled":false}`)
	n.wantSignedOut(cookie)
	want(t, n.page("POST", "/console/session", signInWith(token.Secret)), http.StatusUnauthorized, "unauthorized")
	change(`{"enabled":true}`)
	want(t, read(), http.StatusOK, "")
	change(`{"scopes":["issue:x"]}`)
	want(t, read(), http.StatusForbidden, "forbidden")
	change(`{"scopes":["read"],"expires":"2026-11-23T08:30:00Z"}`)
	if s := n.session(with(cookie)); s.Expires != "2026-11-23T08:30:00.000Z" {
		t.Errorf("the session is %+v", s)
	}
	w.pass(30 * time.Minute)
	n.wantSignedOut(cookie)
	change(`{"expires":null}`)
	want(t, read(), http.StatusOK, "")
	want(t, n.page("DELETE", "/console/api/tokens/made", "", admin), http.StatusNoContent, "")
	n.wantSignedOut(cookie)
}

// What is in the store lets nobody in, and does not contain the token.
func TestStolenDocuments(t *testing.T) {
	w := newWorld(t)
	n := w.node()
	cookie, other := n.signIn(opsSecret), n.signIn(readerSecret)
	list := w.sessions()
	if len(list) != 2 {
		t.Fatalf("there are %d sessions, want 2", len(list))
	}
	for _, doc := range list {
		if text := doc.Key + doc.Body; strings.Contains(text, opsSecret) || strings.Contains(text, "ops") || strings.Contains(text, cookie) {
			t.Errorf("the document is %+v", doc)
		}
		must.Equal(t, doc.Expires, w.clock().Add(8*time.Hour).UnixMilli(), "the document expires at")
		for _, guess := range []string{doc.Key, doc.Body, doc.Body[:43], doc.Key[:43]} {
			n.wantSignedOut(guess)
		}
	}
	// a document cannot take the place of another, nor be extended or changed
	for i, doc := range list {
		stolen := doc
		stolen.Revision, stolen.Body = 2, list[1-i].Body
		must.Do(t, w.store.Update(t.Context(), stolen))
	}
	n.wantSignedOut(cookie)
	n.wantSignedOut(other)
	for i, doc := range list {
		damaged := doc
		damaged.Revision, damaged.Body = 3, []string{"", "not sealed"}[i]
		must.Do(t, w.store.Update(t.Context(), damaged))
	}
	n.wantSignedOut(cookie)
	n.wantSignedOut(other)
	for _, doc := range list {
		doc.Revision, doc.Expires = 4, doc.Expires+int64(24*time.Hour/time.Millisecond)
		must.Do(t, w.store.Update(t.Context(), doc))
	}
	n.wantSignedIn(cookie)
	w.pass(8 * time.Hour)
	n.wantSignedOut(cookie)
}

func TestCookies(t *testing.T) {
	n := newWorld(t).node()
	cookie := n.signIn(opsSecret)
	n.wantSignedIn(cookie)
	flipped := "A" + cookie[1:]
	if flipped == cookie {
		flipped = "B" + cookie[1:]
	}
	for _, value := range []string{
		"", "x", flipped, cookie[:42], cookie + "A", cookie + "=", strings.Repeat("A", 43), strings.ToUpper(cookie), cookie[:42] + "!",
	} {
		n.wantSignedOut(value)
	}
	// a page on a name beside this one may set a second cookie: nobody knows which is right
	n.wantSignedOut(cookie + "; seqd-console=" + strings.Repeat("A", 43))
	n.wantSignedOut(strings.Repeat("A", 43) + "; seqd-console=" + cookie)
	want(t, n.page("GET", "/console/api/seq/order", "", "Cookie: a=b; seqd-console="+cookie+"; c=d"), http.StatusOK, "")
	want(t, n.page("GET", "/console/api/seq/order", "", "Cookie: __Secure-seqd-console="+cookie), http.StatusUnauthorized, "unauthorized")
}

// With HTTPS the cookie is for HTTPS alone. A proxy may say so, if it is trusted.
func TestSecureCookies(t *testing.T) {
	proxied := func(s *settings) { s.proxies = []string{"192.0.2.0/24"} }
	for name, tt := range map[string]struct {
		change func(*settings)
		header string
		secure bool
	}{
		"TLS":                      {func(s *settings) { s.tls = true }, "X: y", true},
		"TLS whatever callers say": {func(s *settings) { s.tls = true }, "X-Forwarded-Proto: http", true},
		"trusted proxy":            {proxied, "X-Forwarded-Proto: https", true},
		"trusted proxies":          {proxied, "X-Forwarded-Proto: HTTPS, http", true},
		"trusted proxy with HTTP":  {proxied, "X-Forwarded-Proto: http", false},
		"trusted proxy is silent":  {proxied, "X: y", false},
		"one trusted address":      {func(s *settings) { s.proxies = []string{"192.0.2.1"} }, "X-Forwarded-Proto: https", true},
		"stranger":                 {func(s *settings) { s.proxies = []string{"192.0.2.2"} }, "X-Forwarded-Proto: https", false},
		"nobody is trusted":        {func(*settings) {}, "X-Forwarded-Proto: https", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newWorld(t).node(tt.change)
			answer := n.page("POST", "/console/session", signInWith(opsSecret), tt.header)
			want(t, answer, http.StatusOK, "")
			cookie := cookieIn(t, answer)
			if cookie.Secure != tt.secure || strings.HasPrefix(cookie.Name, "__Secure-") != tt.secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "" || cookie.Domain != "" {
				t.Errorf("the cookie is %s", cookie)
			}
			if s := n.session(tt.header, "Cookie: "+cookie.Name+"="+cookie.Value); !s.SignedIn || s.Encrypted != tt.secure {
				t.Errorf("the session is %+v", s)
			}
			if s := n.session(tt.header, "Cookie: "+strings.Replace("__Secure-"+cookie.Name, "__Secure-__Secure-", "", 1)+"="+cookie.Value); s.SignedIn {
				t.Error("a cookie for the other scheme is accepted")
			}
		})
	}
}

func TestBodiesOfSignIns(t *testing.T) {
	n := newWorld(t).node()
	for body, status := range map[string]int{
		`{"token":"` + opsSecret + `"}`:             200,
		`{}`:                                        400,
		`{"token":null}`:                            400,
		`{"token":7}`:                               400,
		`{"token":["` + opsSecret + `"]}`:           400,
		`{"token":"` + opsSecret + `","x":1}`:       400,
		`{"Token":"` + opsSecret + `"}`:             400,
		`{"token":"` + opsSecret + `","token":"x"}`: 400,
		`["` + opsSecret + `"]`:                     400,
		`"` + opsSecret + `"`:                       400,
		`{"token":"` + opsSecret + `"} x`:           400,
		`token=` + opsSecret:                        400,
		"\xff":                                      400,
		`{"token":"` + strings.Repeat("x", 4096-12) + `"}`: 401,
		`{"token":"` + strings.Repeat("x", 4096-11) + `"}`: 413,
		`{"token":"` + strings.Repeat("x", 10_000) + `"}`:  413,
		`{"token":""}`:    401,
		`{"token":"a b"}`: 401,
		`{"token":"` + opsSecret + "\\u0000" + `"}`:      401,
		`{"token":"Bearer ` + opsSecret + `"}`:           401,
		`{"token":"` + strings.ToUpper(opsSecret) + `"}`: 401,
		`{"token":"` + strings.Repeat("x", 257) + `"}`:   401,
		`{"token":"` + "é" + `"}`:                        401,
	} {
		n.w.pass(time.Minute) // so that no limit is reached
		if w := n.page("POST", "/console/session", body); w.Code != status {
			t.Errorf("%.60s got %d, want %d: %s", body, w.Code, status, w.Body)
		} else if strings.Contains(w.Body.String(), opsSecret) {
			t.Errorf("%.60s: the answer repeats the secret: %s", body, w.Body)
		}
	}
	n.w.pass(time.Minute)
	want(t, n.page("POST", "/console/session", ""), http.StatusBadRequest, "invalid_request")
	for _, query := range []string{"dryRun=true", "token=" + opsSecret, "x"} {
		want(t, n.page("POST", "/console/session?"+query, signInWith(opsSecret)), http.StatusBadRequest, "invalid_request")
		want(t, n.page("GET", "/console/session?"+query, ""), http.StatusBadRequest, "invalid_request")
	}
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
		want(t, n.page("POST", "/console/session", signInWith(opsSecret), "Content-Type: "+media), http.StatusUnsupportedMediaType, "unsupported_media_type")
	}
}

// While the store is away, who was signed in can look for 15 minutes. Nobody else gets in, and
// nobody is told that a session has ended.
func TestStoreAway(t *testing.T) {
	w := newWorld(t)
	n, other := w.node(), w.node()
	cookie := n.signIn(opsSecret)
	w.store.setAway(true)
	n.wantSignedIn(cookie)
	for _, path := range []string{"/console/api/seq/order", "/console/session"} {
		answer := other.page("GET", path, "", with(cookie))
		want(t, answer, http.StatusServiceUnavailable, "store_unavailable")
		if answer.Header().Get("Retry-After") == "" || len(answer.Result().Cookies()) > 0 {
			t.Errorf("%s: the headers are %v", path, answer.Header())
		}
	}
	want(t, other.page("GET", "/console/api/readyz", "", with(cookie)), http.StatusOK, "") // which strangers may ask
	want(t, n.page("POST", "/console/session", signInWith(opsSecret)), http.StatusServiceUnavailable, "store_unavailable")
	want(t, n.page("POST", "/console/session", signInWith("wrong")), http.StatusUnauthorized, "unauthorized")
	want(t, n.page("GET", "/console/api/seq/order", ""), http.StatusUnauthorized, "unauthorized")

	w.pass(15*time.Minute - time.Second)
	n.wantSignedIn(cookie)
	w.pass(time.Second)
	want(t, n.page("GET", "/console/api/seq/order", "", with(cookie)), http.StatusServiceUnavailable, "store_unavailable")
	w.store.setAway(false)
	n.wantSignedIn(cookie)

	// A sign-out that the store does not hear of is one of this browser.
	w.store.setAway(true)
	answer := n.page("DELETE", "/console/session", "", with(cookie))
	want(t, answer, http.StatusServiceUnavailable, "store_unavailable")
	if got := cookieIn(t, answer); got.MaxAge >= 0 || got.Value != "" {
		t.Errorf("the cookie is %s", got)
	}
	want(t, n.page("GET", "/console/api/seq/order", "", with(cookie)), http.StatusServiceUnavailable, "store_unavailable")
}

// A store that hangs delays requests once, not each of them.
func TestStoreThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node()
		cookie := n.signIn(opsSecret)
		n.documents = hanging{w.store}
		for i, most := range []time.Duration{2 * time.Second, 0, 0} {
			begin := time.Now()
			want(t, n.page("GET", "/console/api/seq/order", "", with(cookie)), http.StatusOK, "")
			if took := time.Since(begin); took != most {
				t.Errorf("request %d took %s, want %s", i, took, most)
			}
		}
		w.pass(time.Second)
		begin := time.Now()
		n.wantSignedIn(cookie)
		must.Equal(t, time.Since(begin), 2*time.Second, "after a second the store was not asked again")
	})
}

// A caller that goes away says nothing of the store, which is asked again at once.
func TestCallerGoesAway(t *testing.T) {
	w := newWorld(t)
	n := w.node()
	cookie := n.signIn(opsSecret)
	n.documents = hanging{w.store}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	n.serve(request(t, "GET", "/console/api/seq/order", "", "Seqd-Console: 1", with(cookie)).WithContext(gone))
	n.documents = w.store
	looks := w.store.looks()
	want(t, n.page("GET", "/console/api/seq/order", "", with(cookie)), http.StatusOK, "")
	if got := w.store.looks() - looks; got != 1 {
		t.Errorf("the store was asked %d times, want once", got)
	}
}

func TestStarting(t *testing.T) {
	w := newWorld(t)
	cookie := w.node().signIn(opsSecret)
	n := w.node(func(s *settings) { s.noStore = true })
	want(t, n.page("POST", "/console/session", signInWith(opsSecret)), http.StatusServiceUnavailable, "starting")
	want(t, n.page("GET", "/console/session", "", with(cookie)), http.StatusServiceUnavailable, "starting")
	want(t, n.page("GET", "/console/api/biz-types", "", with(cookie)), http.StatusServiceUnavailable, "starting")
	want(t, n.page("GET", "/console/api/readyz", "", with(cookie)), http.StatusServiceUnavailable, "starting")
	want(t, n.page("GET", "/console/api/healthz", "", with(cookie)), http.StatusOK, "")
	if s := n.session(); s.SignedIn || !s.TokensAskedFor {
		t.Errorf("the session is %+v", s)
	}
	n.opened()
	n.wantSignedIn(cookie)
}

func TestDraining(t *testing.T) {
	n := newWorld(t).node()
	cookie := n.signIn(opsSecret)
	n.gate.Drain()
	for _, path := range []string{"/console/api/seq/order", "/console/session", "/console"} {
		if w := n.page("GET", path, "", with(cookie)); w.Code != http.StatusOK || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: %d, Connection is %q", path, w.Code, w.Header().Get("Connection"))
		}
	}
}

// Sign-in, sign-out and what is refused have audit lines. No line has a secret.
func TestAuditOfSessions(t *testing.T) {
	w := newWorld(t)
	n := w.node()
	cookie := n.signIn(opsSecret)
	n.page("POST", "/console/session", signInWith("seqd_wrong-secret"))
	n.raw("POST", "/console/session", signInWith(opsSecret))
	n.raw("POST", "/console/api/tokens", `{"name":"x"}`, with(cookie))
	n.page("POST", "/console/api/tokens", `{"name":"made","scopes":["read"]}`, with(cookie))
	n.page("GET", "/console/session", "", with(cookie))
	n.page("GET", "/console/api/seq/order?token="+opsSecret, "", with(cookie))
	n.page("GET", "/console/api/biz-types/"+opsSecret, "", with(cookie))
	n.page("GET", "/console/"+opsSecret+"/app.js", "", with(cookie))
	n.page("DELETE", "/console/session", "", with(cookie))
	w.store.setAway(true)
	n.page("POST", "/console/session", signInWith(opsSecret))
	type line struct {
		Msg, Caller, Method, Path string
		Status                    int
	}
	var got []line
	for text := range strings.Lines(w.logged()) {
		var l line
		must.Do(t, json.Unmarshal([]byte(text), &l))
		if l.Msg == "audit" {
			got = append(got, l)
		}
	}
	wanted := []line{
		{"audit", "ops", "POST", "/console/session", 200},
		{"audit", "", "POST", "/console/session", 401},
		{"audit", "", "POST", "/console/session", 403},
		{"audit", "", "POST", "/console/api/tokens", 403},
		{"audit", "ops", "POST", "/tokens", 201},
		{"audit", "ops", "DELETE", "/console/session", 204},
		{"audit", "ops", "POST", "/console/session", 503},
	}
	must.Equal(t, fmt.Sprint(got), fmt.Sprint(wanted), "the audit lines")
	for _, secret := range []string{opsSecret, "wrong-secret", cookie} {
		if strings.Contains(w.logged(), secret) {
			t.Errorf("%s is in the log: %s", secret, w.logged())
		}
	}
}

// Sessions that have ended are removed from the store.
func TestEndedSessionsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.node(func(s *settings) { s.ahead = 9 * time.Hour })
		n.signIn(opsSecret)
		n.signIn(briefSecret)
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { n.console.Tidy(ctx); close(done) }()
		for _, step := range []struct {
			passed time.Duration
			left   int
		}{{0, 2}, {2 * time.Hour, 2}, {time.Millisecond, 1}, {7 * time.Hour, 0}} {
			w.pass(step.passed)
			time.Sleep(11 * time.Minute) // of the bubble
			synctest.Wait()
			if got := len(w.sessions()); got != step.left {
				t.Errorf("after %s there are %d sessions, want %d", step.passed, got, step.left)
			}
		}
		cancel()
		<-done
	})
}

// slowDocuments are documents whose next read is answered when the test says so.
type slowDocuments struct {
	persist.Documents
	read, answer chan struct{}
}

func (d *slowDocuments) Read(ctx context.Context, kind, key string) (persist.Document, error) {
	doc, err := d.Documents.Read(ctx, kind, key)
	d.read <- struct{}{}
	<-d.answer
	return doc, err
}

// A request that asked the store just before a sign-out does not bring the session back to memory.
func TestSignOutDuringARequest(t *testing.T) {
	w := newWorld(t)
	n := w.node()
	cookie := n.signIn(opsSecret)
	slow := &slowDocuments{Documents: w.store, read: make(chan struct{}), answer: make(chan struct{})}
	n.documents = slow
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.page("GET", "/console/api/seq/order", "", with(cookie))
	}()
	<-slow.read
	n.documents = w.store
	want(t, n.page("DELETE", "/console/session", "", with(cookie)), http.StatusNoContent, "")
	close(slow.answer)
	<-ended
	w.store.setAway(true)
	want(t, n.page("GET", "/console/api/seq/order", "", with(cookie)), http.StatusServiceUnavailable, "store_unavailable")
}
