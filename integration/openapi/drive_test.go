package openapi_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

// bizTypes has a biz type for each kind of answer.
const bizTypes = `SEQD_BIZTYPES=[
	{"name": "order", "start": 100, "plugins": [{"name": "stats"}, {"name": "history", "flushInterval": "10ms"}]},
	{"name": "user", "strategy": "snowflake"},
	{"name": "daily", "reset": "daily", "plugins": [{"name": "format", "template": "D{date:20060102}-{seq:04}{check}", "check": "luhn"}]},
	{"name": "limited", "plugins": [{"name": "rate-limit", "rate": 0.001, "burst": 2}]},
	{"name": "full", "start": 9007199254740991},
	{"name": "invoice", "strategy": "gapless", "reset": "yearly", "plugins": [{"name": "format", "template": "INV-{date:2006}-{seq:06}"}]},
	{"name": "tenant", "strategy": "gapless", "keyed": true, "maxReserved": 5, "events": true}
]`

// The test calls every route of the document, with good answers and errors, and checks that every
// request and answer is as documented.
func TestEveryRoute(t *testing.T) {
	n := node.StartReady(t, t.TempDir(), bizTypes)
	c := newChecker(t, n.URL)
	c.examples()
	c.numbers(n.URL)
	c.ledgers(n.URL)
	c.bizTypes(n.URL)
	c.resources(n)
	c.disabled(n.URL)
	c.tokens(n.URL)
	c.workers(n.URL)
	c.jobs(n.URL)
	c.subscriptions(n.URL)
	c.events(n.URL)
	c.service(n.URL)
	c.methods(n.URL)
	c.limits(n.URL)
	c.pages(n.URL)
	c.storeAway()
	c.overloaded()
	c.tokensAskedFor()
	c.readiness()
	c.settling()
	c.finish()
}

func (c *checker) numbers(url string) {
	c.Helper()
	for _, method := range []string{"GET", "POST"} {
		op := method + " /seq/{bizType}"
		for _, target := range []string{"/seq/order", "/seq/order?count=3", "/seq/order?count=10000", "/seq/user", "/seq/user?count=100", "/seq/daily?count=2"} {
			c.on(url, call{op: op, target: target, status: 200})
			c.on(url, call{op: op, target: target, headers: []string{"Accept: text/plain"}, status: 200})
		}
		for target, code := range map[string]string{
			"/seq/order?count=0": "invalid_count", "/seq/order?count=x": "invalid_count", "/seq/order?count=1&count=2": "invalid_count", "/seq/order?n=3": "invalid_request",
			"/seq/1": "invalid_biz_type", "/seq/a%2Fb": "invalid_biz_type",
		} {
			c.on(url, call{op: op, target: target, status: 400, code: code, wrong: true})
		}
		c.on(url, call{op: op, target: "/seq/nobody", status: 404, code: "unknown_biz_type"})
		// of which one for each method is allowed
		c.on(url, call{op: op, target: "/seq/limited", status: 200})
		c.on(url, call{op: op, target: "/seq/full?count=2", status: 409, code: "exhausted"})
	}
	c.on(url, call{op: "GET /seq/{bizType}", target: "/seq/limited", status: 429, code: "rate_limited"})
	c.on(url, call{op: "POST /seq/{bizType}", target: "/seq/limited?count=2", status: 429, code: "rate_limited"})
	c.idempotency(url)
	const parse = "GET /seq/{bizType}/parse/{id}"
	for _, bizType := range []string{"order", "user", "daily"} {
		var issued struct{ ID string }
		a := c.on(url, call{op: "GET /seq/{bizType}", target: "/seq/" + bizType, status: 200})
		must.Do(c, json.Unmarshal(a.body, &issued))
		c.on(url, call{op: parse, target: "/seq/" + bizType + "/parse/" + issued.ID, status: 200})
	}
	c.on(url, call{op: parse, target: "/seq/order/parse/x", status: 400, code: "invalid_id"})
	c.on(url, call{op: parse, target: "/seq/order/parse/1?x=1", status: 400, code: "invalid_request"})
	c.on(url, call{op: parse, target: "/seq/1/parse/1", status: 400, code: "invalid_biz_type", wrong: true})
	c.on(url, call{op: parse, target: "/seq/nobody/parse/1", status: 404, code: "unknown_biz_type"})
}

