package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/memory"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/httpapi"
)

// randomRequests is how many requests each route gets.
var randomRequests = longtest.Or(400, 10_000)

// TestRandomRequests sends random requests to each route. None may be an internal error, and every
// error must be a problem document. The seed of a route is its name, so each run sends the same
// requests.
func TestRandomRequests(t *testing.T) {
	routes := randomAPI(t).Routes()
	for _, route := range routes {
		t.Run(route.Method+" "+route.Path, func(t *testing.T) {
			t.Parallel()
			api := randomAPI(t) // of its own, so that one route does not undo what another needs
			hash := fnv.New64a()
			fmt.Fprint(hash, route)
			g := generator{rand.New(rand.NewPCG(hash.Sum64(), 6))}
			good := 0
			var body bytes.Buffer
			for sent := 0; sent < randomRequests; {
				method, target, headers, sending, chunked := g.request(route)
				r, err := newRequest(method, target, headers...)
				if err != nil {
					continue // net/http answers this one itself
				}
				if sending != "" || chunked {
					r = withBody(r, sending, chunked)
				}
				sent++
				body.Reset()
				w := httptest.NewRecorder()
				w.Body = &body // reused, which is cheaper than a new one
				api.ServeHTTP(w, r)
				checkAnswer(t, w)
				if w.Code < 300 {
					good++
				}
				if t.Failed() {
					t.Fatalf("%s %q %q %.300q, chunked %t", method, target, headers, sending, chunked)
				}
			}
			if good == 0 || good == randomRequests {
				t.Errorf("%d of %d requests were good: they are not what they should be", good, randomRequests)
			}
		})
	}
}

