package httpapi_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/httpapi"
)

// shownToken is a token as a caller sees it.
type shownToken struct {
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"`
	Enabled   bool     `json:"enabled"`
	Expires   string   `json:"expires"`
	Source    string   `json:"source"`
	Version   int64    `json:"version"`
	UpdatedAt string   `json:"updatedAt"`
	Secret    string   `json:"secret"`
}

// send sends a change with a JSON body, with the token all.
func send(tb testing.TB, h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	tb.Helper()
	headers = append([]string{auth("all")}, headers...)
	if body != "" && !slices.ContainsFunc(headers, func(line string) bool { return strings.HasPrefix(line, "Content-Type") }) {
		headers = append(headers, "Content-Type: application/json")
	}
	r := must.Get(newRequest(method, target, headers...))(tb)
	return serveOne(tb, h, withBody(r, body, false))
}

// wantToken checks an answer that shows a token, except for fields that differ from run to run.
func wantToken(t *testing.T, w *httptest.ResponseRecorder, status int, want shownToken) shownToken {
	t.Helper()
	var got shownToken
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != status {
		t.Fatalf("status %d, want %d, %v: %s", w.Code, status, err, w.Body)
	}
	if w.Header().Get("Content-Type") != jsonType || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the headers are %v", w.Header())
	}
	tag := ""
	if want.Version > 0 {
		tag = fmt.Sprintf("%q", fmt.Sprint(want.Version))
	}
	must.Equal(t, w.Header().Get("Etag"), tag, "ETag")
	compared := got
	compared.Secret = want.Secret
	if a, b := fmt.Sprintf("%+v", compared), fmt.Sprintf("%+v", want); a != b {
		t.Errorf("the token is %s, want %s", a, b)
	}
	return got
}

const nowText = "2026-11-20T12:00:00.000Z"

// TestTokenByAPI creates, reads, changes and deletes a token.
func TestTokenByAPI(t *testing.T) {
	api := newGuarded(t)
	w := send(t, api, "POST", "/tokens", `{"name":"new","scopes":["issue:order","read"],"expires":"2027-01-31T00:00:00+01:00"}`)
	made := shownToken{Name: "new", Scopes: []string{"issue:order", "read"}, Enabled: true, Expires: "2027-01-30T23:00:00.000Z", Source: "api", Version: 1, UpdatedAt: nowText}
	secret := wantToken(t, w, 201, made).Secret
	if w.Header().Get("Location") != "tokens/new" || len(secret) != 48 {
		t.Errorf("Location is %q, the secret has %d characters", w.Header().Get("Location"), len(secret))
	}
	own := "Authorization: Bearer " + secret
	wantBody(t, do(t, api, "GET", "/seq/order", own), jsonType, `{"bizType":"order","id":"100"}`)

	w = do(t, api, "GET", "/tokens/new", own)
	wantToken(t, w, 200, made)
	if strings.Contains(w.Body.String(), `"secret"`) || strings.Contains(w.Body.String(), "sha256") {
		t.Errorf("the secret is shown again: %s", w.Body)
	}

	made.Version, made.Scopes = 2, []string{"read"}
	wantToken(t, send(t, api, "PATCH", "/tokens/new", `{"scopes":["read"]}`, "Content-Type: application/merge-patch+json; charset=utf-8"), 200, made)
	wantProblem(t, do(t, api, "GET", "/seq/order", own), 403, "forbidden")
	made.Version, made.Expires = 3, ""
	wantToken(t, send(t, api, "PATCH", "/tokens/new", `{"expires":null}`), 200, made)
	made.Version, made.Enabled = 4, false
	wantToken(t, send(t, api, "PATCH", "/tokens/new", `{"enabled":false}`), 200, made)
	wantUnauthorized(t, do(t, api, "GET", "/tokens", own))
	made.Version, made.Enabled, made.Expires = 5, true, nowText
	wantToken(t, send(t, api, "PATCH", "/tokens/new", `{"enabled":true,"expires":"2026-11-20T12:00:00Z"}`), 200, made)
	wantUnauthorized(t, do(t, api, "GET", "/tokens", own))

	w = send(t, api, "DELETE", "/tokens/new", "")
	if w.Code != 204 || w.Body.Len() > 0 {
		t.Errorf("removing got %d: %s", w.Code, w.Body)
	}
	for _, method := range []string{"GET", "DELETE"} {
		wantProblem(t, send(t, api, method, "/tokens/new", ""), 404, "not_found")
	}
	wantProblem(t, send(t, api, "PATCH", "/tokens/new", "{}"), 404, "not_found")
}

