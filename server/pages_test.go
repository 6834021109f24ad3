package server_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// raw sends lines and returns the status of the answer.
func (s *service) raw(lines ...string) int {
	s.t.Helper()
	c := must.Get(net.Dial("tcp", strings.TrimPrefix(s.url, "http://")))(s.t)
	defer c.Close()
	must.Do(s.t, c.SetDeadline(time.Now().Add(await.Patience)))
	must.Do(s.t, must.Err(fmt.Fprintf(c, "%s\r\n\r\n", strings.Join(lines, "\r\n"))))
	resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(s.t)
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestPagesOnEveryRoute sends what a web page can send, without a token, to every route of a node
// with everything on. Whatever answers is on a list of what changes nothing and tells a page
// nothing.
func TestPagesOnEveryRoute(t *testing.T) {
	const settings = "server: {hosts: [10.1.2.3]}\nbizTypes: [{name: order}, {name: flake, strategy: snowflake}]\nstore: {driver: memory}\n" +
		"compat: {leaf: true, leafSnowflake: flake, tinyid: true, cosid: create%s}\nauth: {publicMetrics: true%s}\n"
	const console = "/console /console/ /console/{build}/{file} "    // the page and its files
	const constant = "/docs /openapi.json /errors/{code} " + console // the same on all nodes of a version
	for _, tt := range []struct{ node, config, page, answered string }{
		{"open", fmt.Sprintf(settings, "", ""), "Host: 10.0.0.5:8080", "/healthz /readyz /metrics "},
		{"open", fmt.Sprintf(settings, "", ""), "Host: 0.0.0.0:8080", ""},
		{"open", fmt.Sprintf(settings, "", ""), "Host: [::ffff:7f00:1]", ""},
		{"open", fmt.Sprintf(settings, "", ""), "Host: seqd.example", ""},
		{"open", fmt.Sprintf(settings, "", ""), "Host: localhost\r\nSec-Fetch-Site: cross-site", console},
		{"open", fmt.Sprintf(settings, "", ""), "Host: localhost\r\nSec-Purpose: prefetch;prerender", console},
		{"guarded", fmt.Sprintf(settings, ", token: guest", ", mode: token"), "Host: 10.0.0.5:8080", "/healthz /readyz /metrics " + constant},
		{"guarded", fmt.Sprintf(settings, ", token: guest", ", mode: token"), "Host: 0.0.0.0:8080", "/healthz /readyz " + constant},
		{"guarded", fmt.Sprintf(settings, ", token: guest", ", mode: token"), "Host: seqd.example", "/healthz /readyz " + constant},
		{"guarded", fmt.Sprintf(settings, ", token: guest", ", mode: token"), "Host: localhost\r\nX-Moz: prefetch", console},
	} {
		t.Run(tt.node+" "+tt.page, func(t *testing.T) {
			_, running := byHand(t, load(t, tt.config))
			for _, route := range running.Routes() {
				if route.Path == "/console/session" && tt.node == "guarded" {
					continue // it wants the secret in its body, and a header that pages cannot send
				}
				target := strings.NewReplacer("{path}", "seq/order", "{bizType}", "order", "{code}", "internal", "{key}", "order", "{namespace}", "a", "{name}", "b").Replace(route.Path)
				r := must.Get(http.ReadRequest(bufio.NewReader(strings.NewReader(route.Method + " " + target + " HTTP/1.1\r\nSeqd-Console: 1\r\n" + tt.page + "\r\n\r\n"))))(t)
				w := httptest.NewRecorder()
				running.Handler().ServeHTTP(w, r)
				must.Equal(t, w.Header().Get("X-Content-Type-Options"), "nosniff", "X-Content-Type-Options of %s %s", route.Method, target)
				kept := w.Code == http.StatusForbidden || w.Code == http.StatusUnauthorized || w.Header().Get("Seqd-Error") == "forbidden" || w.Header().Get("Seqd-Error") == "unauthorized"
				if mayAnswer := strings.Contains(" "+tt.answered, " "+route.Path+" ") && (route.Method == "GET" || route.Method == "HEAD"); kept == mayAnswer && route.Path != "/console/{build}/{file}" {
					t.Errorf("%s %s: %d %s %v", route.Method, target, w.Code, w.Body, w.Header())
				}
			}
		})
	}
}

// A node without tokens answers only requests for its names, and none from pages of another origin.
// With tokens, callers may use any name.
func TestNamesOfANode(t *testing.T) {
	const settings = "server: {hosts: [seqd-1, seqd.example]}\nbizTypes: [{name: order}]\nstore: {driver: memory}\n"
	open, closed := start(t, load(t, settings)), start(t, load(t, settings+"auth: {mode: token}\n"))
	open.await("/readyz", http.StatusOK)
	closed.await("/readyz", http.StatusOK)
	for _, tt := range []struct {
		lines         string
		open, guarded int
	}{
		{"GET /healthz HTTP/1.0", 200, 200},
		{"GET /healthz HTTP/1.1\r\nHost: seqd-1:8080\r\nConnection: close", 200, 200},
		{"GET /healthz HTTP/1.1\r\nHost: SEQD.example.\r\nConnection: close", 200, 200},
		{"GET /healthz HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close", 403, 200},
		{"GET /seq/order HTTP/1.1\r\nHost: seqd-1\r\nConnection: close", 200, 401},
		{"GET /seq/order HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close", 403, 401},
		{"GET /seq/order HTTP/1.1\r\nHost: seqd-1\r\nOrigin: http://elsewhere.example\r\nConnection: close", 403, 401},
		{"GET /seq/order HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nConnection: close", 403, 401},
		{"GET /seq/order HTTP/1.0", 200, 401},
	} {
		must.Equal(t, open.raw(tt.lines), tt.open, "%q", tt.lines)
		must.Equal(t, closed.raw(tt.lines), tt.guarded, "with tokens, %q", tt.lines)
	}
}
