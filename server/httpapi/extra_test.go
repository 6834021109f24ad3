package httpapi_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/httpapi"
)

// extraRoutes are /extra/:name, which answers with its parameters, or fails as its name says, and
// /change/:name, which changes biz types.
func extraRoutes() []httpapi.Extra {
	serve := func(v *httpapi.Visit) error {
		values, err := v.Parameters()
		if err != nil {
			return err
		}
		if v.Param("name") == "stranger" {
			return seqd.Errorf(seqd.CodeForbidden, "no")
		}
		v.As(access.Identity{Name: "shop"}, strings.TrimPrefix(v.Param("name"), "a-"))
		v.Changed(7)
		switch v.Param("name") {
		case "panic":
			panic("boom")
		case "unknown":
			return errors.New("a cause that callers are not told of")
		case "limited":
			return seqd.Errorf(seqd.CodeRateLimited, "too many")
		case "forbidden":
			return seqd.Errorf(seqd.CodeForbidden, "no")
		case "catalogue":
			if _, err := v.Catalogue(); err != nil {
				return err
			}
		}
		v.Answer(http.StatusOK, []string{"text/plain"}, []byte(values.Encode()))
		return nil
	}
	fail := func(v *httpapi.Visit, err *seqd.Error) {
		v.Answer(http.StatusTeapot, []string{"text/plain"}, []byte(err.Detail))
	}
	return []httpapi.Extra{
		{Methods: []string{"GET", "POST", "PATCH", "PUT"}, Path: "/extra/:name", Form: true, Serve: serve, Fail: fail},
		{Methods: []string{"GET", "POST"}, Path: "/change/:name", Changes: true, Guests: true, Serve: serve, Fail: fail},
	}
}

func withExtra(o *options) { o.Extra = extraRoutes() }

// failedExtra checks that the answer has the form of the extra routes.
func failedExtra(t *testing.T, w *httptest.ResponseRecorder, code seqd.Code) {
	t.Helper()
	if w.Code != http.StatusTeapot || w.Header().Get("Seqd-Error") != string(code) || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("X-Request-Id") == "" {
		t.Errorf("%d %v %s; want the code %s", w.Code, w.Header(), w.Body, code)
	}
}

func TestExtra(t *testing.T) {
	api := newStarting(t, withExtra)
	post := func(method, media, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://seqd/extra/x?a=1", nil)
		r.Header.Set("Content-Type", media)
		return serveOne(t, api, withBody(r, body, false))
	}
	const form = "application/x-www-form-urlencoded"
	for _, tt := range []struct{ method, media, body, want string }{
		{"POST", form, "a=2&b=3", "a=1&a=2&b=3"},
		{"POST", form + "; charset=UTF-8", "b=3", "a=1&b=3"},
		{"POST", form, "", "a=1"},
		{"POST", "application/json", `{"a":2}`, "a=1"},
		{"PUT", form, "a=2", "a=1"},
		{"PATCH", form, "a=2", "a=1"},
		{"PATCH", "application/json", "{", "a=1"},
	} {
		if w := post(tt.method, tt.media, tt.body); w.Code != 200 || w.Body.String() != tt.want {
			t.Errorf("%+v: %d %s", tt, w.Code, w.Body)
		}
	}
	if w := send(t, api, "POST", "/change/x?a=1", "a=2", "Content-Type: "+form); w.Body.String() != "a=1" {
		t.Errorf("a route that reads no form answers %s", w.Body)
	}
	failedExtra(t, post("POST", form, "%zz"), "invalid_request")
	failedExtra(t, post("POST", form, strings.Repeat("x", 1025)), "body_too_large")
	large := newStarting(t, withExtra, func(o *options) { o.MaxBodyBytes = 1 << 20 })
	failedExtra(t, send(t, large, "POST", "/extra/x", strings.Repeat("x", 4097), "Content-Type: "+form), "body_too_large")
	failedExtra(t, do(t, api, "GET", "/extra/x?%zz"), "invalid_request")
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		failedExtra(t, do(t, api, "POST", "/extra/x", name+": k1"), "invalid_request")
	}
	failedExtra(t, do(t, api, "GET", "/extra/panic"), "internal")
	failedExtra(t, do(t, api, "GET", "/extra/x?"+strings.Repeat("x", 5000)), "uri_too_long")
	failedExtra(t, do(t, api, "GET", "/extra/x", "Origin: http://elsewhere"), "forbidden")
	w := do(t, api, "GET", "/extra/unknown")
	failedExtra(t, w, "internal")
	if strings.Contains(w.Body.String(), "cause") {
		t.Errorf("the caller is told %s", w.Body)
	}
	must.Equal(t, do(t, api, "GET", "/extra/limited").Header().Get("Retry-After"), "1", "Retry-After")
	// another method, or a path below, is not the extra route
	wantProblem(t, do(t, api, "DELETE", "/extra/x"), 405, "method_not_allowed")
	wantProblem(t, do(t, api, "GET", "/extra/x/y"), 404, "not_found")
	failedExtra(t, do(t, api, "GET", "/extra/catalogue"), "starting")
	ready(api, newIssuer(t))
	wantBody(t, do(t, api, "GET", "/extra/catalogue"), "text/plain", "")
	api.Gate().Drain()
	if w := do(t, api, "GET", "/extra/x"); w.Header().Get("Connection") != "close" {
		t.Error("while the service stops, the answer does not end its connection")
	}
}

