package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/gate"
	"github.com/seqd/seqd/server/httpapi"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// configured are the tokens and scopes of every guarded API in these tests. The secret of a token
// is its name followed by -secret.
var configured = map[string][]string{
	"shop": {"issue:order*"}, "reader": {"read"}, "ops": {"admin"}, "all": {"admin", "issue:*"},
}

func auth(name string) string { return "Authorization: Bearer " + name + "-secret" }

func newTokens(tb testing.TB, store persist.Documents, log *slog.Logger) *access.Tokens {
	tb.Helper()
	list := []access.Token{
		{Name: "expired", Secrets: access.SecretOf("expired-secret"), Scopes: []string{"admin"}, Enabled: true, Expires: now},
		{Name: "disabled", Secrets: access.SecretOf("disabled-secret"), Scopes: []string{"admin"}},
	}
	for name, scopes := range configured {
		list = append(list, access.Token{Name: name, Secrets: access.SecretOf(name + "-secret"), Scopes: scopes, Enabled: true})
	}
	tokens := access.New(access.Options{Config: list, Now: func() time.Time { return now }, Log: log})
	tokens.Use(access.Backing{Documents: store})
	must.Do(tb, tokens.Reload(tb.Context()))
	return tokens
}

// newTokensOf returns tokens with these scopes. The secret of a token is its name followed by
// -secret.
func newTokensOf(tb testing.TB, scopes map[string][]string) *access.Tokens {
	tb.Helper()
	var list []access.Token
	for name, scopes := range scopes {
		list = append(list, access.Token{Name: name, Secrets: access.SecretOf(name + "-secret"), Scopes: scopes, Enabled: true})
	}
	tokens := access.New(access.Options{Config: list, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
	tokens.Use(access.Backing{Documents: newDocuments()})
	must.Do(tb, tokens.Reload(tb.Context()))
	return tokens
}

func newDocuments() persist.Documents { return memory.New(func() time.Time { return now }).Documents() }

// newGuarded returns an API that requires tokens and issues for order.
func newGuarded(tb testing.TB, change ...func(*options)) *httpapi.API {
	tb.Helper()
	api := newStarting(tb, append([]func(*options){func(o *options) {
		tokens := newTokens(tb, newDocuments(), o.Log)
		o.Guard, o.Tokens, o.Metrics, o.Profiles = tokens, tokens, &tallied{}, true
	}}, change...)...)
	issuer := newIssuer(tb, define("order", newCounter(100)), define("user", newCounter(1)))
	issuer.Init(tb.Context())
	ready(api, issuer)
	return api
}

// wantUnauthorized checks a 401, which is the same for everybody.
func wantUnauthorized(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	p := wantProblem(t, w, 401, "unauthorized")
	if got := w.Header()["Www-Authenticate"]; len(got) != 1 || got[0] != "Bearer" {
		t.Errorf("WWW-Authenticate is %q, want Bearer", got)
	}
	if want := "a valid token is needed, as Authorization: Bearer <token>"; p.Detail != want || w.Header().Get("Allow") != "" {
		t.Errorf("the answer tells %q, Allow %q", p.Detail, w.Header().Get("Allow"))
	}
}

// brokenGuard is a guard with a defect.
type brokenGuard struct{ gate.Guard }

func (brokenGuard) Allow([]string, string, string) (access.Identity, error) { panic("a defect") }

// TestBrokenGuard checks that nothing is issued if the check of a token panics.
func TestBrokenGuard(t *testing.T) {
	api := newGuarded(t, func(o *options) { o.Guard = brokenGuard{} })
	wantProblem(t, do(t, api, "GET", "/seq/order"), 500, seqd.CodeInternal)
}

// TestNobodyGetsIn checks that a request without a valid token gets nothing.
func TestNobodyGetsIn(t *testing.T) {
	targets := []string{
		"/seq/order", "/seq/order?count=3", "/seq/nobody", "/seq/order/parse/100", "/biz-types/order/history", "/tokens", "/tokens/shop", "/tokens?limit=1",
		"/", "//", "//seq/order", "/seq//order", "/./seq/order", "/seq/../seq/order", "/%2e%2e/seq/order", "/healthz/../seq/order", "/healthz/..%2fseq/order",
		"/%73eq/order", "/seq/%6frder", "/seq/order/", "/seq/order;/healthz", "/seq/order?/healthz", "/SEQ/order", "http://seqd/seq/order", "http://seqd/healthz/x",
		"/healthz/", "/Healthz", "/readyz/x", "/openapi.json", "/docs", "/metrics", "/nodes", "/overview", "/biz-types", "/biz-types/order", "/seq/order?access_token=all-secret",
		"/seq/order?token=all-secret", "/tokens/..", "/tokens/%2e%2e/healthz", "*",
	}
	headers := map[string][]string{
		"none": nil, "empty": {"Authorization:"}, "unknown": {auth("nobody")}, "expired": {auth("expired")}, "disabled": {auth("disabled")},
		"twice": {auth("all"), auth("all")}, "twice, one empty": {"Authorization:", auth("all")}, "another scheme": {"Authorization: Basic all-secret"}, "no scheme": {"Authorization: all-secret"},
		"a byte more": {auth("all") + "x"}, "a list": {auth("all") + ", Bearer all-secret"},
		"elsewhere": {"Proxy-Authorization: Bearer all-secret", "X-Authorization: Bearer all-secret", "Cookie: token=all-secret", "Token: all-secret", "X-Api-Key: all-secret"},
		"overrides": {"X-HTTP-Method-Override: GET", "X-Original-URL: /healthz", "X-Rewrite-URL: /healthz", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Prefix: /healthz", "Host: localhost"},
		"upgrade":   {"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"},
		"hop":       {"Connection: close, Authorization", auth("nobody")},
	}
	api := newGuarded(t)
	for name, lines := range headers {
		for _, method := range []string{"GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get"} {
			for _, target := range targets {
				r, err := newRequest(method, target, lines...)
				if err != nil {
					continue // net/http answers this one itself
				}
				w := serveOne(t, api, r)
				if w.Code != 401 {
					t.Errorf("%s: %s %s got %d: %s", name, method, target, w.Code, w.Body)
					continue
				}
				wantUnauthorized(t, w)
			}
		}
	}
	// no number was taken
	wantBody(t, do(t, api, "GET", "/seq/order", auth("all")), jsonType, `{"bizType":"order","id":"100"}`)
}

// TestHealthNeedsNoToken checks that load balancers need no token, and that unusual probes reveal
// nothing.
func TestHealthNeedsNoToken(t *testing.T) {
	api := newGuarded(t)
	for _, path := range []string{"/healthz", "/readyz"} {
		for _, method := range []string{"GET", "HEAD"} {
			for _, lines := range [][]string{nil, {auth("nobody")}, {auth("expired")}} {
				must.Equal(t, do(t, api, method, path, lines...).Code, 200, "%s %s", method, path)
			}
		}
		wantProblem(t, do(t, api, "POST", path), 405, "method_not_allowed")
	}
}

// TestScopes checks the scope of each route.
func TestScopes(t *testing.T) {
	tests := []struct{ method, target, allowed string }{
		{"GET", "/seq/order", "shop all"},
		{"POST", "/seq/order", "shop all"},
		{"GET", "/seq/orders", "shop all"},
		{"GET", "/seq/user", "all"},
		{"GET", "/seq/us%65r", "all"},
		{"GET", "/seq/order/parse/100", "shop reader ops all"},
		{"GET", "/seq/user/parse/100", "reader ops all"},
		{"GET", "/seq/a%2Forder", "all"},
		{"GET", "/biz-types/order/history", "reader ops all"},
		{"GET", "/biz-types/order/history?format=csv", "reader ops all"},
		{"GET", "/biz-types/order/counter", "reader ops all"},
		{"GET", "/counters?bizType=order", "reader ops all"},
		{"DELETE", "/biz-types/order/history?caller=a", "ops all"},
		{"GET", "/metrics", "reader ops all"},
		{"GET", "/settings", "reader ops all"},
		{"GET", "/audit", "ops all"},
		{"GET", "/debug/pprof/heap", "ops all"},
		{"GET", "/tokens", "reader ops all"},
		{"GET", "/tokens/shop", "reader ops all"},
		{"POST", "/tokens", "ops all"},
		{"PATCH", "/tokens/shop", "ops all"},
		{"DELETE", "/tokens/shop", "ops all"},
		// Every token may learn that there is nothing.
		{"GET", "/nowhere", "shop reader ops all"},
		{"DELETE", "/seq/order", "shop reader ops all"},
	}
	for _, tt := range tests {
		for name := range configured {
			w := do(t, newGuarded(t), tt.method, tt.target, auth(name))
			if allowed := strings.Contains(" "+tt.allowed+" ", " "+name+" "); !allowed {
				wantProblem(t, w, 403, "forbidden")
			} else if w.Code == 401 || w.Code == 403 {
				t.Errorf("%s %s by %s: %d", tt.method, tt.target, name, w.Code)
			}
		}
	}
}

// TestPublicMetrics checks that PublicMetrics opens what describes the service and nothing else.
func TestPublicMetrics(t *testing.T) {
	open := []string{"/healthz", "/readyz", "/errors/{code}"}
	described := []string{"/openapi.json", "/docs", "/metrics"}
	for _, public := range []bool{false, true} {
		api := newGuarded(t, func(o *options) { o.PublicMetrics = public })
		for _, route := range api.Routes() {
			w := do(t, api, route.Method, strings.NewReplacer("{bizType}", "order", "{code}", "internal", "{", "", "}", "").Replace(route.Path))
			if slices.Contains(open, route.Path) || public && slices.Contains(described, route.Path) {
				must.Equal(t, w.Code, 200, "public %t: %s %s", public, route.Method, route.Path)
				continue
			}
			wantUnauthorized(t, w)
		}
		wantUnauthorized(t, do(t, api, "POST", "/docs"))
		wantUnauthorized(t, do(t, api, "GET", "/docs/"))
	}
}

// TestPublicMetricsByHost checks that a page whose name leads to this machine cannot read public
// metrics, and that Prometheus can by IP address, by a name in server.hosts, or with a token.
func TestPublicMetricsByHost(t *testing.T) {
	api := newGuarded(t, func(o *options) { o.PublicMetrics, o.Hosts = true, ownHosts })
	get := func(path, host string, header ...string) *httptest.ResponseRecorder {
		return serveOne(t, api, rawRequest(t, append([]string{"GET " + path + " HTTP/1.1", "Host: " + host}, header...)...))
	}
	for _, host := range []string{"10.1.2.3:8080", "[fd00::7]:8080", "seqd-1:8080", "localhost", ""} {
		must.Equal(t, get("/metrics", host).Code, 200, "Host %q", host)
	}
	for _, host := range []string{"example.com:8080", "0.0.0.0:8080", "seqd.example"} {
		p := wantProblem(t, get("/metrics", host), 403, "forbidden")
		if !strings.Contains(p.Detail, "server.hosts") || strings.Contains(p.Detail, "auth.tokens") {
			t.Errorf("Host %q: %q", host, p.Detail)
		}
		wantProblem(t, get("/metrics", host, auth("shop")), 403, "forbidden") // it may not read
		must.Equal(t, get("/metrics", host, auth("reader")).Code, 200, "Host %q with a token", host)
		for _, path := range []string{"/healthz", "/readyz", "/docs", "/openapi.json", "/errors/internal"} {
			must.Equal(t, get(path, host).Code, 200, "%s with Host %q", path, host)
		}
	}
}

// TestCallerName checks that plugins get the name of the caller's token, "" without one.
func TestCallerName(t *testing.T) {
	var got []string
	spy := plugin{before: func(call *seqd.Call) error { got = append(got, call.Caller.Name); return nil }}
	issuer := newIssuer(t, define("order", newCounter(1), spy))
	guarded, open := newGuarded(t), newAPI(t)
	ready(guarded, issuer)
	ready(open, issuer)
	do(t, guarded, "GET", "/seq/order", auth("shop"))
	do(t, open, "GET", "/seq/order", auth("shop"))
	do(t, guarded, "POST", "/seq/order?count=3", auth("all"))
	do(t, open, "GET", "/seq/order")
	must.Equal(t, strings.Join(got, ","), "shop,,all,", "the callers")
}

// TestTokensNotReadYet checks the time before the store is read: an unknown token gets a temporary
// error, and one of the configuration works.
func TestTokensNotReadYet(t *testing.T) {
	tokens := access.New(access.Options{
		Config: []access.Token{{Name: "shop", Secrets: access.SecretOf("shop-secret"), Scopes: []string{"issue:*", "admin"}, Enabled: true}},
		Now:    time.Now, Log: slog.New(slog.DiscardHandler),
	})
	api := newGuarded(t, func(o *options) { o.Guard, o.Tokens = tokens, tokens })
	wantProblem(t, do(t, api, "GET", "/seq/order", auth("stored")), 503, "starting")
	wantUnauthorized(t, do(t, api, "GET", "/seq/order"))
	wantBody(t, do(t, api, "GET", "/seq/order", auth("shop")), jsonType, `{"bizType":"order","id":"100"}`)
	wantProblem(t, do(t, api, "GET", "/tokens", auth("shop")), 503, "starting")
}

// TestBodyOfNobody checks that the body of a caller without permission is not read.
func TestBodyOfNobody(t *testing.T) {
	api := newGuarded(t)
	for _, target := range []string{"/seq/order", "/tokens"} {
		r := must.Get(newRequest("POST", target))(t)
		r = withBody(r, "", true)
		r.Body = unreadable{t}
		w := serveOne(t, api, r)
		wantUnauthorized(t, w)
	}
}

type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("it was read")
}

func (unreadable) Close() error { return nil }

// TestAllocationsWithToken checks that a token costs no allocation.
func TestAllocationsWithToken(t *testing.T) {
	newIssuing := func(api *httpapi.API) *httpapi.API {
		ready(api, newIssuer(t, define("order", newCounter(1_000_000))))
		return api
	}
	open, guarded := newIssuing(newStarting(t)), newIssuing(newGuarded(t, func(o *options) { o.Metrics = nil }))
	count := func(api *httpapi.API) float64 {
		r := must.Get(newRequest("GET", "/seq/order", auth("shop")))(t)
		w := &reusable{header: make(map[string][]string)}
		perRun := must.Allocs(1000, func() {
			clear(w.header)
			api.ServeHTTP(w, r)
		})
		if w.status != 200 {
			t.Fatalf("status is %d", w.status)
		}
		return perRun
	}
	if a, b := count(open), count(guarded); !racing.On && b > a {
		t.Errorf("with a token it allocates %v times, without %v", b, a)
	}
}

// auditLine is an audit line of the log.
type auditLine struct {
	Msg, Caller, Addr, RequestID, Method, Path, Query, Target string
	Status                                                    int
	Version                                                   int64
}

func auditLines(t *testing.T, log *bytes.Buffer) (lines []auditLine) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		var read auditLine
		if err := json.Unmarshal([]byte(line), &read); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if read.Msg == "audit" {
			lines = append(lines, read)
		}
	}
	return lines
}

