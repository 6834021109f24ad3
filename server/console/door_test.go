package console_test

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// The API below the prefix is the API: the same routes, parameters, bodies and errors.
func TestAPIBelowTheConsole(t *testing.T) {
	n := newWorld(t).node()
	cookie := with(n.signIn(opsSecret))
	for _, tt := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"GET", "/seq/order", "", 200, `{"bizType":"order","id":"1"}`},
		{"POST", "/seq/order?count=2", "", 200, `{"bizType":"order","ids":["2","3"]}`},
		{"GET", "/seq/order/parse/x", "", 400, "invalid_id"},
		{"GET", "/seq/a%2Fb", "", 400, "invalid_biz_type"},
		{"GET", "/nowhere", "", 404, "not_found"},
		{"PATCH", "/seq/order", "", 405, "method_not_allowed"},
		{"GET", "/tokens/ops", "", 200, `"name":"ops"`},
		{"POST", "/tokens", `{"name":"made","scopes":["read"]}`, 201, `"secret":"seqd_`},
		{"POST", "/tokens", `{"name":`, 400, "invalid_request"},
		{"GET", "/openapi.json", "", 200, `"openapi"`},
		{"HEAD", "/healthz", "", 200, ""},
	} {
		w := n.page(tt.method, "/console/api"+tt.path, tt.body, cookie)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) {
			t.Errorf("%s %s got %d, want %d with %s: %.300s", tt.method, tt.path, w.Code, tt.status, tt.text, w.Body)
		}
	}
	want(t, n.raw("GET", "/seq/order", "", cookie), http.StatusUnauthorized, "unauthorized") // the API reads no cookies
	want(t, n.page("GET", "/seq/order", "", cookie), http.StatusUnauthorized, "unauthorized")
	reader := with(n.signIn(readerSecret))
	want(t, n.page("GET", "/console/api/tokens/ops", "", reader), http.StatusOK, "")
	want(t, n.page("POST", "/console/api/tokens", `{"name":"x","scopes":["read"]}`, reader), http.StatusForbidden, "forbidden")
	want(t, n.page("GET", "/console/api/seq/order", "", reader), http.StatusForbidden, "forbidden")
}

// Without tokens the page needs no sign-in.
func TestOpenAPIBelowTheConsole(t *testing.T) {
	n := newWorld(t).node(func(s *settings) { s.open = true })
	want(t, n.page("GET", "/console/api/seq/order", ""), http.StatusOK, "")
	if s := n.session(); s.TokensAskedFor || s.SignedIn || s.NodeID != "node-1" || s.Build != "v1" {
		t.Errorf("the session is %+v", s)
	}
	want(t, n.page("POST", "/console/session", signInWith(opsSecret)), http.StatusConflict, "conflict")
	want(t, n.page("DELETE", "/console/session", ""), http.StatusConflict, "conflict")
	want(t, n.raw("GET", "/console/api/seq/order", ""), http.StatusForbidden, "forbidden")
	r := request(t, "GET", "/console/api/seq/order", "", "Seqd-Console: 1")
	r.Host = "evil.example" // whose owner made it lead to this node
	want(t, n.serve(r), http.StatusForbidden, "forbidden")
}