func (c *checker) idempotency(url string) {
	c.Helper()
	const part = "idempotency"
	keyed := func(op, target, key string, status int, code string) answer {
		c.Helper()
		return c.on(url, call{op: op, part: part, target: target, headers: []string{"Idempotency-Key: " + key}, status: status, code: code, wrong: status == 400})
	}
	const post = "POST /seq/{bizType}"
	first, again := keyed(post, "/seq/order?count=3", "k1", 200, ""), keyed(post, "/seq/order?count=3", "k1", 200, "")
	if string(first.body) != string(again.body) || len(first.body) > 0 && (first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true") {
		c.Errorf("the same key gives %s and %s, Idempotent-Replayed %q and %q", first.body, again.body, first.header["Idempotent-Replayed"], again.header["Idempotent-Replayed"])
	}
	keyed(post, "/seq/order?count=4", "k1", 422, "idempotency_key_reused")
	keyed(post, "/seq/order", strings.Repeat("x", 256), 400, "invalid_request")
	keyed("GET /seq/{bizType}", "/seq/order", "k2", 400, "invalid_request")
}

const (
	jsonBody  = "Content-Type: application/json"
	patchBody = "Content-Type: application/merge-patch+json"
	badTag    = `If-Match: "999"`
)

func (c *checker) bizTypes(url string) {
	c.Helper()
	const list, get, put, patch, remove = "GET /biz-types", "GET /biz-types/{name}", "PUT /biz-types/{name}", "PATCH /biz-types/{name}", "DELETE /biz-types/{name}"
	c.on(url, call{op: put, target: "/biz-types/made?dryRun=true", headers: []string{jsonBody}, body: `{"start": 5}`, status: 200})
	c.on(url, call{op: get, target: "/biz-types/made", status: 404, code: "unknown_biz_type"})
	c.on(url, call{op: put, target: "/biz-types/made", headers: []string{jsonBody, "If-None-Match: *"}, body: `{"strategy": "segment", "start": 5, "plugins": [{"name": "stats"}]}`, status: 201})
	c.on(url, call{op: put, target: "/biz-types/made", headers: []string{jsonBody, "If-None-Match: *"}, body: `{}`, status: 412, code: "precondition_failed"})
	c.on(url, call{op: put, target: "/biz-types/made", headers: []string{jsonBody, badTag}, body: `{}`, status: 412, code: "precondition_failed"})
	c.on(url, call{op: put, target: "/biz-types/made", headers: []string{jsonBody}, body: `{"name": "made", "start": 50}`, status: 200})
	a := c.on(url, call{op: get, target: "/biz-types/made", status: 200})
	tag := "If-Match: " + a.header.Get("ETag")
	a = c.on(url, call{op: patch, target: "/biz-types/made", headers: []string{patchBody, tag}, body: `{"step": 500}`, status: 200})
	c.on(url, call{op: patch, target: "/biz-types/made", headers: []string{patchBody, tag}, body: `{"step": 600}`, status: 412, code: "precondition_failed"})
	c.on(url, call{op: patch, target: "/biz-types/made?dryRun=true", headers: []string{jsonBody, "If-Match: " + a.header.Get("ETag")}, body: `{"step": null}`, status: 200})
	for _, op := range []string{put, patch} {
		c.on(url, call{op: op, target: "/biz-types/made", headers: []string{jsonBody}, body: `{"step": 0}`, status: 400, code: "invalid_definition", wrong: true})
		c.on(url, call{op: op, target: "/biz-types/made", headers: []string{jsonBody}, body: `{"nothing": 1}`, status: 400, code: "invalid_definition"})
		c.on(url, call{op: op, target: "/biz-types/made", headers: []string{jsonBody}, body: `{"name": "other"}`, status: 400})
		c.on(url, call{op: op, target: "/biz-types/made", headers: []string{jsonBody}, body: `{"step":`, status: 400, wrong: true})
		c.on(url, call{op: op, target: "/biz-types/made", headers: []string{"Content-Type: text/plain"}, body: `{}`, status: 415, code: "unsupported_media_type", wrong: true})
		c.on(url, call{op: op, target: "/biz-types/1", headers: []string{jsonBody}, body: `{}`, status: 400, wrong: true})
	}
	c.on(url, call{op: patch, target: "/biz-types/nobody", headers: []string{patchBody}, body: `{"step": 500}`, status: 404, code: "unknown_biz_type"})
	c.on(url, call{op: put, target: "/biz-types/order", headers: []string{jsonBody}, body: `{"strategy": "snowflake"}`, status: 409, code: "conflict"})
	c.on(url, call{op: patch, target: "/biz-types/order", headers: []string{patchBody}, body: `{"plugins": [{"name": "obfuscate", "digits": 8, "key": "0123456789abcdef"}]}`, status: 409, code: "conflict"})
	c.on(url, call{op: list, target: "/biz-types", status: 200})
	c.on(url, call{op: list, target: "/biz-types?limit=1", status: 200})
	c.on(url, call{op: list, target: "/biz-types?match=*a*", status: 200})
	c.on(url, call{op: list, target: "/biz-types?match=a/b", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: list, target: "/biz-types?limit=1&after=daily", status: 200})
	c.on(url, call{op: list, target: "/biz-types?limit=0", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: list, target: "/biz-types?limit=1001", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: list, target: "/biz-types?nothing=1", status: 400, code: "invalid_request"})
	for _, verb := range []string{"disable", "enable"} {
		op := "POST /biz-types/{name}/" + verb
		for range 2 {
			c.on(url, call{op: op, target: "/biz-types/made/" + verb, status: 200})
		}
		c.on(url, call{op: op, target: "/biz-types/made/" + verb, headers: []string{badTag}, status: 412, code: "precondition_failed"})
		c.on(url, call{op: op, target: "/biz-types/nobody/" + verb, status: 404, code: "unknown_biz_type"})
		if verb == "disable" {
			for _, method := range []string{"GET", "POST"} {
				c.on(url, call{op: method + " /seq/{bizType}", part: op, target: "/seq/made", status: 409, code: "disabled"})
			}
		}
	}
	c.on(url, call{op: remove, target: "/biz-types/made", headers: []string{badTag}, status: 412, code: "precondition_failed"})
	c.on(url, call{op: remove, target: "/biz-types/made?dryRun=true", status: 204})
	c.on(url, call{op: remove, target: "/biz-types/made", status: 204})
	c.on(url, call{op: remove, target: "/biz-types/made", status: 404, code: "unknown_biz_type"})
	c.on(url, call{op: put, target: "/biz-types/made", headers: []string{jsonBody}, body: `{"start": 50}`, status: 201})
	c.on(url, call{op: remove, target: "/biz-types/made", status: 204})
}

