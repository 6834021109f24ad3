package openapi_test

import (
	"encoding/json"
	"strings"

	"github.com/seqd/seqd/internal/testing/must"
)

// workers tests pools of worker IDs and their leases.
func (c *checker) workers(url string) {
	c.Helper()
	const list, get, put = "GET /worker-pools", "GET /worker-pools/{pool}", "PUT /worker-pools/{pool}"
	const patch, remove = "PATCH /worker-pools/{pool}", "DELETE /worker-pools/{pool}"
	const shop = "/worker-pools/shop"
	c.on(url, call{op: list, target: "/worker-pools", status: 200})
	c.on(url, call{op: list, target: "/worker-pools?limit=0", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: get, target: shop, status: 404, code: "unknown_pool"})
	c.on(url, call{op: patch, target: shop, headers: []string{jsonBody}, body: `{}`, status: 404, code: "unknown_pool"})
	c.on(url, call{op: put, target: shop, headers: []string{jsonBody}, body: `{"bitsMachine": 0}`, status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: put, target: shop, headers: []string{"Content-Type: text/plain"}, body: `{}`, status: 415, code: "unsupported_media_type", wrong: true})
	c.on(url, call{op: put, target: shop, headers: []string{jsonBody}, body: `{"bitsMachine": 1, "bitsSequence": 12, "epoch": "2026-01-01T00:00:00Z", "ttl": "1m"}`, status: 201})
	c.on(url, call{op: put, target: shop, headers: []string{jsonBody}, body: `{"bitsMachine": 1, "bitsSequence": 12, "epoch": "2026-01-01T00:00:00Z", "ttl": "1m"}`, status: 200})
	c.on(url, call{op: patch, target: shop, headers: []string{patchBody, badTag}, body: `{"ttl": "1m"}`, status: 412, code: "precondition_failed"})
	c.on(url, call{op: patch, target: shop, headers: []string{patchBody}, body: `{"ttl": "10m"}`, status: 200})
	c.on(url, call{op: put, target: "/worker-pools/mail", headers: []string{jsonBody}, body: `{}`, status: 201})
	c.on(url, call{op: list, target: "/worker-pools?limit=1", status: 200})
	c.leases(url)
	c.on(url, call{op: get, target: shop, status: 200})
	c.on(url, call{op: patch, target: shop, headers: []string{jsonBody}, body: `{"bitsMachine": 2}`, status: 409, code: "conflict"})
	c.on(url, call{op: remove, target: shop, status: 409, code: "conflict"})
	c.on(url, call{op: remove, target: shop, headers: []string{badTag}, status: 412, code: "precondition_failed"})
	c.on(url, call{op: remove, target: shop + "?force=true", status: 204})
	c.on(url, call{op: remove, target: shop, status: 404, code: "unknown_pool"})
}

// leases are those of the pool shop, which has two worker IDs. One stays held.
func (c *checker) leases(url string) {
	c.Helper()
	const lease, renew, release = "POST /workers/{pool}", "POST /workers/{pool}/{lease}", "DELETE /workers/{pool}/{lease}"
	take := call{op: lease, target: "/workers/shop?wait=1s", headers: []string{jsonBody}, body: `{"instance": "shop.8080.10.0.0.7"}`, status: 201}
	var held [2]string
	for i := range held {
		var l struct{ Lease string }
		must.Do(c, json.Unmarshal(c.on(url, take).body, &l))
		held[i] = "/workers/shop/" + l.Lease
	}
	take.status, take.code = 503, "no_machine_id"
	c.on(url, take)
	c.on(url, call{op: lease, target: "/workers/shop", headers: []string{jsonBody}, body: `{}`, status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: lease, target: "/workers/shop?wait=2m", headers: []string{jsonBody}, body: `{"instance": "x"}`, status: 400, code: "invalid_request"})
	c.on(url, call{op: lease, target: "/workers/none", headers: []string{jsonBody}, body: `{"instance": "x"}`, status: 404, code: "unknown_pool"})
	c.on(url, call{op: lease, target: "/workers/shop", headers: []string{"Content-Type: text/plain"}, body: `{}`, status: 415, code: "unsupported_media_type", wrong: true})
	c.on(url, call{op: renew, target: held[0], status: 200})
	c.on(url, call{op: renew, target: "/workers/none/x", status: 404, code: "unknown_pool"})
	c.on(url, call{op: renew, target: held[0] + "?x=1", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: renew, target: strings.Replace(held[0], "shop", "mail", 1), status: 409, code: "lease_lost"})
	c.on(url, call{op: release, target: held[0], headers: []string{"Content-Type: text/plain"}, body: `{}`, status: 415, code: "unsupported_media_type", wrong: true})
	c.on(url, call{op: release, target: held[0], headers: []string{jsonBody}, body: `{"last": 7}`, status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: release, target: held[0], headers: []string{jsonBody}, body: `{"last": "2026-01-01T00:00:00.000Z"}`, status: 204})
	c.on(url, call{op: release, target: held[0], status: 409, code: "lease_lost"})
	c.on(url, call{op: release, target: "/workers/none/x", status: 404, code: "unknown_pool"})
}
