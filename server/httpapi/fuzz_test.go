package httpapi_test

import (
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd/server/httpapi"
)

// parameter matches a parameter in the path of a route.
var parameter = regexp.MustCompile(`\{[^}]*\}`)

// FuzzRoute sends whatever net/http accepts to the handler. Nothing may panic, be an internal
// error, or get an answer outside the contract.
func FuzzRoute(f *testing.F) {
	for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "CONNECT", "brew"} {
		for _, target := range []string{
			"/seq/order", "/seq/order?count=3", "/seq/order?count=10000", "/seq/order?count=1&count=2", "/seq/order?x=%zz;",
			"/seq/a%2Fb", "/seq/%00", "/seq/заказ", "/seq/+%2B", "/seq/order/parse/100", "/seq/order/parse/%31+", "/seq/order/parse/9007199254740992",
			"/healthz", "/readyz", "/", "//", "*", "http://seqd/seq/order", "/seq/order/", "/seq/:bizType", "/%73eq/order",
		} {
			f.Add(method, target, "Accept", "text/plain;q=0.5, */*;q=0.1", "", false)
		}
	}
	for _, route := range newStarting(f).Routes() {
		target := strings.NewReplacer("{id}", "100", "{resource}", "things", "{reservation}", "x..t1").Replace(route.Path)
		target = parameter.ReplaceAllString(target, "order")
		f.Add(route.Method, target, "If-Match", `"7"`, "", false)
		f.Add(route.Method, target+"?limit=1&after=a&dryRun=true&force=true", "Idempotency-Key", "k1", "", false)
		f.Add(route.Method, target+"?key=t1&ttl=1m&period=2026", "Content-Type", "application/json", `{"id":"1","reason":"=x"}`, false)
		f.Add(route.Method, target, "Content-Type", "application/merge-patch+json", `{"step":null,"plugins":[{"name":"format"}]}`, true)
		f.Add(route.Method, target, "Authorization", "Bearer seqd_x", `{"name":"shop","scopes":["issue:*"],"expires":"2100-01-01T00:00:00Z"}`, false)
	}
	f.Add("GET", "/seq/order", "Accept", ",;=/,,q=;;\"\xff", "", false)
	f.Add("GET", "/seq/order", "X-Request-Id", "a\tb<c>", "", false)
	f.Add("GET", "/seq/order", "X-Forwarded-For", "1.1.1.1, nobody,, 192.0.2.7", "", false)
	f.Add("POST", "/seq/order", "Content-Type", "application/json", `{"count":3}`, false)
	f.Add("POST", "/seq/order", "Expect", "100-continue", strings.Repeat("x", 2000), false)
	f.Add("POST", "/seq/order", "Trailer", "X", strings.Repeat("x", 2000), true)
	f.Add("GET", "/seq/"+strings.Repeat("a", 5000), "", "", "", false)

	starting := newStarting(f)
	issuing := newStarting(f, func(o *options) { o.AccessLog, o.Proxies = "on", trusting("192.0.2.0/24") })
	issuer := newIssuer(f, define("order", newCounter(100)), defineBook("invoice", newBook(false)), defineBook("tenant", newBook(true)))
	issuer.Init(f.Context())
	ready(issuing, issuer)
	guarded := newGuarded(f)
	for _, value := range []string{auth("all")[len("Authorization: "):], "bearer x", "Bearer", "Basic YTpi", ", Bearer all-secret"} {
		for _, target := range []string{"/seq/order", "/seq/user", "/tokens", "/tokens/shop", "/biz-types/order/history"} {
			f.Add("GET", target, "Authorization", value, "", false)
			f.Add("POST", target, "Authorization", value, "{}", false)
		}
	}

	f.Fuzz(func(t *testing.T, method, target, name, value, body string, chunked bool) {
		for _, api := range []*httpapi.API{starting, issuing, guarded} {
			var headers []string
			if name != "" {
				headers = append(headers, name+": "+value)
			}
			r, err := newRequest(method, target, headers...)
			if err != nil {
				return // net/http answers this one itself
			}
			w := httptest.NewRecorder()
			if body != "" || chunked {
				r = withBody(r, body, chunked)
			}
			api.ServeHTTP(w, r)
			checkAnswer(t, w)
		}
	})
}

func checkAnswer(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Header().Get("X-Request-Id") == "" {
		t.Error("the answer has no X-Request-Id")
	}
	switch {
	case w.Code == 500:
		t.Errorf("an error of the service: %s", w.Body)
	case w.Code == 204:
		if w.Body.Len() > 0 {
			t.Errorf("204 with %.300q", w.Body)
		}
	case w.Code <= 201 && w.Body.Len() == 0:
		t.Errorf("an empty %d", w.Code)
	case w.Code <= 201 && w.Header().Get("Content-Type") == jsonType && !validJSON(w):
		t.Errorf("no JSON: %.300q", w.Body)
	case w.Code == 200, w.Code == 201:
	case w.Code < 400:
		t.Errorf("status %d is not in the contract", w.Code)
	default:
		if _, err := problemIn(w.Code, w.Header(), w.Body.Bytes()); err != nil {
			t.Errorf("status %d: %v", w.Code, err)
		}
	}
}

// checked is the document, which is long and always the same, once it was found to be valid JSON.
var checked atomic.Pointer[string]

func validJSON(w *httptest.ResponseRecorder) bool {
	body := w.Body.Bytes()
	if known := checked.Load(); known != nil && string(body) == *known {
		return true
	}
	valid := json.Valid(body)
	if valid && w.Header().Get("Cache-Control") == "no-cache" {
		text := string(body)
		checked.Store(&text)
	}
	return valid
}