// resources tests the resources of plugins.
func (c *checker) resources(n *node.Node) {
	c.Helper()
	const history, stats, resource = "GET /biz-types/{name}/history", "GET /biz-types/{name}/stats", "GET /biz-types/{name}/{resource}"
	// queued records are not shown yet
	await.True(c, "the history shows a record", func() bool {
		_, body := n.Status("/biz-types/order/history")
		return strings.Contains(body, `"first"`)
	})
	c.on(n.URL, call{op: history, target: "/biz-types/order/history", status: 200})
	c.on(n.URL, call{op: history, target: "/biz-types/order/history?limit=1&from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z", status: 200})
	c.on(n.URL, call{op: history, target: "/biz-types/order/history?id=100&caller=shop&requestId=r1&number=100", status: 200})
	c.on(n.URL, call{op: history, target: "/biz-types/order/history?caller=&format=csv", status: 200}) // the validator takes jsonl for JSON
	c.on(n.URL, call{op: history, target: "/biz-types/order/history?format=xml", status: 400, code: "invalid_request", wrong: true})
	c.on(n.URL, call{op: history, target: "/biz-types/order/history?number=0", status: 400, code: "invalid_request", wrong: true})
	c.on(n.URL, call{op: history, target: "/biz-types/order/history?limit=0", status: 400, code: "invalid_request", wrong: true})
	c.on(n.URL, call{op: history, target: "/biz-types/user/history", status: 404, code: "not_found"})
	const erase = "DELETE /biz-types/{name}/history"
	c.on(n.URL, call{op: erase, target: "/biz-types/order/history", status: 400, code: "invalid_request"})
	c.on(n.URL, call{op: erase, target: "/biz-types/user/history?caller=a", status: 404, code: "not_found"})
	c.on(n.URL, call{op: erase, target: "/biz-types/order/history?before=2000-01-01T00:00:00Z&caller=a", status: 200})
	c.on(n.URL, call{op: "GET /biz-types/{name}/counter", target: "/biz-types/order/counter", status: 200})
	for target, code := range map[string]string{"order/counter?key=a": "invalid_key", "order/counter?period=2026": "invalid_request", "user/counter": "invalid_request"} {
		c.on(n.URL, call{op: "GET /biz-types/{name}/counter", target: "/biz-types/" + target, status: 400, code: code})
	}
	c.on(n.URL, call{op: "GET /biz-types/{name}/counter", target: "/biz-types/nobody/counter", status: 404, code: "unknown_biz_type"})
	for _, query := range []string{"", "?limit=1", "?bizType=order", "?after=order"} {
		c.on(n.URL, call{op: "GET /counters", target: "/counters" + query, status: 200})
	}
	c.on(n.URL, call{op: "GET /counters", target: "/counters?limit=0", status: 400, code: "invalid_request", wrong: true})
	c.on(n.URL, call{op: stats, target: "/biz-types/order/stats", status: 200})
	c.on(n.URL, call{op: stats, target: "/biz-types/order/stats?x=1", status: 400, code: "invalid_request"})
	c.on(n.URL, call{op: stats, target: "/biz-types/user/stats", status: 404, code: "not_found"})
	// The general route serves both as well. No plugin of seqd has a third.
	c.on(n.URL, call{op: resource, target: "/biz-types/order/stats", status: 200})
	c.on(n.URL, call{op: resource, target: "/biz-types/order/stats?x=1", status: 400, code: "invalid_request"})
	c.on(n.URL, call{op: resource, target: "/biz-types/order/things", status: 404, code: "not_found"})
	c.on(n.URL, call{op: resource, target: "/biz-types/nobody/things", status: 404, code: "unknown_biz_type"})
}

