package console_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// build returns the build of the page that a node serves.
func (n *node) build() string {
	n.w.t.Helper()
	page := n.raw("GET", "/console", "")
	want(n.w.t, page, http.StatusOK, "")
	found := regexp.MustCompile(`"console/([0-9a-f]{16})/app\.js"`).FindStringSubmatch(page.Body.String())
	if found == nil {
		n.w.t.Fatalf("the page names no build: %s", page.Body)
	}
	return found[1]
}

// The page and its files are served to everybody, at any time, with headers that keep them safe.
func TestPageAndFiles(t *testing.T) {
	for name, n := range map[string]*node{
		"with tokens":    newWorld(t).node(),
		"without tokens": newWorld(t).node(func(s *settings) { s.open = true }),
		"starting":       newWorld(t).node(func(s *settings) { s.noStore = true }),
	} {
		t.Run(name, func(t *testing.T) {
			build := n.build()
			for target, wanted := range map[string]struct{ contentType, cache string }{
				"/console":                           {"text/html; charset=utf-8", "no-cache"},
				"/console/" + build + "/app.js":      {"text/javascript; charset=utf-8", "public, max-age=31536000, immutable"},
				"/console/" + build + "/console.css": {"text/css; charset=utf-8", "public, max-age=31536000, immutable"},
			} {
				w := n.raw("GET", target, "", "Sec-Fetch-Site: cross-site")
				want(t, w, http.StatusOK, "")
				header := w.Header()
				for key, value := range map[string]string{
					"Content-Type": wanted.contentType, "Cache-Control": wanted.cache, "X-Content-Type-Options": "nosniff",
					"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Vary": "Accept-Encoding",
					"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
				} {
					must.Equal(t, header.Get(key), value, "%s: %s", target, key)
				}
				policy := header.Get("Content-Security-Policy")
				for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
					if !strings.Contains(policy, part) {
						t.Errorf("%s: the policy %q lacks %s", target, policy, part)
					}
				}
				if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
					t.Errorf("%s: the policy is %q", target, policy)
				}
				if len(w.Result().Cookies()) > 0 {
					t.Errorf("%s sets a cookie", target)
				}
				compressed := n.raw("GET", target, "", "Accept-Encoding: br, gzip")
				if got := unzip(t, compressed.Body); compressed.Header().Get("Content-Encoding") != "gzip" || got != w.Body.String() {
					t.Errorf("%s compressed is %d bytes and not the same as plain", target, len(got))
				}
				if head := n.raw("HEAD", target, ""); head.Code != http.StatusOK || head.Header().Get("Content-Length") != w.Header().Get("Content-Length") {
					t.Errorf("%s by HEAD: %d, %v", target, head.Code, head.Header())
				}
			}
		})
	}
}

func unzip(t *testing.T, body *bytes.Buffer) string {
	t.Helper()
	z := must.Get(gzip.NewReader(body))(t)
	text := must.Get(io.ReadAll(z))(t)
	return string(text)
}

func TestPageIsNotSentTwice(t *testing.T) {
	n := newWorld(t).node()
	etag := n.raw("GET", "/console", "").Header().Get("Etag")
	for header, status := range map[string]int{
		"If-None-Match: " + etag:            304,
		`If-None-Match: "x", ` + etag:       304,
		"If-None-Match: *":                  304,
		`If-None-Match: W/"another build"`:  200,
		"If-Modified-Since: tomorrow":       200,
		"If-None-Match: " + etag[:5]:        200,
		"If-None-Match: " + etag + etag[1:]: 200,
	} {
		w := n.raw("GET", "/console", "", header)
		if w.Code != status || status == 304 && w.Body.Len() > 0 || w.Header().Get("Etag") != etag || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d, want %d", header, w.Code, status)
		}
	}
}

func TestPathsBesideThePage(t *testing.T) {
	n := newWorld(t).node(func(s *settings) { s.open = true })
	build := n.build()
	w := n.raw("GET", "/console/", "")
	if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "../console" {
		t.Errorf("/console/ got %d to %q", w.Code, w.Header().Get("Location"))
	}
	const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
	for _, method := range []string{"GET", "HEAD"} {
		w = n.raw(method, "/", "", browser, "Sec-Fetch-Site: cross-site")
		if w.Code != http.StatusTemporaryRedirect || w.Header().Get("Location") != "./console" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s / got %d, %v", method, w.Code, w.Header())
		}
	}
	want(t, n.page("POST", "/", "", browser), http.StatusNotFound, "not_found")
	for _, target := range []string{
		"/", "/consoleX", "/Console", "/console/api", "/console/apix", "/console/apix/healthz", "/console/session/", "/console/sessionx",
		"/console/" + build, "/console/" + build + "/", "/console/" + build + "/index.html", "/console/" + build + "/nothing.js",
		"/console/" + build + "/../app.js", "/console/" + build + "/.", "/console/" + build + "/%2e%2e%2fconsole.go", "/console/" + build + "/web/app.js",
		"/console/0123456789abcdef/app.js", "/console/dev/app.js", "/console//app.js", "//console", "/./console", "/console/./app.js",
		"/console%2Fapi/healthz", "/console/api%2Fhealthz", "/%63onsole/api/healthz", "/console/%61pi/healthz", "/console/../console", "/console/app.js",
	} {
		want(t, n.page("GET", target, ""), http.StatusNotFound, "not_found")
	}
	for _, target := range []string{"/console", "/console/", "/console/" + build + "/app.js"} {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"} {
			w := n.page(method, target, "")
			want(t, w, http.StatusMethodNotAllowed, "method_not_allowed")
			if got := w.Header().Get("Allow"); got != "GET, HEAD" && got != "HEAD, GET" {
				t.Errorf("%s %s: Allow is %q", method, target, got)
			}
		}
	}
	want(t, n.page("PUT", "/console/session", ""), http.StatusMethodNotAllowed, "method_not_allowed")
}

// A page of another origin may lead to the page of a node that asks nobody for a token, but not
// through a name that is not the node's.
func TestForeignNames(t *testing.T) {
	open, guarded := newWorld(t).node(func(s *settings) { s.open = true }), newWorld(t).node()
	for _, target := range []string{"/console", "/console/" + open.build() + "/app.js"} {
		r := request(t, "GET", target, "")
		r.Host = "evil.example"
		want(t, open.serve(r), http.StatusForbidden, "forbidden")
		want(t, guarded.serve(r), http.StatusOK, "")
	}
}