// A secret says who has made it: a token, or nobody in particular while no tokens are asked for.
func TestMade(t *testing.T) {
	for maker, api := range map[string]*httpapi.API{"all": newGuarded(t), "~": newOpen(t)} {
		send(t, api, "POST", "/tokens", `{"name":"new","scopes":["read"]}`)
		send(t, api, "POST", "/tokens/new/secrets", "")
		for _, method := range []string{"GET", "DELETE"} {
			w := send(t, api, method, "/tokens/"+maker+"/made", "")
			var got struct {
				Secrets []struct{ Caller, CreatedBy string }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%s: %d %s, %v", method, w.Code, w.Body, err)
			}
			for _, s := range got.Secrets {
				if s.Caller != "new" || s.CreatedBy != maker {
					t.Errorf("%+v, want a secret of new by %s", s, maker)
				}
			}
			if len(got.Secrets) != 2 {
				t.Errorf("%s: %d secrets by %s, want 2", method, len(got.Secrets), maker)
			}
		}
		wantProblem(t, send(t, api, "GET", "/tokens/new", ""), 404, "not_found")
	}
}

// TestTokenOfConfig checks that tokens of the configuration are shown and cannot be changed.
func TestTokenOfConfig(t *testing.T) {
	api := newGuarded(t)
	wantToken(t, do(t, api, "GET", "/tokens/shop", auth("reader")), 200, shownToken{Name: "shop", Scopes: []string{"issue:order*"}, Enabled: true, Source: "config"})
	wantProblem(t, send(t, api, "POST", "/tokens", `{"name":"shop","scopes":["admin"]}`), 409, "conflict")
	wantProblem(t, send(t, api, "PATCH", "/tokens/shop", `{"scopes":["admin"]}`), 409, "conflict")
	wantProblem(t, send(t, api, "DELETE", "/tokens/shop", ""), 409, "conflict")
	wantProblem(t, send(t, api, "DELETE", "/tokens/shop", "", "If-Match: *"), 409, "conflict")
}

func TestTokenPages(t *testing.T) {
	api := newGuarded(t)
	for i := range 5 {
		if w := send(t, api, "POST", "/tokens", fmt.Sprintf(`{"name":"p%d","scopes":["read"]}`, i)); w.Code != 201 {
			t.Fatal(w.Body)
		}
	}
	var names []string
	target := "/tokens?limit=3"
	for target != "" {
		var page struct {
			Tokens []shownToken
			Next   string
		}
		w := do(t, api, "GET", target, auth("reader"))
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 || len(page.Tokens) > 3 || strings.Contains(w.Body.String(), `"secret"`) {
			t.Fatalf("%d: %v: %s", w.Code, err, w.Body)
		}
		for _, token := range page.Tokens {
			names = append(names, token.Name)
		}
		target = ""
		if page.Next != "" {
			target = "/tokens?limit=3&after=" + page.Next
		}
	}
	if want := "all disabled expired ops p0 p1 p2 p3 p4 reader shop"; strings.Join(names, " ") != want {
		t.Errorf("listed %s, want %s", names, want)
	}
	wantBody(t, do(t, api, "GET", "/tokens?after=zzz", auth("reader")), jsonType, `{"tokens":[]}`)
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "limit=", "limit=%2B5", "limit=1&limit=2", "after=a&after=b", "before=a", "x", "limit=1;after=a", "%zz"} {
		wantProblem(t, do(t, api, "GET", "/tokens?"+query, auth("reader")), 400, "invalid_request")
	}
}

