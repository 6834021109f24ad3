package openapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/seqd/seqd/internal/testing/must"
)

// ledgers tests keys, reservations, accounts and voids.
func (c *checker) ledgers(url string) {
	c.Helper()
	c.keys(url)
	c.reservations(url)
	c.accounts(url)
	c.voids(url)
}

func (c *checker) keys(url string) {
	c.Helper()
	const list = "GET /biz-types/{name}/keys"
	for _, method := range []string{"GET", "POST"} {
		op := method + " /seq/{bizType}"
		for _, target := range []string{"/seq/tenant?key=tenant-42", "/seq/tenant?count=2&key=a"} {
			c.on(url, call{op: op, target: target, status: 200})
		}
		for _, target := range []string{"/seq/tenant", "/seq/tenant?key=-a", "/seq/tenant?key=", "/seq/tenant?key=a&key=a", "/seq/order?key=a"} {
			c.on(url, call{op: op, target: target, status: 400, code: "invalid_key", wrong: true})
		}
	}
	c.on(url, call{op: list, target: "/biz-types/tenant/keys", status: 200})
	c.on(url, call{op: list, target: "/biz-types/tenant/keys?limit=1&after=a", status: 200})
	c.on(url, call{op: list, target: "/biz-types/tenant/keys?limit=0", status: 400, code: "invalid_request", wrong: true})
	c.on(url, call{op: list, target: "/biz-types/order/keys", status: 400, code: "invalid_request"})
	c.on(url, call{op: list, target: "/biz-types/nobody/keys", status: 404, code: "unknown_biz_type"})
}

const (
	reserve = "POST /seq/{bizType}/reservations"
	find    = "GET /seq/{bizType}/reservations/{reservation}"
	release = "DELETE /seq/{bizType}/reservations/{reservation}"
	confirm = "POST /seq/{bizType}/reservations/{reservation}/confirm"
)

// reserved reserves and returns the path of the reservation.
func (c *checker) reserved(url, target string, headers ...string) string {
	c.Helper()
	a := c.on(url, call{op: reserve, target: target, headers: headers, status: 201})
	var answer struct{ BizType, Reservation string }
	must.Do(c, json.Unmarshal(a.body, &answer))
	path := fmt.Sprintf("/seq/%s/reservations/%s", answer.BizType, answer.Reservation)
	must.Equal(c, a.header.Get("Location"), "reservations/"+answer.Reservation, "Location")
	return path
}

func (c *checker) reservations(url string) {
	c.Helper()
	path := c.reserved(url, "/seq/invoice/reservations?count=3&ttl=1m0s")
	c.on(url, call{op: find, target: path, status: 200})
	c.on(url, call{op: confirm, target: path + "/confirm", status: 200})
	c.on(url, call{op: confirm, target: path + "/confirm", status: 200})
	c.on(url, call{op: find, target: path, status: 200})
	c.on(url, call{op: release, target: path, status: 409, code: "reservation_confirmed"})

	path = c.reserved(url, "/seq/tenant/reservations?key=tenant-42")
	c.on(url, call{op: release, target: path, status: 204})
	c.on(url, call{op: release, target: path, status: 204})
	c.on(url, call{op: confirm, target: path + "/confirm", status: 409, code: "reservation_released"})
	c.on(url, call{op: find, target: path, status: 200})

	once := "Idempotency-Key: r1"
	first := c.reserved(url, "/seq/invoice/reservations?count=2", once)
	must.Equal(c, c.reserved(url, "/seq/invoice/reservations?count=2", once), first, "what the same Idempotency-Key gives")
	for _, target := range []string{"/seq/invoice/reservations?count=3", "/seq/invoice/reservations?count=2&ttl=1m"} {
		c.on(url, call{op: reserve, target: target, headers: []string{once}, status: 422, code: "idempotency_key_reused"})
	}
	c.on(url, call{op: "POST /seq/{bizType}", target: "/seq/invoice?count=2", headers: []string{once}, status: 422, code: "idempotency_key_reused"})

	c.reserved(url, "/seq/tenant/reservations?key=b&count=5")
	c.on(url, call{op: reserve, target: "/seq/tenant/reservations?key=b", status: 409, code: "too_many_reserved"})
	for target, code := range map[string]string{
		"/seq/tenant/reservations?key=b&count=6": "invalid_count", "/seq/invoice/reservations?count=0": "invalid_count",
		"/seq/invoice/reservations?ttl=0s": "invalid_ttl", "/seq/invoice/reservations?ttl=8760h": "invalid_ttl", "/seq/invoice/reservations?ttl=60": "invalid_ttl",
		"/seq/invoice/reservations?key=a": "invalid_key", "/seq/tenant/reservations": "invalid_key",
		"/seq/order/reservations": "invalid_request", "/seq/invoice/reservations?x=1": "invalid_request",
	} {
		c.on(url, call{op: reserve, target: target, status: 400, code: code, wrong: true})
	}
	c.on(url, call{op: reserve, target: "/seq/nobody/reservations", status: 404, code: "unknown_biz_type"})
	for op, suffix := range map[string]string{find: "", release: "", confirm: "/confirm"} {
		c.on(url, call{op: op, target: "/seq/invoice/reservations/4f1c0a9be2d3c4a5b6e7.2026" + suffix, status: 404, code: "unknown_reservation"})
		c.on(url, call{op: op, target: "/seq/invoice/reservations/nothing" + suffix, status: 404, code: "unknown_reservation"})
		c.on(url, call{op: op, target: "/seq/order/reservations/4f1c0a9be2d3c4a5b6e7" + suffix, status: 400, code: "invalid_request"})
		c.on(url, call{op: op, target: "/seq/nobody/reservations/4f1c0a9be2d3c4a5b6e7" + suffix, status: 404, code: "unknown_biz_type"})
		c.on(url, call{op: op, target: "/seq/invoice/reservations/4f1c0a9be2d3c4a5b6e7" + suffix + "?key=a", status: 400, code: "invalid_request"})
	}
}

