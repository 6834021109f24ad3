package openapi_test

// events tests the events of a biz type that has some.
func (c *checker) events(url string) {
	c.Helper()
	const list = "GET /events"
	c.on(url, call{op: list, target: "/events?bizType=tenant&after=0&limit=2&wait=1m", status: 200})
	c.on(url, call{op: list, target: "/events?bizType=tenant", status: 200})
	c.on(url, call{op: list, target: "/events?bizType=tenant&after=1000000", status: 400, code: "invalid_request"})
	c.on(url, call{op: list, target: "/events?bizType=nothing", status: 404, code: "unknown_biz_type"})
	c.on(url, call{op: list, target: "/events?bizType=order", status: 409, code: "conflict"})
	for _, query := range []string{"", "?bizType=tenant&after=x", "?bizType=tenant&wait=x", "?bizType=tenant&limit=0"} {
		code := "invalid_request"
		if query == "" {
			code = "invalid_biz_type"
		}
		c.on(url, call{op: list, target: "/events" + query, status: 400, code: code, wrong: true})
	}
}