// TestTokenBodies checks that the error for a wrong body names the field.
func TestTokenBodies(t *testing.T) {
	api := newGuarded(t)
	if w := send(t, api, "POST", "/tokens", `{"name":"there","scopes":["read"]}`); w.Code != 201 {
		t.Fatal(w.Body)
	}
	tests := []struct{ body, names string }{
		{"", "JSON object"}, {" ", "JSON object"}, {"null", "JSON object"}, {"[]", "JSON object"}, {`"x"`, "JSON object"}, {"{", "not JSON"}, {"{}}", "after the JSON object"},
		{`{"scopes":["read"]} `, ""}, {`{"scopes":["read"]}{}`, "after the JSON object"}, {`{"scopes":["read"]}x`, "after the JSON object"}, {`{"scopes":["read"],}`, "not JSON"},
		{`{"scopes":["read"],"scopes":["admin"]}`, "scopes"}, {`{"Scopes":["read"]}`, "Scopes"}, {`{"scopes":["read"],"sha256":"x"}`, "sha256"}, {`{"secret":"x"}`, "secret"},
		{`{"source":"config"}`, "source"}, {`{"version":7}`, "version"},
		{`{"scopes":"read"}`, "scopes"}, {`{"scopes":null}`, "scopes"}, {`{"scopes":[1]}`, "scopes"}, {`{"scopes":[null]}`, "scopes"}, {`{"scopes":{}}`, "scopes"}, {`{"scopes":[["read"]]}`, "scopes"},
		{`{"scopes":[]}`, "scopes"}, {`{"scopes":["read","write"]}`, "scopes[1]"}, {`{"scopes":["` + strings.Repeat(`read","`, 150) + `read"]}`, "scopes"},
		{`{"scopes":["read"],"enabled":"true"}`, "enabled"}, {`{"scopes":["read"],"enabled":null}`, "enabled"}, {`{"scopes":["read"],"enabled":1}`, "enabled"},
		{`{"scopes":["read"],"expires":5}`, "expires"}, {`{"scopes":["read"],"expires":""}`, "expires"}, {`{"scopes":["read"],"expires":"tomorrow"}`, "expires"},
		{`{"scopes":["read"],"expires":"2027-01-31"}`, "expires"}, {`{"scopes":["read"],"expires":"0001-01-01T00:00:00Z"}`, "expires"}, {`{"scopes":["read"],"expires":"1066-01-01T00:00:00Z"}`, "expires"},
		{"{\"scopes\":[\"re\xffad\"]}", "UTF-8"}, {`{"scopes":["read"],"enabled":tru}`, "enabled"}, {`{5:1}`, "JSON"}, {`{"scopes" 5}`, "scopes"},
		{`{"scopes":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, "scopes"},
	}
	for i, tt := range tests {
		for _, method := range []string{"POST", "PATCH"} {
			target, body := "/tokens/there", tt.body
			if method == "POST" {
				target = "/tokens"
				if strings.HasPrefix(body, `{"`) {
					body = fmt.Sprintf(`{"name":"n%d",`, i) + body[1:]
				}
			}
			w := send(t, api, method, target, body, "Content-Type: application/json")
			if tt.names == "" {
				must.Equal(t, w.Code/100, 2, "%s %s: %d %s", method, body, w.Code, w.Body)
				continue
			}
			if w.Code == 413 {
				continue // no longer than the test's API takes
			}
			if p := wantProblem(t, w, 400, "invalid_request"); !strings.Contains(p.Detail, tt.names) {
				t.Errorf("%s %.60s: the answer does not name %s: %s", method, body, tt.names, p.Detail)
			}
		}
	}
	for _, body := range []string{`{}`, `{"scopes":["read"]}`, `{"name":"","scopes":["read"]}`, `{"name":null,"scopes":["read"]}`, `{"name":7,"scopes":["read"]}`, `{"name":"a b","scopes":["read"]}`, `{"name":"a/b","scopes":["read"]}`, `{"name":"` + strings.Repeat("x", 65) + `","scopes":["read"]}`} {
		if p := wantProblem(t, send(t, api, "POST", "/tokens", body), 400, "invalid_request"); !strings.Contains(p.Detail, "name") {
			t.Errorf("%s: %s", body, p.Detail)
		}
	}
	wantProblem(t, send(t, api, "PATCH", "/tokens/there", `{"name":"there"}`), 400, "invalid_request")
}