func (c *checker) tokens(url string) {
	c.Helper()
	const list, create, get, patch, remove = "GET /tokens", "POST /tokens", "GET /tokens/{name}", "PATCH /tokens/{name}", "DELETE /tokens/{name}"
	c.on(url, call{op: list, target: "/tokens", status: 200})
	c.on(url, call{op: create, target: "/tokens", headers: []string{jsonBody}, body: `{"name": "shop", "scopes": ["issue:order*"]}`, status: 201})
	c.on(url, call{op: create, target: "/tokens", headers: []string{jsonBody}, body: `{"name": "till", "scopes": ["read", "admin"], "expires": "2100-01-01T00:00:00Z", "enabled": false}`, status: 201})
	c.on(url, call{op: create, target: "/tokens", headers: []string{jsonBody}, body: `{"name": "shop", "scopes": ["read"]}`, status: 409, code: "conflict"})
	c.on(url, call{op: create, target: "/tokens", headers: []string{jsonBody}, body: `{"name": "x", "scopes": ["nothing"]}`, status: 400, wrong: true})
	c.on(url, call{op: create, target: "/tokens", headers: []string{jsonBody}, body: `{"name":`, status: 400, wrong: true})
	c.on(url, call{op: create, target: "/tokens", headers: []string{"Content-Type: text/plain"}, body: `{}`, status: 415, code: "unsupported_media_type", wrong: true})
	c.on(url, call{op: list, target: "/tokens?limit=1", status: 200})
	c.on(url, call{op: list, target: "/tokens?limit=1&after=shop", status: 200})
	c.on(url, call{op: list, target: "/tokens?limit=0", status: 400, code: "invalid_request", wrong: true})
	a := c.on(url, call{op: get, target: "/tokens/shop", status: 200})
	c.on(url, call{op: get, target: "/tokens/nobody", status: 404, code: "not_found"})
	tag := "If-Match: " + a.header.Get("ETag")
	c.on(url, call{op: patch, target: "/tokens/shop", headers: []string{patchBody, tag}, body: `{"enabled": false, "scopes": ["read"], "expires": "2100-01-01T00:00:00Z"}`, status: 200})
	c.on(url, call{op: patch, target: "/tokens/shop", headers: []string{patchBody, tag}, body: `{"enabled": true}`, status: 412, code: "precondition_failed"})
	c.on(url, call{op: patch, target: "/tokens/shop", headers: []string{jsonBody}, body: `{"expires": null}`, status: 200})
	c.on(url, call{op: patch, target: "/tokens/shop", headers: []string{jsonBody}, body: `{"enabled": 7}`, status: 400, wrong: true})
	c.on(url, call{op: patch, target: "/tokens/shop", headers: []string{"Content-Type: text/plain"}, body: `{}`, status: 415, code: "unsupported_media_type", wrong: true})
	c.on(url, call{op: patch, target: "/tokens/nobody", headers: []string{jsonBody}, body: `{"enabled": true}`, status: 404, code: "not_found"})
	c.secrets(url)
	c.on(url, call{op: remove, target: "/tokens/shop", headers: []string{badTag}, status: 412, code: "precondition_failed"})
	c.on(url, call{op: remove, target: "/tokens/shop", status: 204})
	c.on(url, call{op: remove, target: "/tokens/shop", status: 404, code: "not_found"})
}