// randomAPI returns an API with something behind every route.
func randomAPI(t *testing.T) *httpapi.API {
	d := define("order", newCounter(100))
	d.Plugins = append(d.Plugins, seqd.BoundPlugin{Name: "things", Plugin: showing{show: func(query url.Values) (any, error) {
		if len(query) > 0 {
			return nil, seqd.Errorf(seqd.CodeInvalidRequest, "there are no parameters")
		}
		return map[string]string{}, nil
	}}})
	tokens := access.New(access.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	documents := memory.New(time.Now).Documents()
	shop := persist.Document{Kind: access.Kind, Key: "shop", Revision: 1, Body: fmt.Sprintf(`{"secrets":[{"sha256":%q},{"sha256":%q}],"scopes":["read"],"enabled":true}`,
		shopSecrets[0].Sha256.Hex(), access.DigestOf("another").Hex())}
	tokens.Use(access.Backing{Documents: documents})
	if err := errors.Join(documents.Create(t.Context(), shop), tokens.Reload(t.Context())); err != nil {
		t.Fatal(err)
	}
	api := newStarting(t, func(o *options) {
		o.Proxies = trusting("192.0.2.0/24")
		o.Tokens = tokens
	})
	issuer := newIssuer(t, d, defineBook("invoice", newBook(false)), defineBook("tenant", newBook(true)))
	issuer.Init(t.Context())
	api.Gate().Ready(issuer)
	reserve(t, api, "/seq/invoice/reservations")
	do(t, api, "GET", "/seq/tenant?key=a")
	api.Administer(newDefinitions(), alone{})
	api.Show(still{})
	return api
}

// still are figures of a cluster in which nothing happens.
type still struct{}

func (still) Overview(context.Context) ([]byte, error) { return []byte("{}\n"), nil }

// generator makes requests that are half right.
type generator struct{ *rand.Rand }

// hostile are values that have broken parsers.
var hostile = []string{
	"", "0", "-1", "1", "3", "+5", "1e9", "0x10", "007", "10000", "10001", "9007199254740991", "9007199254740992", "9223372036854775807", "-9223372036854775808",
	"18446744073709551616", "1.5", "NaN", "Infinity", "null", "true", "false", "undefined", "[]", "{}", "*", "%", "%zz", "%00", "%0d%0aX:%20y", "%2e%2e%2f", "..", "../../etc/passwd",
	"' OR 1=1 --", "<script>alert(1)</script>", "${jndi:ldap://x}", "{{7*7}}", "\xff\xfe", "\u202e", "заказ", "😀", "İ", "a\tb", `"`, `\`, `"7"`, `W/"7"`, `"7", "8"`, ";", ",", "=", "&", "?", "#",
	"order", "Order", "order@20261120", "things", "gaps", "keys", "invoice", "tenant", "nobody", "(secret)", "2026-11-21T12:00:00Z", "9999-99-99T99:99:99Z", "bytes=0-", "gzip", "Bearer x", "Basic Og==",
}

func (g generator) pick(list []string) string { return list[g.IntN(len(list))] }

// value returns the good value, a hostile one, a long one, or noise.
func (g generator) value(good string) string {
	switch n := g.IntN(20); {
	case n < 9:
		return good
	case n < 16:
		return g.pick(hostile)
	case n < 17:
		return strings.Repeat(g.pick(hostile), g.IntN(200))
	default:
		return g.noise(g.IntN(40))
	}
}

// noise returns random bytes.
func (g generator) noise(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.IntN(256))
	}
	return string(b)
}

// part returns a value as part of a target, escaped or as it is.
func (g generator) part(good string) string {
	v := g.value(good)
	if g.IntN(4) > 0 {
		return url.PathEscape(v)
	}
	return v
}

func (g generator) request(route httpapi.Route) (method, target string, headers []string, body string, chunked bool) {
	method = route.Method
	if g.IntN(20) == 0 {
		method = g.pick([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW", "get"})
	}
	headers = g.headers()
	if g.IntN(2) == 0 {
		headers = []string{"Content-Type: application/json"}
	}
	return method, g.target(route.Path), headers, g.body(), g.IntN(8) == 0
}

var shopSecrets = access.SecretOf("of shop")

// good are usual values of the parameters of routes.
var good = map[string]string{
	"{secret}": shopSecrets[0].ID(),
	"{id}":     "100", "{resource}": "things", "{code}": "internal", "{verb}": "disable", "{name}": "shop", "{reservation}": "00000000000000000001",
}

// bizTypeFor returns the biz type for which a route can be good.
func bizTypeFor(path string) string {
	switch {
	case strings.Contains(path, "/reservations"), strings.HasSuffix(path, "/voids"):
		return "invoice"
	}
	return "order"
}

func (g generator) target(path string) string {
	var target strings.Builder
	for _, part := range strings.Split(path, "/")[1:] {
		target.WriteByte('/')
		if !strings.HasPrefix(part, "{") {
			target.WriteString(part)
			continue
		}
		usual, known := good[part]
		if !known {
			usual = bizTypeFor(path)
		}
		target.WriteString(g.part(usual))
	}
	if g.IntN(3) > 0 {
		return target.String()
	}
	separator := "?"
	for range 1 + g.IntN(3) {
		name := g.part(g.pick([]string{"count", "limit", "after", "from", "to", "dryRun", "force", "key", "ttl", "period"}))
		target.WriteString(separator + name + g.pick([]string{"=", "=", "=", "", "=="}) + g.part("3"))
		separator = g.pick([]string{"&", "&", "&", ";", "?"})
	}
	return target.String()
}

func (g generator) headers() (lines []string) {
	for range g.IntN(4) {
		name := g.pick([]string{
			"Accept", "Content-Type", "If-Match", "If-None-Match", "Idempotency-Key", "Authorization", "X-Request-Id", "X-Forwarded-For", "Range", "Cookie",
			"Content-Encoding", "Origin", "Expect", "Trailer", "X-Http-Method-Override", "Accept-Encoding", "If-Modified-Since",
		})
		lines = append(lines, name+": "+g.value(g.pick([]string{"text/plain", "text/csv", "application/json", "application/merge-patch+json", "*/*", `"1"`})))
	}
	return lines
}

func (g generator) body() string {
	switch g.IntN(9) {
	case 7:
		return fmt.Sprintf(`{"id": "1", "reason": %q}`, g.value("x"))
	case 0:
		return `{"step": 5}`
	case 5:
		return fmt.Sprintf(`{"name": %q, "scopes": ["read"]}`, g.value("shop"))
	case 6:
		return `{"scopes": ["read"]}`
	case 4:
		return fmt.Sprintf(`{%q: %s, "step": %s, "plugins": [{"name": %q}]}`, g.value("start"), g.value("100"), g.value("1"), g.value("format"))
	case 1:
		return strings.Repeat(g.pick([]string{"[", `{"a":`, "\"", " ", "\x00"}), g.IntN(3000))
	case 2:
		return g.value(`{"enabled": true}`)
	case 3:
		return g.noise(g.IntN(100))
	}
	return ""
}