func TestTokenMediaTypes(t *testing.T) {
	api := newGuarded(t)
	body := `{"name":"new","scopes":["read"]}`
	for _, header := range []string{"Content-Type: text/plain", "Content-Type:", "Content-Type: application/x-www-form-urlencoded", "Content-Type: application/json, text/plain",
		"Content-Type: application/jsonx", "Content-Type: ;", "Content-Type: application/merge-patch+json"} {
		wantProblem(t, send(t, api, "POST", "/tokens", body, header), 415, "unsupported_media_type")
	}
	wantProblem(t, send(t, api, "POST", "/tokens", body, "Content-Type: application/json", "Content-Encoding: gzip"), 415, "unsupported_media_type")
	wantProblem(t, send(t, api, "PATCH", "/tokens/x", body, "Content-Type: text/plain"), 415, "unsupported_media_type")
	for i, header := range []string{"Content-Type: application/json; charset=utf-8", "Content-Type: Application/JSON", "Content-Encoding: identity"} {
		if w := send(t, api, "POST", "/tokens", fmt.Sprintf(`{"name":"n%d","scopes":["read"]}`, i), header); w.Code != 201 {
			t.Errorf("%s: %d %s", header, w.Code, w.Body)
		}
	}
}

func TestTokenBodyTooLarge(t *testing.T) {
	api := newGuarded(t)
	for _, target := range []string{"POST /tokens", "PATCH /tokens/x", "DELETE /tokens/x"} {
		method, path, _ := strings.Cut(target, " ")
		for _, chunked := range []bool{false, true} {
			r := must.Get(newRequest(method, path, auth("all"), "Content-Type: application/json"))(t)
			w := serveOne(t, api, withBody(r, `{"scopes":["`+strings.Repeat("x", 2000)+`"]}`, chunked))
			wantProblem(t, w, 413, "body_too_large")
		}
	}
	none := newGuarded(t, func(o *options) { o.MaxBodyBytes = 0 })
	wantProblem(t, send(t, none, "POST", "/tokens", `{"name":"new","scopes":["read"]}`), 413, "body_too_large")
}

