package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/persist/bolt"
	"github.com/seqd/seqd/server"
)

// browser keeps cookies, and sends what the page sends.
type browser struct {
	t      *testing.T
	client *http.Client
}

func newBrowser(t *testing.T, transport http.RoundTripper) *browser {
	t.Helper()
	jar := must.Get(cookiejar.New(nil))(t)
	return &browser{t: t, client: &http.Client{Jar: jar, Transport: transport}}
}

func (b *browser) do(method, target, body string) (status int, text string) {
	b.t.Helper()
	resp, text := b.send(method, target, body)
	return resp.StatusCode, text
}

// send returns the answer after redirects. Headers are pairs of name and value.
func (b *browser) send(method, target, body string, headers ...string) (resp *http.Response, text string) {
	b.t.Helper()
	r, err := http.NewRequest(method, target, strings.NewReader(body))
	must.Do(b.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Seqd-Console", "1")
	r.Header.Set("Origin", strings.Join(strings.SplitN(target, "/", 4)[:3], "/"))
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	resp, err = b.client.Do(r)
	must.Do(b.t, err)
	defer resp.Body.Close()
	data := must.Get(io.ReadAll(resp.Body))(b.t)
	return resp, string(data)
}

func (b *browser) want(status int, method, target, body string) string {
	b.t.Helper()
	got, text := b.do(method, target, body)
	if got != status {
		b.t.Fatalf("%s %s got %d, want %d: %s", method, target, got, status, text)
	}
	return text
}

// A session outlives the process that made it. Before the store is open, the page is served, and
// nobody is told that the session has ended.
func TestSessionOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	var log testlog.Text
	logger := server.WithLogger(slog.New(slog.NewJSONHandler(&log, nil)))
	s := start(t, load(t, withToken(path)), logger)
	s.await("/readyz", http.StatusOK)
	b := newBrowser(t, nil)
	b.want(401, "GET", s.url+"/console/api/biz-types", "")
	b.want(200, "POST", s.url+"/console/session", `{"token":"ops-secret"}`)
	b.want(200, "GET", s.url+"/console/api/biz-types", "")
	b.want(401, "GET", s.url+"/biz-types", "") // the cookie is for the console alone
	must.Do(t, s.stop())

	holder := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	// it has another port, which means nothing to a cookie
	s = start(t, load(t, withToken(path)), logger)
	if status, body := s.get("/console"); status != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("the page says %d: %s", status, body)
	}
	wantCode(t, b.want(503, "GET", s.url+"/console/session", ""), seqd.CodeStarting)
	wantCode(t, b.want(503, "GET", s.url+"/console/api/biz-types", ""), seqd.CodeStarting)
	wantCode(t, newBrowser(t, nil).want(503, "POST", s.url+"/console/session", `{"token":"ops-secret"}`), seqd.CodeStarting)
	must.Do(t, holder.Close())
	s.await("/readyz", http.StatusOK)
	b.want(200, "GET", s.url+"/console/api/biz-types", "")
	if text := b.want(200, "GET", s.url+"/console/session", ""); !strings.Contains(text, `"signedIn":true,"caller":"ops"`) || !strings.Contains(text, `"nodeId":"`) {
		t.Errorf("the session is %s", text)
	}
	b.want(204, "DELETE", s.url+"/console/session", "")
	b.want(401, "GET", s.url+"/console/api/biz-types", "")
	must.Equal(t, log.Count("ops-secret"), 0, "the log has the secret")
	if got := log.Count(`"msg":"audit","caller":"ops"`); got != 2 { // sign-in and sign-out
		t.Errorf("there are %d audit lines", got)
	}
}

// Behind a proxy that publishes a node below a path, everything works by what the node says about
// itself.
func TestBelowPath(t *testing.T) {
	s := start(t, load(t, withToken(filepath.Join(t.TempDir(), "seqd.db"))))
	s.await("/readyz", http.StatusOK)
	node := must.Get(url.Parse(s.url))(t)
	proxy := httptest.NewServer(http.StripPrefix("/a/ids", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(node)
		r.Out.Host = r.In.Host
	}}))
	t.Cleanup(proxy.Close)
	at, b := proxy.URL+"/a/ids", newBrowser(t, nil)
	for _, path := range []string{"/", "/?x=1", "/console", "/console/"} {
		resp, page := b.send("GET", at+path, "", "Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
		if resp.StatusCode != http.StatusOK || resp.Request.URL.Path != "/a/ids/console" {
			t.Fatalf("%s leads to %s, %d", path, resp.Request.URL, resp.StatusCode)
		}
		for _, link := range regexp.MustCompile(`(?:src|href)="([^"#]+)"`).FindAllStringSubmatch(page, -1) {
			if to := resolved(t, resp, link[1]); !strings.HasSuffix(to, "/docs") { // which needs a token
				b.want(200, "GET", to, "")
			} else if to != at+"/docs" {
				t.Errorf("the API is at %s", to)
			}
		}
	}
	wantCode(t, b.want(401, "GET", at+"/", ""), seqd.CodeUnauthorized) // no browser

	b.want(200, "POST", at+"/console/session", `{"token":"ops-secret"}`)
	resp, document := b.send("GET", at+"/console/api/openapi.json", "")
	if !strings.Contains(document, `"servers":[{"url":".",`) || resolved(t, resp, ".") != at+"/console/api/" {
		t.Errorf("the servers of the document are not relative: %.500s", document)
	}
	for _, made := range [][2]string{{"/tokens", `{"name":"shop","scopes":["read"]}`}, {"/tokens/shop/secrets", "{}"}} {
		resp, text := b.send("POST", at+"/console/api"+made[0], made[1])
		to := resolved(t, resp, resp.Header.Get("Location"))
		if resp.StatusCode != http.StatusCreated || !strings.HasPrefix(to, at+"/console/api"+made[0]+"/") {
			t.Errorf("POST %s got %d, %s: %s", made[0], resp.StatusCode, to, text)
		}
	}
	b.want(401, "GET", at+"/biz-types", "") // the cookie is for the console alone
	b.want(204, "DELETE", at+"/console/session", "")
	b.want(401, "GET", at+"/console/api/biz-types", "")
}

// resolved returns the URL that a link in an answer leads to.
func resolved(t *testing.T, resp *http.Response, link string) string {
	t.Helper()
	to := must.Get(resp.Request.URL.Parse(link))(t)
	return to.String()
}

func TestWithoutConsole(t *testing.T) {
	s := start(t, load(t, "server: {console: false}\nstore: {driver: memory}\nbizTypes: [{name: order}]\n"))
	s.await("/readyz", http.StatusOK)
	b := newBrowser(t, nil)
	for _, path := range []string{"/console", "/console/", "/console/session", "/console/api/healthz", "/console/api/seq/order"} {
		wantCode(t, b.want(404, "GET", s.url+path, ""), seqd.CodeNotFound)
	}
	b.want(200, "GET", s.url+"/seq/order", "")
}