// statuses is [httpapi.Metrics]. It keeps what was counted of the extra route.
type statuses []int

func (s *statuses) Route(pattern string) func(string, int, time.Duration) {
	if pattern != "/extra/{name}" {
		return func(string, int, time.Duration) {}
	}
	return func(_ string, status int, _ time.Duration) { *s = append(*s, status) }
}

func (*statuses) Exposition(string, bool) ([]byte, string, error) { return nil, "", nil }

// TestExtraIsCounted checks that what a drop-in refuses is counted by its code, not by the status
// that the drop-in's protocol demands.
func TestExtraIsCounted(t *testing.T) {
	var got statuses
	api := newStarting(t, withExtra, func(o *options) { o.Metrics = &got })
	for _, name := range []string{"x", "unknown", "limited", "panic"} {
		do(t, api, "GET", "/extra/"+name)
	}
	if want := (statuses{200, 500, 429, 500}); !slices.Equal(got, want) {
		t.Errorf("%v were counted, want %v", got, want)
	}
}

// TestExtraCheckTokens checks that an extra route is open, as it checks tokens itself, and nothing
// else is.
func TestExtraCheckTokens(t *testing.T) {
	api := newGuarded(t, withExtra)
	if w := do(t, api, "GET", "/extra/x?a=1"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := do(t, api, "PATCH", "/extra/x?a=1", "Authorization: Bearer nobody"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := do(t, api, "GET", "/extra/x", "Origin: http://elsewhere"); w.Code != 200 {
		t.Errorf("a page that has a token: %d %s", w.Code, w.Body)
	}
	// a page needs no secret for a route for guests
	if w := do(t, api, "POST", "/change/x"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	failedExtra(t, do(t, api, "POST", "/change/x", "Origin: http://elsewhere"), "forbidden")
	failedExtra(t, do(t, api, "POST", "/change/x", "Sec-Fetch-Site: same-site"), "forbidden")
	wantUnauthorized(t, do(t, api, "DELETE", "/extra/x"))
	wantUnauthorized(t, do(t, api, "GET", "/extra/x/y"))
	wantUnauthorized(t, do(t, api, "GET", "/seq/order"))
}

// TestExtraOverload checks that a refusal for lack of places has the form of the route, is counted,
// and is delayed for a caller that does not heed it.
func TestExtraOverload(t *testing.T) {
	api := newStarting(t, withExtra, func(o *options) { o.MaxInFlight = 1 })
	if !api.Gate().Requests.Enter() {
		t.Fatal("there is no place")
	}
	ctx := httpapi.ConnContext(t.Context(), nil)
	var took time.Duration
	first := time.Now()
	for range 2 {
		w, began := httptest.NewRecorder(), time.Now()
		api.ServeHTTP(w, httptest.NewRequest("GET", "http://seqd/extra/x", nil).WithContext(ctx))
		took = time.Since(began)
		failedExtra(t, w, "overloaded")
		must.Equal(t, w.Header().Get("Retry-After"), "1", "Retry-After")
	}
	if took < 100*time.Millisecond && time.Since(first) < time.Second { // later it would not be delayed
		t.Errorf("the second refusal took %s", took)
	}
	if got := api.Gate().Requests.Refused.All(); got != 2 {
		t.Errorf("%d refusals were counted", got)
	}
}

// TestExtraAudit checks that only routes that change biz types have an audit line.
func TestExtraAudit(t *testing.T) {
	var log bytes.Buffer
	api := newStarting(t, withExtra, func(o *options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	do(t, api, "POST", "/extra/x")
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
	do(t, api, "POST", "/change/a-order?token=hidden")
	for _, part := range []string{`"msg":"audit"`, `"caller":"shop"`, `"target":"order"`, `"path":"/change/a-order"`, `"version":7`, `"status":200`} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the line has no %s: %s", part, &log)
		}
	}
	if strings.Contains(log.String(), "hidden") {
		t.Errorf("logged %s", &log)
	}
	// Where tokens are needed, a refusal is logged too, which the route decides itself.
	api = newGuarded(t, withExtra, func(o *options) { o.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	for name, want := range map[string]int{"x": 0, "limited": 0, "forbidden": 1} {
		log.Reset()
		do(t, api, "GET", "/extra/"+name)
		if n := strings.Count(log.String(), `"msg":"audit"`); n != want {
			t.Errorf("%s: %d lines, want %d: %s", name, n, want, &log)
		}
	}
}

// objectRoute is /object/:name, which answers with the text under the key a of its body, or fails
// as every other route does.
func objectRoute() []httpapi.Extra {
	serve := func(v *httpapi.Visit) error {
		text, err := v.Text("a")
		if err != nil {
			return err
		}
		v.Answer(http.StatusOK, []string{"text/plain"}, []byte(text))
		return nil
	}
	page := func(v *httpapi.Visit) error {
		v.Header()["Cache-Control"] = []string{"no-cache"}
		v.Answer(http.StatusOK, []string{"text/plain"}, nil)
		return nil
	}
	return []httpapi.Extra{
		{Methods: []string{"GET", "POST"}, Path: "/object/:name", Object: 20, Changes: true, Serve: serve},
		{Methods: []string{"GET"}, Path: "/page", Linked: true, Serve: page},
	}
}

func TestExtraObject(t *testing.T) {
	var log bytes.Buffer
	api := newStarting(t, func(o *options) { o.Extra, o.Log = objectRoute(), slog.New(slog.NewJSONHandler(&log, nil)) })
	post := func(media, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://seqd/object/x", nil)
		r.Header.Set("Content-Type", media)
		return serveOne(t, api, withBody(r, body, false))
	}
	const media = "application/json"
	if w := post(media, `{"a":"123456789 12"}`); w.Code != 200 || w.Body.String() != "123456789 12" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	wantProblem(t, post(media, `{"a":"123456789 123"}`), 413, "body_too_large")
	wantProblem(t, post("text/plain", `{"a":"x"}`), 415, "unsupported_media_type")
	for _, body := range []string{"", "{}", "[]", `{"a":1}`, `{"a":null}`, `{"b":"x"}`, `{"a":"x","b":1}`, `{"a":"x"}x`} {
		w := post(media, body)
		if wantProblem(t, w, 400, "invalid_request"); strings.Contains(w.Body.String(), "is missing") != (body == "{}") {
			t.Errorf("%s: %s", body, w.Body)
		}
	}
	wantProblem(t, do(t, api, "DELETE", "/object/x"), 405, "method_not_allowed")
	before := strings.Count(log.String(), `"msg":"audit"`)
	wantProblem(t, do(t, api, "GET", "/object/x"), 400, "invalid_request")
	if after := strings.Count(log.String(), `"msg":"audit"`); before != 11 || after != before {
		t.Errorf("there are %d audit lines, and %d after a GET; want 11", before, after)
	}
}

// A page of another origin may lead to a route that says so, by a name of this service.
func TestExtraLinked(t *testing.T) {
	api := newStarting(t, func(o *options) { o.Extra = objectRoute() })
	w := do(t, api, "GET", "/page", "Origin: http://elsewhere", "Sec-Fetch-Site: cross-site")
	if w.Code != 200 || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("got %d, %v", w.Code, w.Header())
	}
	wantProblem(t, do(t, api, "GET", "/object/x", "Origin: http://elsewhere"), 403, "forbidden")
	r := httptest.NewRequest("GET", "http://elsewhere/page", nil)
	foreign := httptest.NewRecorder()
	api.ServeHTTP(foreign, r)
	wantProblem(t, foreign, 403, "forbidden")
}

// TestRefusedGuestsAreStrangers checks that a connection is known only once a guest may do
// something: those that may do nothing must not take the places of callers with a token.
func TestRefusedGuestsAreStrangers(t *testing.T) {
	const most = 8
	api := newGuarded(t, withExtra, func(o *options) { o.MaxConnections = most })
	addr, ask := served(t, api)
	for i, path := range []string{"/change/stranger", "/change/x"} {
		for range most {
			ask(dial(t, addr), path)
		}
		must.Equal(t, api.Gate().Connections.Crowded(), i == 1, "connections that asked for %s crowd out others", path)
	}
}