func TestTokenIfMatch(t *testing.T) {
	api := newGuarded(t)
	if w := send(t, api, "POST", "/tokens", `{"name":"new","scopes":["read"]}`); w.Code != 201 {
		t.Fatal(w.Body)
	}
	version := 1
	for _, tt := range []struct {
		header string
		status int
	}{
		{`If-Match: "%d"`, 200}, {`If-Match: *`, 200}, {`If-Match: "0", "%d"`, 200}, {`If-Match: "x,y" ,"%d"`, 200}, {`If-Match: , "%d",`, 200},
		{`If-Match: "7777"`, 412}, {`If-Match: W/"%d"`, 412}, {`If-Match: ""`, 412}, {`If-Match: "0%d"`, 412}, {`If-Match: "+%d"`, 412}, {`If-Match: " %d"`, 412},
		{`If-Match: %d`, 400}, {`If-Match:`, 400}, {`If-Match: "%d`, 400}, {`If-Match: "`, 400}, {`If-Match: "%d" "8"`, 400}, {`If-Match: *, "%d"`, 400}, {`If-Match: W/`, 400}, {`If-Match: w/"%d"`, 400},
	} {
		header := tt.header
		if strings.Contains(header, "%d") {
			header = fmt.Sprintf(header, version)
		}
		w := send(t, api, "PATCH", "/tokens/new", `{}`, header)
		switch tt.status {
		case 200:
			version++
			wantToken(t, w, 200, shownToken{Name: "new", Scopes: []string{"read"}, Enabled: true, Source: "api", Version: int64(version), UpdatedAt: nowText})
			continue
		case 412:
			wantProblem(t, w, 412, "precondition_failed")
			wantProblem(t, send(t, api, "DELETE", "/tokens/new", "", header), 412, "precondition_failed")
		case 400:
			wantProblem(t, w, 400, "invalid_request")
			wantProblem(t, send(t, api, "DELETE", "/tokens/new", "", header), 400, "invalid_request")
		}
	}
	if w := send(t, api, "DELETE", "/tokens/new", "", fmt.Sprintf(`If-Match: "%d"`, version)); w.Code != 204 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestTokenOneWins checks that exactly one of several concurrent changes of the same version
// succeeds.
func TestTokenOneWins(t *testing.T) {
	api := newGuarded(t)
	if w := send(t, api, "POST", "/tokens", `{"name":"new","scopes":["read"]}`); w.Code != 201 {
		t.Fatal(w.Body)
	}
	for version := 1; version <= 10; version++ {
		var (
			wg     sync.WaitGroup
			mu     sync.Mutex
			counts = make(map[int]int)
		)
		for range 8 {
			wg.Go(func() {
				w := send(t, api, "PATCH", "/tokens/new", `{}`, fmt.Sprintf(`If-Match: "%d"`, version))
				mu.Lock()
				defer mu.Unlock()
				counts[w.Code]++
			})
		}
		wg.Wait()
		if counts[200] != 1 || counts[412] != 7 {
			t.Fatalf("version %d: %v", version, counts)
		}
	}
}

// TestTokensStoreAway checks that, without the store, tokens are neither shown nor changed, and
// still work.
func TestTokensStoreAway(t *testing.T) {
	api := newGuarded(t, func(o *options) {
		tokens := newTokens(t, newDocuments(), slog.New(slog.DiscardHandler))
		away(tokens)
		o.Guard, o.Tokens = tokens, tokens
	})
	wantProblem(t, send(t, api, "GET", "/tokens", ""), 503, "store_unavailable")
	wantProblem(t, send(t, api, "GET", "/tokens/new", ""), 503, "store_unavailable")
	wantProblem(t, send(t, api, "POST", "/tokens", `{"name":"new","scopes":["read"]}`), 503, "store_unavailable")
	wantProblem(t, send(t, api, "PATCH", "/tokens/new", `{}`), 503, "store_unavailable")
	wantProblem(t, send(t, api, "DELETE", "/tokens/new", ""), 503, "store_unavailable")
	wantBody(t, do(t, api, "GET", "/seq/order", auth("shop")), jsonType, `{"bizType":"order","id":"100"}`)
}

// FuzzTokens sends anything to the routes of tokens. Nothing may be an internal error, and whatever
// was accepted can be read again.
func FuzzTokens(f *testing.F) {
	f.Add("POST", "/tokens", "application/json", `{"name":"new","scopes":["issue:a*"],"expires":"2027-01-31T00:00:00Z","enabled":true}`, "")
	f.Add("POST", "/tokens", "application/json", `{"name":"n\u0065w","scopes":["\ud800"]}`, "")
	f.Add("PATCH", "/tokens/there", "application/merge-patch+json", `{"expires":null,"scopes":["read"]}`, `"1"`)
	f.Add("PATCH", "/tokens/there", "application/json", `{"enabled":[[[[{"a":1}]]]]}`, `W/"1", "2"`)
	f.Add("DELETE", "/tokens/there", "", "", "*")
	f.Add("DELETE", "/tokens/%2e%2e", "", "", `"`)
	f.Add("GET", "/tokens?after=%00&limit=5", "", "", "")
	f.Add("PUT", "/tokens/there", "application/json", "{}", "")
	f.Fuzz(func(t *testing.T, method, target, mediaType, body, match string) {
		api := newGuarded(t)
		if w := send(t, api, "POST", "/tokens", `{"name":"there","scopes":["read"]}`); w.Code != 201 {
			t.Fatal(w.Body)
		}
		lines := []string{auth("all"), "Content-Type: " + mediaType}
		if match != "" {
			lines = append(lines, "If-Match: "+match)
		}
		r, err := newRequest(method, target, lines...)
		if err != nil {
			return
		}
		w := serveOne(t, api, withBody(r, body, false))
		if w.Code != 201 && w.Code != 204 {
			checkAnswer(t, w)
		}
		if list := do(t, api, "GET", "/tokens", auth("all")); list.Code != 200 {
			t.Errorf("listing afterwards: %d %s", list.Code, list.Body)
		}
	})
}

// TestSecretsByAPI adds, lists and removes secrets of a token.
func TestSecretsByAPI(t *testing.T) {
	api := newGuarded(t)
	const target = "/tokens/new/secrets"
	first := wantToken(t, send(t, api, "POST", "/tokens", `{"name":"new","scopes":["read"]}`), 201,
		shownToken{Name: "new", Scopes: []string{"read"}, Enabled: true, Source: "api", Version: 1, UpdatedAt: nowText}).Secret
	type secret struct{ ID, CreatedAt, Expires, Secret string }
	add := func(version, body string) (s secret) {
		t.Helper()
		w := send(t, api, "POST", target, body, `If-Match: "`+version[:1]+`"`)
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != 201 || w.Header().Get("Location") != "secrets/"+s.ID || w.Header().Get("Etag") != `"`+version[1:]+`"` {
			t.Fatalf("%d %v: %s, %v", w.Code, w.Header(), w.Body, err)
		}
		return s
	}
	second, third := add("12", ""), add("23", `{"expires":"2027-01-31T00:00:00Z"}`)
	lives := func(of string, want bool) {
		t.Helper()
		if w := do(t, api, "GET", target, "Authorization: Bearer "+of); (w.Code == 200) != want {
			t.Errorf("a secret got %d: %s", w.Code, w.Body)
		}
	}
	for _, s := range []string{first, second.Secret, third.Secret} {
		lives(s, true)
	}
	w := do(t, api, "GET", target, auth("reader"))
	var list struct{ Secrets []secret }
	second.Secret, third.Secret = "", ""
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || w.Header().Get("Etag") != `"3"` || len(list.Secrets) != 3 || list.Secrets[0].Secret != "" || second.ID == "" ||
		list.Secrets[1] != second || second.CreatedAt != nowText || second.Expires != "" || list.Secrets[2] != third || third.Expires != "2027-01-31T00:00:00.000Z" {
		t.Fatalf("%d %v: %s, %v", w.Code, w.Header(), w.Body, err)
	}
	for _, tt := range []struct {
		request, body, header string
		status                int
		code                  seqd.Code
	}{
		{"GET /tokens/a%20b/made", "", "", 400, "invalid_request"},
		{"POST /tokens/new/secrets", "", "If-Match: x", 400, "invalid_request"},
		{"POST /tokens/new/secrets", "", "Idempotency-Key: k1", 400, "invalid_request"},
		{"POST /tokens", `{"name":"once","scopes":["read"]}`, "Idempotency-Key: k1", 400, "invalid_request"},
		{"POST /tokens/new/secrets", "", `If-Match: "7"`, 412, "precondition_failed"},
		{"POST /tokens/new/secrets", `{"expires":5}`, "", 400, "invalid_request"},
		{"POST /tokens/new/secrets", `{"name":"x"}`, "", 400, "invalid_request"},
		{"GET /tokens/no/secrets", "", "", 404, "not_found"},
		{"POST /tokens/no/secrets", "", "", 404, "not_found"},
		{"POST /tokens/shop/secrets", "", "", 409, "conflict"},
		{"DELETE /tokens/new/secrets/x", "", "", 404, "not_found"},
		{"DELETE /tokens/new/secrets/" + second.ID, "", `If-Match: "7"`, 412, "precondition_failed"},
	} {
		method, path, _ := strings.Cut(tt.request, " ")
		var headers []string
		if tt.header != "" {
			headers = append(headers, tt.header)
		}
		wantProblem(t, send(t, api, method, path, tt.body, headers...), tt.status, tt.code)
	}
	if w := send(t, api, "DELETE", target+"/"+list.Secrets[0].ID, "", `If-Match: "3"`); w.Code != 204 || w.Body.Len() > 0 {
		t.Errorf("removing got %d: %s", w.Code, w.Body)
	}
	lives(first, false)
	if list := do(t, api, "GET", target, auth("reader")); list.Header().Get("Etag") != `"4"` || strings.Contains(list.Body.String(), first[:8]) {
		t.Errorf("%v: %s", list.Header(), list.Body)
	}
}
