package openapi_test

// subscriptions tests subscriptions, of which nothing is sent.
func (c *checker) subscriptions(url string) {
	c.Helper()
	const list, get, put, remove = "GET /subscriptions", "GET /subscriptions/{name}", "PUT /subscriptions/{name}", "DELETE /subscriptions/{name}"
	const deliveries, replay = "GET /subscriptions/{name}/deliveries", "POST /subscriptions/{name}/replay"
	const shop, body = "/subscriptions/shop", `{"url": "http://127.0.0.1:9/hooks", "bizTypes": ["nothing"], "types": ["number.void"], "from": "now"}`
	c.on(url, call{op: list, target: "/subscriptions", status: 200})
	c.on(url, call{op: list, target: "/subscriptions?limit=0", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: get, target: shop, status: 404, code: "unknown_subscription"})
	c.on(url, call{op: deliveries, target: shop + "/deliveries", status: 404, code: "unknown_subscription"})
	c.on(url, call{op: replay, target: shop + "/replay", headers: []string{jsonBody}, body: `{"dead": true}`, status: 404, code: "unknown_subscription"})
	c.on(url, call{op: put, target: shop, headers: []string{jsonBody}, body: `{"url": 7}`, status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: put, target: shop, headers: []string{"Content-Type: text/plain"}, body: body, status: 415, code: "unsupported_media_type", wrong: true})
	c.on(url, call{op: put, target: shop, headers: []string{jsonBody}, body: body, status: 201})
	c.on(url, call{op: put, target: shop, headers: []string{jsonBody}, body: body, status: 200})
	c.on(url, call{op: put, target: shop, headers: []string{jsonBody, badTag}, body: body, status: 412, code: "precondition_failed"})
	c.on(url, call{op: list, target: "/subscriptions?limit=1", status: 200})
	c.on(url, call{op: get, target: shop, status: 200})
	c.on(url, call{op: get, target: shop + "?x=1", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: deliveries, target: shop + "/deliveries?state=dead", status: 200})
	c.on(url, call{op: deliveries, target: shop + "/deliveries?state=x", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: replay, target: shop + "/replay", headers: []string{jsonBody}, body: `{"dead": true}`, status: 202})
	c.on(url, call{op: replay, target: shop + "/replay", headers: []string{jsonBody}, body: `{}`, status: 400, code: "invalid_request"})
	c.on(url, call{op: replay, target: shop + "/replay", headers: []string{"Content-Type: text/plain"}, body: `{}`, status: 415, code: "unsupported_media_type", wrong: true})
	c.on(url, call{op: remove, target: shop, headers: []string{badTag}, status: 412, code: "precondition_failed"})
	c.on(url, call{op: remove, target: shop, status: 204})
	c.on(url, call{op: remove, target: shop, status: 404, code: "unknown_subscription"})
}