// secrets are those of the token shop.
func (c *checker) secrets(url string) {
	c.Helper()
	const list, create, revoke = "GET /tokens/{name}/secrets", "POST /tokens/{name}/secrets", "DELETE /tokens/{name}/secrets/{secret}"
	const shop = "/tokens/shop/secrets"
	c.on(url, call{op: create, target: shop, status: 201})
	a := c.on(url, call{op: create, target: shop, headers: []string{jsonBody}, body: `{"expires": "2100-01-01T00:00:00Z"}`, status: 201})
	var made struct{ ID string }
	must.Do(c, json.Unmarshal(a.body, &made))
	c.on(url, call{op: create, target: shop, headers: []string{jsonBody}, body: `{"expires": 7}`, status: 400, wrong: true})
	c.on(url, call{op: create, target: shop, headers: []string{"Content-Type: text/plain"}, body: `{}`, status: 415, code: "unsupported_media_type", wrong: true})
	c.on(url, call{op: create, target: shop, headers: []string{badTag}, status: 412, code: "precondition_failed"})
	c.on(url, call{op: create, target: "/tokens/nobody/secrets", status: 404, code: "not_found"})
	c.on(url, call{op: list, target: shop, status: 200})
	c.on(url, call{op: list, target: "/tokens/nobody/secrets", status: 404, code: "not_found"})
	c.on(url, call{op: revoke, target: shop + "/" + made.ID, headers: []string{badTag}, status: 412, code: "precondition_failed"})
	c.on(url, call{op: revoke, target: shop + "/" + made.ID, status: 204})
	c.on(url, call{op: revoke, target: shop + "/" + made.ID, status: 404, code: "not_found"})
	for _, op := range []string{"GET /tokens/{name}/made", "DELETE /tokens/{name}/made"} {
		c.on(url, call{op: op, target: "/tokens/boss/made", status: 200})
		c.on(url, call{op: op, target: "/tokens/boss/made?after=1", status: 400, code: "invalid_request", wrong: true})
	}
}

func (c *checker) service(url string) {
	c.Helper()
	c.on(url, call{op: "GET /nodes", target: "/nodes", status: 200})
	c.on(url, call{op: "GET /overview", target: "/overview", status: 200})
	c.on(url, call{op: "GET /overview", target: "/overview?at=1", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: "GET /settings", target: "/settings", status: 200})
	c.on(url, call{op: "GET /audit", target: "/audit", status: 200})
	c.on(url, call{op: "GET /audit", target: "/audit?limit=1", status: 200})
	c.on(url, call{op: "GET /audit", target: "/audit?caller=ops&action=DELETE%20/tokens/*&bizType=order&target=order&requestId=r1&from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z", status: 200})
	c.on(url, call{op: "GET /audit", target: "/audit?format=csv", status: 200})
	c.on(url, call{op: "GET /audit", target: "/audit?from=x", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: "GET /audit", target: "/audit?limit=0", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: "POST /reload", target: "/reload", status: 200})
	c.on(url, call{op: "POST /reload", target: "/reload?force=true", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: "GET /log-level", target: "/log-level", status: 200})
	c.on(url, call{op: "PUT /log-level", target: "/log-level", headers: []string{jsonBody}, body: `{"level": "info"}`, status: 200})
	c.on(url, call{op: "PUT /log-level", target: "/log-level", headers: []string{jsonBody}, body: `{"level": "loud"}`, status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: "GET /snapshot", target: "/snapshot", status: 200})
	c.on(url, call{op: "GET /snapshot", target: "/snapshot?limit=1", status: 400, code: "invalid_request", wrong: true})
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs", "/metrics", "/errors/{code}"} {
		for _, method := range []string{"GET", "HEAD"} {
			c.on(url, call{op: method + " " + path, target: example.Replace(path), status: 200})
		}
	}
	c.on(url, call{op: "GET /errors/{code}", target: "/errors/nothing", status: 404, code: "not_found", wrong: true})
}