// What a page of another origin can make a browser send reaches neither the API nor the session.
func TestForeignPages(t *testing.T) {
	w := newWorld(t)
	n := w.node()
	cookie := n.signIn(opsSecret)
	for name, headers := range map[string][]string{
		"no header":        {},
		"header of old":    {"Seqd-Console: 0"},
		"empty header":     {"Seqd-Console:"},
		"two headers":      {"Seqd-Console: 1", "Seqd-Console: 1"},
		"cross-site":       {"Seqd-Console: 1", "Sec-Fetch-Site: cross-site"},
		"same site":        {"Seqd-Console: 1", "Sec-Fetch-Site: same-site"},
		"other host":       {"Seqd-Console: 1", "Origin: http://evil.example"},
		"other port":       {"Seqd-Console: 1", "Origin: http://seqd:8081"},
		"no port":          {"Seqd-Console: 1", "Origin: http://seqd"},
		"sandbox":          {"Seqd-Console: 1", "Origin: null"},
		"empty origin":     {"Seqd-Console: 1", "Origin:"},
		"a file":           {"Seqd-Console: 1", "Origin: file://seqd:8080"},
		"subdomain":        {"Seqd-Console: 1", "Origin: http://x.seqd:8080"},
		"superdomain":      {"Seqd-Console: 1", "Origin: http://seqd:8080.evil.example"},
		"two origins":      {"Seqd-Console: 1", "Origin: http://seqd:8080", "Origin: http://evil.example"},
		"contradiction":    {"Seqd-Console: 1", "Origin: http://evil.example", "Sec-Fetch-Site: same-origin"},
		"user information": {"Seqd-Console: 1", "Origin: http://seqd:8080@evil.example"},
	} {
		t.Run(name, func(t *testing.T) {
			headers = append(headers, with(cookie))
			want(t, n.raw("GET", "/console/api/seq/order", "", headers...), http.StatusForbidden, "forbidden")
			want(t, n.raw("POST", "/console/api/tokens", `{"name":"evil","scopes":["admin"]}`, headers...), http.StatusForbidden, "forbidden")
			want(t, n.raw("GET", "/console/session", "", headers...), http.StatusForbidden, "forbidden")
			want(t, n.raw("DELETE", "/console/session", "", headers...), http.StatusForbidden, "forbidden")
			answer := n.raw("POST", "/console/session", signInWith(readerSecret), headers...)
			want(t, answer, http.StatusForbidden, "forbidden")
			if len(answer.Result().Cookies()) > 0 {
				t.Error("it sets a cookie")
			}
		})
	}
	if s := n.session(with(cookie)); !s.SignedIn || s.Caller != "ops" {
		t.Errorf("the session is %+v", s)
	}
	if list := w.sessions(); len(list) != 1 {
		t.Errorf("there are %d sessions, want 1", len(list))
	}
	for _, origin := range []string{"http://seqd:8080", "https://SEQD:8080"} { // a proxy may end TLS
		want(t, n.raw("GET", "/console/api/healthz", "", "Seqd-Console: 1", "Origin: "+origin), http.StatusOK, "")
	}
}

// The browser saves the result of a job without the page, and nothing else.
func TestResultWithoutThePage(t *testing.T) {
	n := newWorld(t).node()
	cookie := with(n.signIn(opsSecret))
	result := "/console/api/jobs/" + strings.Repeat("0a", 16) + "/result"
	reached := func(method, target string, headers ...string) bool {
		return n.raw(method, target, "", append(headers, cookie)...).Code != http.StatusForbidden
	}
	for _, headers := range [][]string{nil, {"Sec-Fetch-Site: same-origin"}} {
		must.Equal(t, reached("GET", result, headers...) && reached("HEAD", result+"?partial=true", headers...), true, "the API gets it with %v", headers)
	}
	want(t, n.raw("GET", result, ""), http.StatusUnauthorized, "unauthorized")
	for _, headers := range [][]string{{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Origin: http://evil.example"}, {"Seqd-Console: 0"}} {
		must.Equal(t, reached("GET", result, headers...), false, "the API gets it with %v", headers)
	}
	for _, target := range []string{result[:len(result)-len("/result")], result + "/", "/console/api/jobs/x/result", "/console/api/jobs/../jobs/" + strings.Repeat("0a", 16) + "/result", strings.Replace(result, "jobs", "j%6Fbs", 1)} {
		must.Equal(t, reached("GET", target), false, "the API gets %s", target)
	}
	must.Equal(t, reached("POST", result) || reached("DELETE", result), false, "the API gets other methods")
	for _, list := range []string{"/console/api/audit", "/console/api/biz-types/order/history"} {
		must.Equal(t, reached("GET", list+"?format=csv"), true, "the API gets %s as a file", list)
		must.Equal(t, reached("GET", list) || reached("GET", list+"?format=") || reached("DELETE", list+"?format=csv") || reached("GET", list+"?format=csv", "Sec-Fetch-Site: cross-site"), false, "the API gets %s as a page", list)
	}
}

// No preflight lets pages of other origins send the header.
func TestPreflight(t *testing.T) {
	n := newWorld(t).node()
	for _, target := range []string{"/console/api/seq/order", "/console/session", "/console"} {
		w := n.raw("OPTIONS", target, "", "Origin: http://evil.example", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: seqd-console")
		if w.Code < 400 {
			t.Errorf("OPTIONS %s got %d", target, w.Code)
		}
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("OPTIONS %s answers %s", target, name)
			}
		}
	}
}