// TestAudit checks that each change, and each attempt at one, is logged, and that reading is not.
func TestAudit(t *testing.T) {
	var log bytes.Buffer
	api := newGuarded(t, func(o *options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	steps := []struct {
		method, target, by, body string
		want                     auditLine
	}{
		{"POST", "/tokens", "ops", `{"name":"new","scopes":["read"]}`, auditLine{Caller: "ops", Path: "/tokens", Target: "new", Status: 201, Version: 1}},
		{"POST", "/tokens", "ops", `{"name":"new","scopes":["read"]}`, auditLine{Caller: "ops", Path: "/tokens", Target: "new", Status: 409}},
		{"POST", "/tokens", "ops", `{"name":"n e w","scopes":["read"]}`, auditLine{Caller: "ops", Path: "/tokens", Status: 400}},
		{"PATCH", "/tokens/new", "all", `{"enabled":false}`, auditLine{Caller: "all", Path: "/tokens/new", Target: "new", Status: 200, Version: 2}},
		{"PATCH", "/tokens/new?dryRun=true&x=y", "all", `{}`, auditLine{Caller: "all", Path: "/tokens/new", Query: "dryRun=true&(not shown)", Target: "new", Status: 400}},
		{"PATCH", "/tokens/new", "reader", `{}`, auditLine{Caller: "reader", Path: "/tokens/new", Target: "new", Status: 403}},
		{"PATCH", "/tokens/new", "nobody", `{}`, auditLine{Path: "/tokens/new", Target: "new", Status: 401}},
		{"DELETE", "/tokens/new", "ops", "", auditLine{Caller: "ops", Path: "/tokens/new", Target: "new", Status: 204, Version: 2}},
		{"DELETE", "/tokens/new", "ops", "", auditLine{Caller: "ops", Path: "/tokens/new", Target: "new", Status: 404}},
		{"PATCH", "/tokens/new?" + strings.Repeat("&", 3000), "nobody", `{}`, auditLine{Path: "/tokens/new", Target: "new", Status: 401}},
		{"DELETE", "/tokens/" + strings.Repeat("x", 3000), "nobody", "", auditLine{Path: "/tokens/" + strings.Repeat("x", 248) + "…", Target: strings.Repeat("x", 256) + "…", Status: 401}},
		{"DELETE", "/tokens/" + strings.Repeat("seqd_hunter%20", 200), "nobody", "", auditLine{
			Path: ("/tokens/" + strings.Repeat("(not shown) ", 200))[:256] + "…", Target: strings.Repeat("(not shown) ", 200)[:256] + "…", Status: 401,
		}},
		{"DELETE", "/tokens/seqd_hunter2", "ops", "", auditLine{Caller: "ops", Path: "/tokens/(not shown)", Target: "(not shown)", Status: 404}},
	}
	for _, step := range steps {
		log.Reset()
		r := must.Get(newRequest(step.method, step.target, auth(step.by), "X-Request-Id: mine", "Content-Type: application/json"))(t)
		serveOne(t, api, withBody(r, step.body, false))
		step.want.Msg, step.want.Addr, step.want.RequestID, step.want.Method = "audit", "192.0.2.1", "mine", step.method
		lines := auditLines(t, &log)
		if len(lines) != 1 || lines[0] != step.want {
			t.Errorf("%s %s by %s: logged %+v, want %+v", step.method, step.target, step.by, lines, step.want)
		}
		if strings.Contains(log.String(), "seqd_") || strings.Contains(log.String(), "secret") {
			t.Errorf("the log shows a secret: %s", &log)
		}
	}
	log.Reset()
	do(t, api, "GET", "/seq/order", auth("all"))
	do(t, api, "POST", "/seq/order", auth("all"))
	do(t, api, "GET", "/biz-types", auth("ops"))
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
	for _, seen := range []struct{ method, path, token string }{
		{"GET", "/tokens", "ops"}, {"GET", "/tokens/shop", "ops"}, // who sees tokens
		{"GET", "/seq/order", "wrong"}, {"GET", "/nodes", "wrong"}, {"GET", "/nowhere", "wrong"}, {"POST", "/seq/order", "ops"}, // who has no right
	} {
		log.Reset()
		do(t, api, seen.method, seen.path, auth(seen.token))
		if n := strings.Count(log.String(), `"msg":"audit"`); n != 1 || !strings.Contains(log.String(), `"path":"`+seen.path+`"`) {
			t.Errorf("%v logged %s", seen, &log)
		}
	}
}

// TestCauseInTheLog checks that the log says why an administrator's request was refused if the
// answer refers to the log, and that no other refusal is logged.
func TestCauseInTheLog(t *testing.T) {
	var log bytes.Buffer
	api := newStarting(t, func(o *options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	api.Gate().Ready(&gate.Running{Issuer: newIssuer(t), Catalogue: failing{}})
	w := do(t, api, "GET", "/biz-types/order", "X-Request-Id: mine")
	wantProblem(t, w, 409, "conflict")
	if !strings.Contains(log.String(), "the true cause") || !strings.Contains(log.String(), "mine") || strings.Contains(w.Body.String(), "the true cause") {
		t.Errorf("the log says %s, the answer %s", &log, w.Body)
	}
	wantProblem(t, do(t, api, "GET", "/biz-types"), 409, "conflict")
	log.Reset()
	wantProblem(t, do(t, api, "GET", "/biz-types/order?x=y"), 400, "invalid_request")
	wantProblem(t, do(t, api, "GET", "/seq/order"), 404, "unknown_biz_type")
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
}

// TestFewLinesOfFailures checks that requests that are refused or panic without end do not push the
// other lines out of the log.
func TestFewLinesOfFailures(t *testing.T) {
	for _, broken := range []func(*options){func(*options) {}, func(o *options) { o.Guard = brokenGuard{} }} {
		var log bytes.Buffer
		api := newStarting(t, broken, func(o *options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		api.Gate().Ready(&gate.Running{Issuer: newIssuer(t), Catalogue: failing{}})
		for range 400 {
			do(t, api, "GET", "/biz-types/order")
		}
		if n := strings.Count(log.String(), "\n"); n < 100 || n > 250 { // one a second after the first 100
			t.Errorf("%d lines: %.2000s", n, &log)
		}
	}
}

// failing is a catalogue whose errors do not say why it fails.
type failing struct{ admin.Catalogue }

func (failing) Get(context.Context, string) (admin.BizType, error) {
	return admin.BizType{}, &seqd.Error{Code: seqd.CodeConflict, Detail: "the log says more", Err: errors.New("the true cause")}
}

func (failing) List(context.Context, admin.Listing) ([]admin.BizType, string, error) {
	return nil, "", &seqd.Error{Code: seqd.CodeConflict, Detail: "no list"}
}

// TestNoSecretInTheLog checks that no log line contains a secret, wherever somebody put one.
func TestNoSecretInTheLog(t *testing.T) {
	const secret = "seqd_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
	var log bytes.Buffer
	boom := plugin{after: func(*seqd.Call) error { panic("boom") }}
	api := newGuarded(t, func(o *options) {
		o.AccessLog, o.Log = "on", slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	ready(api, newIssuer(t, define("order", newCounter(1), boom)))
	for _, target := range []string{
		"/seq/order", "/seq/" + secret, "/seq/order?token=" + secret, "/seq/order?token=hunter2", "/seq/order?hunter2", "/seq/order?count=3&access_token=hunter2", "/seq/order?count=3;token=hunter2",
		"/seq/order?count=3%3Btoken=hunter2", "/seq/order?count=" + secret, "/seq/order?count=seqd%5F0123456789abc", "/tokens/" + secret, "/tokens?after=" + secret, "/seq/order/parse/" + secret, "/seq/order?=hunter2", "/seq/order?%zz=hunter2",
		"/nowhere/" + secret + "/" + secret,
	} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			do(t, api, method, target, "Authorization: Bearer "+secret, "X-Request-Id: "+secret, "Cookie: "+secret, "Referer: "+secret, "User-Agent: "+secret)
			do(t, api, method, target, auth("all"))
		}
	}
	for _, part := range []string{"seqd_", "0123456789abc", "hunter2", "all-secret"} {
		if at := strings.Index(log.String(), part); at >= 0 {
			t.Errorf("the log shows %s: %s", part, log.String()[max(0, at-300):at+50])
		}
	}
	if !strings.Contains(log.String(), `"query":"count=3&(not shown)"`) || !strings.Contains(log.String(), `"caller":"all","bizType":"order"`) {
		t.Error("the log does not show what is harmless")
	}
}

// TestTokenInURL checks that a token in the URL is refused as an unknown parameter.
func TestTokenInURL(t *testing.T) {
	api := newGuarded(t)
	for _, name := range []string{"token", "access_token", "authorization", "Authorization", "bearer"} {
		w := do(t, api, "GET", "/seq/order?"+name+"=all-secret", auth("all"))
		if p := wantProblem(t, w, 400, "invalid_request"); strings.Contains(w.Body.String(), "all-secret") {
			t.Errorf("the answer repeats the secret: %s", p.Detail)
		}
	}
}

// broken is a store that is away.
type broken struct{ persist.Documents }

func (broken) List(context.Context, string, string, int) ([]persist.Document, error) {
	return nil, persist.ErrUnavailable
}

func (broken) Read(context.Context, string, string) (persist.Document, error) {
	return persist.Document{}, persist.ErrUnavailable
}

func (broken) Create(context.Context, persist.Document) error { return persist.ErrUnavailable }

// away takes the store away from tokens that were read.
func away(tokens *access.Tokens) { tokens.Use(access.Backing{Documents: broken{}}) }