// methods calls every path with the methods that it does not have. Allow must list those that it
// has.
func (c *checker) methods(url string) {
	c.Helper()
	allowed := make(map[string][]string)
	for op := range c.operations() {
		method, path, _ := strings.Cut(op, " ")
		allowed[path] = append(allowed[path], method)
	}
	for path, methods := range allowed {
		if strings.HasPrefix(path, "/biz-types/{name}/") && !slices.Contains(methods, http.MethodGet) {
			methods = append(methods, http.MethodGet) // of {resource}
		}
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if !slices.Contains(methods, method) {
				c.notAllowed(url, method, path, methods)
			}
		}
	}
}

func (c *checker) notAllowed(url, method, path string, allowed []string) {
	c.Helper()
	resp := must.Get(c.client.Do(c.request(url, call{op: method + " " + path, target: example.Replace(path)})))(c)
	defer resp.Body.Close()
	body := must.Get(io.ReadAll(resp.Body))(c)
	says := strings.Contains(string(body), `"code":"method_not_allowed"`) || method == http.MethodHead
	if resp.StatusCode != http.StatusMethodNotAllowed || !says {
		c.Errorf("%s %s: %d %s, want 405 method_not_allowed", method, path, resp.StatusCode, body)
	}
	got := strings.Split(resp.Header.Get("Allow"), ", ")
	slices.Sort(got)
	slices.Sort(allowed)
	if !slices.Equal(got, allowed) {
		c.Errorf("%s %s: Allow is %q, want %q", method, path, got, allowed)
	}
}

// example returns the path of a route with example parameters.
var example = strings.NewReplacer("{bizType}", "order", "{id}", "100", "{name}", "order", "{resource}", "things", "{code}", "number_void", "{reservation}", "4f1c0a9be2d3c4a5b6e7", "{pool}", "shop", "{lease}", "AQAHAAAB", "{job}", "0123456789abcdef0123456789abcdef")

// limits tests what every route rejects in the same way.
func (c *checker) limits(url string) {
	c.Helper()
	for _, op := range slices.Sorted(maps.Keys(c.operations())) {
		_, path, _ := strings.Cut(op, " ")
		target := example.Replace(path)
		code := func(code string) string {
			if strings.HasPrefix(op, "HEAD ") {
				return "" // there is no body with the code
			}
			return code
		}
		c.on(url, call{op: op, target: target, headers: []string{jsonBody}, body: strings.Repeat(" ", 100_000), status: 413, code: code("body_too_large"), wrong: true})
		c.on(url, call{op: op, target: target + "?" + strings.Repeat("x", 5000), status: 414, code: code("uri_too_long"), wrong: true})
		c.on(url, call{op: op, target: target, headers: []string{"X: " + strings.Repeat("x", 30_000)}, status: 431, code: code("headers_too_large"), wrong: true})
	}
}