// The session decides, not what the caller sends.
func TestAuthorizationOfTheCaller(t *testing.T) {
	n := newWorld(t).node()
	bearer := "Authorization: Bearer " + opsSecret
	want(t, n.page("GET", "/console/api/seq/order", "", bearer), http.StatusUnauthorized, "unauthorized")
	want(t, n.page("GET", "/console/api/seq/order", "", bearer, with(n.signIn(readerSecret))), http.StatusForbidden, "forbidden")
}

// routes note what the API counts.
type routes struct {
	mu   sync.Mutex
	seen []string
}

func (r *routes) Route(pattern string) func(string, int, time.Duration) {
	return func(method string, status int, _ time.Duration) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.seen = append(r.seen, method+" "+pattern)
	}
}

func (r *routes) Exposition(string, bool) ([]byte, string, error) { return nil, "", nil }

// A request passes the middleware of the API once, under the route of the API.
func TestRequestsAreCountedOnce(t *testing.T) {
	var counted routes
	w := newWorld(t)
	n := w.node(func(s *settings) { s.metrics = &counted })
	n.page("GET", "/console/api/seq/order?count=2", "", with(n.signIn(opsSecret)), "X-Request-Id: mine")
	n.raw("POST", "/console/api/seq/order", "", "X-Request-Id: refused")
	n.raw("GET", "/console", "")
	if got := []string{"POST /console/session", "GET /seq/{bizType}", "POST /console/api/{path}", "GET /console"}; !slices.Equal(counted.seen, got) {
		t.Errorf("counted %q, want %q", counted.seen, got)
	}
	log := w.logged()
	if strings.Count(log, `"requestId":"mine"`) != 1 || !strings.Contains(log, `"path":"/seq/order","query":"count=2","status":200`) {
		t.Errorf("the log is %s", log)
	}
	if strings.Count(log, `"requestId":"refused"`) != 2 || !strings.Contains(log, `"path":"/console/api/seq/order"`) {
		t.Errorf("a refused change has not one line and one audit line: %s", log)
	}
}

// seen is what a handler behind the door got.
type seen struct {
	reached                                             bool
	path, spelled, uri, query, escaped, cookie, bearing string
}

// spelled is a path as the router of the API reads it.
func spelled(u *url.URL) string { return cmp.Or(u.RawPath, u.Path) }

// through sends a target through the door.
func through(t testing.TB, n *node, target string) (got seen, r *http.Request) {
	handler := n.console.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = seen{true, r.URL.Path, spelled(r.URL), r.RequestURI, r.URL.RawQuery, r.URL.EscapedPath(), r.Header.Get("Cookie"), r.Header.Get("Authorization")}
	}))
	r = must.Get(http.NewRequest("GET", "http://seqd:8080/", nil))(t)
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return got, nil
	}
	r.URL, r.RequestURI, r.Host = u, target, "seqd:8080"
	for name, value := range map[string]string{"Seqd-Console": "1", "Cookie": "seqd-console=x; a=b", "Authorization": "Bearer mine"} {
		r.Header.Set(name, value)
	}
	r.RemoteAddr = "192.0.2.1:1"
	handler.ServeHTTP(httptest.NewRecorder(), r)
	return got, r
}

