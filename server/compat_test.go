package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/testlog"
	"github.com/seqd/seqd/server"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/tracing/tracingtest"
)

// dropIns are requests to the routes for clients of other services.
var dropIns = []struct{ method, target, route string }{
	{"GET", "/api/segment/get/order", "/api/segment/get/{key}"},
	{"GET", "/api/snowflake/get/order", "/api/snowflake/get/{key}"},
	{"GET", "/decodeSnowflakeId?snowflakeId=1", "/decodeSnowflakeId"},
	{"GET", "/tinyid/id/nextId?bizType=order&token=%s", "/tinyid/id/nextId"},
	{"POST", "/tinyid/id/nextIdSimple?bizType=order&token=%s", "/tinyid/id/nextIdSimple"},
	{"GET", "/tinyid/id/nextSegmentId?token=%s&bizType=order", "/tinyid/id/nextSegmentId"},
	{"POST", "/tinyid/id/nextSegmentIdSimple?token=%s&bizType=order", "/tinyid/id/nextSegmentIdSimple"},
	{"POST", "/segments/distributor/shop/cart?offset=0&step=10", "/segments/distributor/{namespace}/{name}"},
	{"PATCH", "/segments/shop/cart?step=10", "/segments/{namespace}/{name}"},
}

// visit sends a request without a body.
func (s *service) visit(method, target string) (status int, header http.Header) {
	s.t.Helper()
	r := must.Get(http.NewRequest(method, s.url+target, nil))(s.t)
	resp := must.Get(http.DefaultClient.Do(r))(s.t)
	_ = resp.Body.Close()
	return resp.StatusCode, resp.Header
}

// By default the routes for clients of other services are unknown paths.
func TestDropInsAreOff(t *testing.T) {
	s := start(t, load(t, "store: {driver: memory}\nbizTypes: [{name: order}]\n"))
	s.await("/readyz", http.StatusOK)
	for _, r := range dropIns {
		if status, header := s.visit(r.method, r.target); status != http.StatusNotFound || header.Get("Seqd-Error") != "" {
			t.Errorf("%s %s: %d %v", r.method, r.target, status, header)
		}
	}
}

// TestDropIns turns everything on: requests are counted, traced and logged as all others are, and
// Tinyid's token is in none of that.
func TestDropIns(t *testing.T) {
	const secret = "0f673adf80504e2eaa552f5d791b644c"
	var collector tracingtest.Collector
	c := httptest.NewServer(&collector)
	t.Cleanup(c.Close)
	var log testlog.Text
	s := start(t, load(t, `
server: {accessLog: on}
store: {driver: memory}
tracing: {endpoint: '`+c.URL+`', sampleRatio: 1}
auth: {publicMetrics: true, tokens: [{name: shop, sha256: "`+access.DigestOf(secret).Hex()+`", scopes: ["issue:*"]}]}
compat: {leaf: true, leafSnowflake: user, tinyid: true, cosid: create, token: shop}
bizTypes: [{name: order}, {name: user, strategy: snowflake}]
`), server.WithLogger(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))))
	s.await("/readyz", http.StatusOK)
	for _, r := range dropIns {
		target := strings.Replace(r.target, "%s", secret, 1)
		if status, header := s.visit(r.method, target); status != http.StatusOK || header.Get("Seqd-Error") != "" || header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: %d %v", r.method, r.target, status, header)
		}
	}
	_, header := s.visit("GET", "/tinyid/id/nextId?bizType=order&token=wrong"+secret)
	must.Equal(t, header.Get("Seqd-Error"), string(seqd.CodeUnauthorized), "a wrong token")
	_, exposition := s.get("/metrics")
	_, description := s.get("/openapi.json")
	must.Do(t, s.stop())
	spans := fmt.Sprint(collector.Spans())
	for _, r := range dropIns {
		if want := `route="` + r.route + `"`; !strings.Contains(exposition, want) {
			t.Errorf("the metrics have no %s", want)
		}
		if want := r.method + " " + r.route; !strings.Contains(spans, want) {
			t.Errorf("the spans have no %s", want)
		}
		if path, _, _ := strings.Cut(r.target, "?"); !strings.Contains(log.String(), `"path":"`+path+`"`) {
			t.Errorf("the log has no %s", path)
		}
		if strings.Contains(description, r.route) {
			t.Errorf("the description has %s", r.route)
		}
	}
	if !strings.Contains(spans, "seqd.caller:shop") || !strings.Contains(spans, "error.type:unauthorized") {
		t.Errorf("the spans do not say who called, or why a request was refused: %s", spans)
	}
	for name, text := range map[string]string{"metrics": exposition, "spans": spans, "log": log.String()} {
		if strings.Contains(text, secret) {
			t.Errorf("the token is in the %s", name)
		}
	}
}

// A name of the token in compat.token is no secret, and one that nobody has is said in the log.
func TestDropInsWithoutTheirToken(t *testing.T) {
	var log testlog.Text
	s := start(t, load(t, "auth: {mode: token}\nstore: {driver: memory}\ncompat: {leaf: true, token: nobody}\nbizTypes: [{name: order}]\n"),
		server.WithLogger(slog.New(slog.NewJSONHandler(&log, nil))))
	s.await("/readyz", http.StatusOK)
	if status, header := s.visit("GET", "/api/segment/get/order"); status != http.StatusInternalServerError || header.Get("Seqd-Error") != string(seqd.CodeUnauthorized) {
		t.Errorf("%d %v", status, header)
	}
	must.Do(t, s.stop())
	if !strings.Contains(log.String(), "compat.token names no token that can be used") {
		t.Errorf("the log does not say why: %s", log.String())
	}
}