// storeAway tests a node that cannot reach its store.
func (c *checker) storeAway() {
	c.Helper()
	away := node.Start(c, c.TempDir(), "SEQD_STORE_DRIVER=mongo", "SEQD_STORE_MONGO_URI=mongodb://127.0.0.1:1/?directConnection=true", "SEQD_STORE_MONGO_TIMEOUT=200ms",
		"SEQD_SEGMENT_ACQUIRETIMEOUT=200ms", "SEQD_GAPLESS_ACQUIRETIMEOUT=200ms", "SEQD_SEGMENT_ORDERING=per-node")
	away.Await("/readyz", http.StatusServiceUnavailable)
	for _, op := range slices.Sorted(maps.Keys(c.operations())) {
		method, path, _ := strings.Cut(op, " ")
		target := example.Replace(path)
		switch {
		case path == "/events":
			c.on(away.URL, call{op: op, target: "/events?bizType=order", status: 503})
		case path == "/healthz" || path == "/openapi.json" || path == "/docs" || path == "/metrics" || path == "/settings" || path == "/errors/{code}":
			c.on(away.URL, call{op: op, target: target, status: 200})
		case strings.HasPrefix(path, "/seq/") || path == "/readyz" || path == "/audit" || path == "/counters" || path == "/snapshot" || path == "/overview" || path == "/worker-pools" || path == "/subscriptions" || path == "/jobs/{job}" || path == "/jobs/{job}/result" || path == "/workers/{pool}/{lease}" || method == "GET" && strings.HasPrefix(path, "/biz-types/{name}/"):
			c.on(away.URL, call{op: op, target: target, status: 503})
		}
	}
}

// overloaded tests a node while all its places are taken by a client that does not read its
// answers.
func (c *checker) overloaded() {
	c.Helper()
	full := node.StartReady(c, c.TempDir(), "SEQD_SERVER_MAXINFLIGHT=1", "SEQD_SEGMENT_STEP=1000000")
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(full.URL, "http://")))(c)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for err := error(nil); err == nil; { // until the connection is closed below
			_, err = io.WriteString(conn, "GET /seq/order?count=10000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
	}()
	defer func() { _ = conn.Close(); <-sent }()
	// The place is free between two answers, until the connection takes no more.
	await.True(c, "the only place is taken for good", func() bool {
		for range 100 {
			if status, _ := full.Status("/seq/order"); status != http.StatusServiceUnavailable {
				return false
			}
		}
		return true
	})
	for _, op := range slices.Sorted(maps.Keys(c.operations())) {
		method, path, _ := strings.Cut(op, " ")
		if path == "/healthz" || path == "/readyz" || path == "/metrics" {
			c.on(full.URL, call{op: op, target: path, status: 200})
			continue
		}
		if op == "POST /workers/{pool}" || op == "GET /events" || op == "GET /jobs/{job}/result" || op == "GET /snapshot" || path == "/reload" || path == "/log-level" { // have places of their own
			continue
		}
		code := "overloaded"
		if method == http.MethodHead {
			code = ""
		}
		asked := call{op: op, target: example.Replace(path), status: 503, code: code, wrong: true}
		// whose bodies are looked at first
		if method == http.MethodPut || method == http.MethodPatch || op == "POST /tokens" || op == "POST /jobs" || op == "POST /subscriptions/{name}/replay" || path == "/biz-types/{name}/voids" {
			asked.headers, asked.body = []string{jsonBody}, "{}"
		}
		c.on(full.URL, asked)
	}
}

// tokensAskedFor tests a node that requires tokens.
func (c *checker) tokensAskedFor() {
	c.Helper()
	const part = "required tokens"
	const token = "seqd_test" // may take numbers of a biz type that does not exist
	hash := sha256.Sum256([]byte(token))
	guarded := node.StartReady(c, c.TempDir(), "SEQD_AUTH_MODE=token", fmt.Sprintf(`SEQD_AUTH_TOKENS=[{"name":"shop","sha256":"%x","scopes":["issue:nothing"]}]`, hash))
	for _, op := range slices.Sorted(maps.Keys(c.operations())) {
		method, path, _ := strings.Cut(op, " ")
		if path == "/healthz" || path == "/readyz" || path == "/errors/{code}" {
			continue
		}
		code := func(code string) string {
			if method == http.MethodHead {
				return ""
			}
			return code
		}
		c.on(guarded.URL, call{op: op, part: part, target: example.Replace(path), status: 401, code: code("unauthorized"), wrong: true})
		if strings.HasPrefix(path, "/jobs") { // the job decides, and there is none
			continue
		}
		bearer := "Authorization: Bearer " + token
		c.on(guarded.URL, call{op: op, part: part, target: example.Replace(path), headers: []string{bearer}, status: 403, code: code("forbidden"), wrong: true})
	}
}

var _ testing.TB = (*checker)(nil)
