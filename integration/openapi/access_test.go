package openapi_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/seqd/seqd/internal/testing/node"
)

// pages tests what web pages of other origins get from a node without tokens.
func (c *checker) pages(url string) {
	c.Helper()
	for _, op := range slices.Sorted(maps.Keys(c.operations())) {
		method, path, _ := strings.Cut(op, " ")
		code := "forbidden"
		if method == http.MethodHead {
			code = ""
		}
		for _, header := range []string{"Origin: http://elsewhere.example", "Sec-Fetch-Site: cross-site"} {
			c.on(url, call{op: op, part: "pages", target: example.Replace(path), headers: []string{header}, status: 403, code: code, wrong: true})
		}
	}
}

// disabled tests what is shown of a disabled biz type.
func (c *checker) disabled(url string) {
	c.Helper()
	c.on(url, call{op: "POST /biz-types/{name}/disable", target: "/biz-types/order/disable", status: 200})
	for _, resource := range []string{"history", "stats"} {
		c.on(url, call{op: "GET /biz-types/{name}/" + resource, part: "disabled", target: "/biz-types/order/" + resource, status: 200})
	}
	c.on(url, call{op: "GET /seq/{bizType}/parse/{id}", part: "disabled", target: "/seq/order/parse/100", status: 200})
	c.on(url, call{op: "POST /biz-types/{name}/enable", target: "/biz-types/order/enable", status: 200})
}

// readiness tests what /readyz shows to each caller if tokens are required.
func (c *checker) readiness() {
	c.Helper()
	tokens := fmt.Sprintf(`SEQD_AUTH_TOKENS=[{"name":"ops","sha256":"%x","scopes":["read"]}]`, sha256.Sum256([]byte("seqd_test")))
	guarded := node.StartReady(c, c.TempDir(), tokens, bizTypes)
	for _, method := range []string{"GET", "HEAD"} {
		for who, headers := range map[string][]string{"a stranger": nil, "a reader": {"Authorization: Bearer seqd_test"}} {
			a := c.on(guarded.URL, call{op: method + " /readyz", part: who, target: "/readyz", headers: headers, status: 200})
			if told := strings.Contains(string(a.body), "machineId"); told != (who == "a reader" && method == http.MethodGet) {
				c.Errorf("%s %s gets %s", method, who, a.body)
			}
		}
	}
}

// settling tests who may look at a reservation, and who may end it.
func (c *checker) settling() {
	c.Helper()
	var tokens []string
	for name, scope := range map[string]string{"shop": "issue:tenant", "till": "issue:tenant", "t1": "issue:tenant/t1", "t2": "issue:tenant/t2", "auditor": "read", "ops": "admin"} {
		tokens = append(tokens, fmt.Sprintf(`{"name":"%s","sha256":"%x","scopes":["%s"]}`, name, sha256.Sum256([]byte("seqd_"+name)), scope))
	}
	url := node.StartReady(c, c.TempDir(), "SEQD_AUTH_TOKENS=["+strings.Join(tokens, ",")+"]", bizTypes).URL
	as := func(name string) []string { return []string{"Authorization: Bearer seqd_" + name} }
	path := c.reserved(url, "/seq/tenant/reservations?key=t1", as("shop")...)
	for name, status := range map[string]int{"shop": 200, "till": 403, "t1": 403, "t2": 403, "auditor": 200, "ops": 200} {
		c.on(url, call{op: find, part: name, target: path, headers: as(name), status: status})
	}
	for _, name := range []string{"till", "t1", "t2", "auditor"} {
		c.on(url, call{op: confirm, part: name, target: path + "/confirm", headers: as(name), status: 403, code: "forbidden"})
		c.on(url, call{op: release, part: name, target: path, headers: as(name), status: 403, code: "forbidden"})
	}
	c.on(url, call{op: confirm, part: "ops", target: path + "/confirm", headers: as("ops"), status: 200})
	c.on(url, call{op: confirm, part: "shop", target: path + "/confirm", headers: as("shop"), status: 200})
	c.on(url, call{op: find, part: "shop", target: path, headers: as("shop"), status: 200})
	c.on(url, call{op: reserve, part: "t1", target: "/seq/tenant/reservations?key=t1", headers: as("t1"), status: 201})
	for _, target := range []string{"/seq/tenant/reservations?key=t2", "/seq/tenant/reservations"} {
		c.on(url, call{op: reserve, part: "t1", target: target, headers: as("t1"), status: 403, code: "forbidden"})
	}
	forged := strings.TrimSuffix(path, "t1") + "t2"
	c.on(url, call{op: find, part: "t2", target: forged, headers: as("t2"), status: 404, code: "unknown_reservation"})
	c.on(url, call{op: confirm, part: "t2", target: forged + "/confirm", headers: as("t2"), status: 404, code: "unknown_reservation"})
}