func (c *checker) accounts(url string) {
	c.Helper()
	const gaps = "GET /biz-types/{name}/gaps"
	for _, target := range []string{"/biz-types/invoice/gaps", "/biz-types/invoice/gaps?limit=1", "/biz-types/invoice/gaps?after=2&period=2026", "/biz-types/tenant/gaps?key=b"} {
		c.on(url, call{op: gaps, target: target, status: 200})
		a := c.on(url, call{op: gaps, target: target, headers: []string{"Accept: text/csv"}, status: 200})
		if !bytes.HasPrefix(a.body, []byte("\ufefffrom,to,fromId,toId,state,")) || a.header.Get("Content-Disposition") == "" {
			c.Errorf("%s as CSV: %s", target, cut(string(a.body)))
		}
	}
	for target, code := range map[string]string{
		"/biz-types/invoice/gaps?limit=0": "invalid_request", "/biz-types/invoice/gaps?after=x": "invalid_request", "/biz-types/invoice/gaps?period=26": "invalid_request",
		"/biz-types/tenant/gaps": "invalid_key", "/biz-types/invoice/gaps?key=a": "invalid_key", "/biz-types/order/gaps": "invalid_request",
	} {
		c.on(url, call{op: gaps, target: target, status: 400, code: code, wrong: true})
	}
	c.on(url, call{op: gaps, target: "/biz-types/nobody/gaps", status: 404, code: "unknown_biz_type"})
}

func (c *checker) voids(url string) {
	c.Helper()
	const void = "POST /biz-types/{name}/voids"
	var issued struct{ ID string }
	a := c.on(url, call{op: "POST /seq/{bizType}", target: "/seq/invoice", status: 200})
	must.Do(c, json.Unmarshal(a.body, &issued))
	body := `{"id": "` + issued.ID + `", "reason": "=1+1"}`
	for range 2 {
		c.on(url, call{op: void, target: "/biz-types/invoice/voids", headers: []string{jsonBody}, body: body, status: 204})
	}
	c.on(url, call{op: void, target: "/biz-types/tenant/voids?key=a", headers: []string{jsonBody}, body: `{"id": "1", "reason": "x"}`, status: 204})
	a = c.on(url, call{op: "GET /biz-types/{name}/gaps", target: "/biz-types/invoice/gaps", headers: []string{"Accept: text/csv"}, status: 200})
	if !bytes.Contains(a.body, []byte(",'=1+1,")) {
		c.Errorf("the account is %s", a.body)
	}
	for body, code := range map[string]string{
		`{"id": "INV-2026-900000", "reason": "x"}`: "invalid_id", `{"id": "x", "reason": "x"}`: "invalid_id", `{"id": "INV-2026-000001"}`: "invalid_request", `{"id":`: "invalid_request",
	} {
		c.on(url, call{op: void, target: "/biz-types/invoice/voids", headers: []string{jsonBody}, body: body, status: 400, code: code, wrong: true})
	}
	c.on(url, call{op: void, target: "/biz-types/invoice/voids", headers: []string{"Content-Type: text/plain"}, body: body, status: 415, code: "unsupported_media_type", wrong: true})
	c.on(url, call{op: void, target: "/biz-types/nobody/voids", headers: []string{jsonBody}, body: body, status: 404, code: "unknown_biz_type"})
}