// FuzzPath checks that whatever path is requested, the API sees exactly what is behind the prefix,
// in every form in which a URL has its path, or the request as it came.
func FuzzPath(f *testing.F) {
	for _, target := range []string{
		"/console/api/seq/order", "/console/api/seq/a%2Fb?count=2", "/console/api/../x", "/console/api//x", "/console/api/%2e%2e/x", "/console/api/",
		"/console/api", "/console/apix", "/console%2Fapi/x", "/console/api%2Fx", "/%63onsole/api/x", "/console/api/console/session", "/console/api/console%2Fapi/x",
		"http://evil.example/console/api/x", "/console/api/x?y=/console/api/z#f", "//console/api/x", "/seq/order", "/console/api/%", "/console/api/é", "/console/api/a b", "*", "/console/api/%00",
		"/console/api/console/api/x", "/console/api/%63onsole/session", "mailto:x", "/console/api/:", "/console/api/seq/a%252Fb", "/console/api/[x]", "/console/api/!'()*",
	} {
		f.Add(target)
	}
	n := newWorld(f).node(func(s *settings) { s.open = true; s.noStore = true })
	f.Fuzz(func(t *testing.T, target string) {
		got, r := through(t, n, target)
		if r == nil {
			return
		}
		const prefix = "/console/api"
		behind, below := strings.CutPrefix(spelled(r.URL), prefix)
		if !got.reached {
			t.Fatal("the API was not asked") // it writes every answer
		}
		must.Equal(t, r.URL.RequestURI(), requestURI(target), "the request itself was changed to")
		if strings.HasPrefix(r.URL.Path, prefix+"/") && (got.cookie != "" || got.bearing != "") {
			t.Errorf("the API got the cookie %q and the header %q", got.cookie, got.bearing)
		}
		if got.path == r.URL.Path { // not rewritten
			if below && strings.HasPrefix(behind, "/") && !strings.HasPrefix(got.path, prefix+"/console") {
				t.Errorf("%s was not rewritten", target)
			}
			return
		}
		if prefix+got.path != r.URL.Path || prefix+got.spelled != spelled(r.URL) || prefix+got.escaped != r.URL.EscapedPath() || got.query != r.URL.RawQuery {
			t.Errorf("%q became %+v", target, got)
		}
		if !strings.HasPrefix(got.path, "/") || strings.HasPrefix(got.path, "/console") {
			t.Errorf("%q led to %q", target, got.path)
		}
		again, err := url.ParseRequestURI(got.uri)
		if err != nil || again.Path != got.path || again.EscapedPath() != got.escaped || again.RawQuery != got.query {
			t.Errorf("%q became the target %q, which means %+v, %v; the URL means %+v", target, got.uri, again, err, got)
		}
	})
}

func requestURI(target string) string {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return ""
	}
	return u.RequestURI()
}

func TestTargetsOfOtherForms(t *testing.T) {
	n := newWorld(t).node(func(s *settings) { s.open = true })
	for _, tt := range []struct {
		method, target string
		status         int
		code           seqd.Code
	}{
		{"GET", "http://seqd:8080/console/api/healthz", 200, ""},
		{"GET", "http://seqd:8080/console/api/nothing", 404, "not_found"},
		{"OPTIONS", "*", 404, "not_found"},
		{"CONNECT", "seqd:8080", 404, "not_found"},
		{"CONNECT", "/console/api/healthz", 405, "method_not_allowed"},
		{"GET", "/console/api/../healthz", 404, "not_found"},
		{"GET", "/console/api//healthz", 404, "not_found"},
		{"GET", "/console/api/%2e%2e/healthz", 404, "not_found"},
		{"GET", "/console/api/%68ealthz", 404, "not_found"},
		{"GET", "/console/api/console/session", 404, "not_found"},
		{"GET", "/console/api/" + strings.Repeat("x", 4097), 414, "uri_too_long"},
	} {
		want(t, n.page(tt.method, tt.target, ""), tt.status, tt.code)
	}
}

// A cache in front keeps answers to an Authorization apart, but sees none here.
func TestAnswersAreNotCached(t *testing.T) {
	n := newWorld(t).node()
	cookie := n.signIn(opsSecret)
	for _, path := range []string{"/healthz", "/seq/order/parse/1", "/seq/order", "/biz-types", "/nothing"} {
		if got := n.page("GET", "/console/api"+path, "", with(cookie)).Header()["Cache-Control"]; len(got) != 1 || got[0] != "no-store" {
			t.Errorf("%s: Cache-Control is %q", path, got)
		}
	}
}
