package httpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/server/tracing"
	"github.com/seqd/seqd/server/tracing/tracingtest"
)

// named is a guard that lets everybody in, as shop.
type named struct{}

func (named) Allow([]string, string, string) (access.Identity, error) {
	return access.Identity{Name: "shop"}, nil
}

func (named) AllowDigest(*access.Digest, string, string) (access.Identity, error) {
	return access.Identity{Name: "shop"}, nil
}

// newTraced returns an API that traces all requests, and a function that ends the tracing and
// returns the spans.
func newTraced(t *testing.T, ratio float64, change ...func(*options)) (*httpapi.API, func() []tracingtest.Span) {
	t.Helper()
	var collector tracingtest.Collector
	tracer := must.Get(tracing.New(tracing.Options{Endpoint: "http://collector", Transport: &collector, Ratio: ratio, Log: slog.New(slog.DiscardHandler)}))(t)
	end := func() []tracingtest.Span {
		ctx, cancel := context.WithTimeout(context.Background(), await.Patience)
		defer cancel()
		tracer.Close(ctx)
		return collector.Spans()
	}
	t.Cleanup(func() { end() })
	api := newStarting(t, append(change, func(o *options) { o.Tracer = tracer })...)
	broken := newCounter(1)
	broken.generate = func() error {
		return &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "secret", Err: errors.New("secret")}
	}
	sick := newCounter(1)
	sick.generate = func() error { panic("secret") }
	ready(api, newIssuer(t, define("order", newCounter(100)), define("broken", broken), define("sick", sick)), remembering())
	return api, end
}

func TestSpansOfRequests(t *testing.T) {
	secret := "seqd_" + "0123456789012345678901234567890123456789012"
	for _, tt := range []struct {
		method, target, name string
		failed               bool
		want                 map[string]string
	}{
		{"POST", "/seq/order?count=3", "POST /seq/{bizType}", false, map[string]string{
			"http.route": "/seq/{bizType}", "http.response.status_code": "200", "seqd.biz_type": "order", "seqd.count": "3", "seqd.caller": "shop"}},
		{"GET", "/seq/order/parse/100", "GET /seq/{bizType}/parse/{id}", false, map[string]string{
			"http.route": "/seq/{bizType}/parse/{id}", "http.response.status_code": "200", "seqd.biz_type": "order", "seqd.caller": "shop"}},
		{"POST", "/seq/broken", "POST /seq/{bizType}", true, map[string]string{
			"http.route": "/seq/{bizType}", "http.response.status_code": "503", "seqd.biz_type": "broken", "seqd.count": "1", "seqd.caller": "shop", "error.type": "store_unavailable"}},
		{"POST", "/seq/sick", "POST /seq/{bizType}", true, map[string]string{
			"http.route": "/seq/{bizType}", "http.response.status_code": "500", "seqd.biz_type": "sick", "seqd.count": "1", "seqd.caller": "shop", "error.type": "internal"}},
		{"POST", "/seq/order?count=0", "POST /seq/{bizType}", false, map[string]string{
			"http.route": "/seq/{bizType}", "http.response.status_code": "400", "seqd.biz_type": "order", "seqd.caller": "shop", "error.type": "invalid_count"}},
		{"GET", "/seq/" + secret + "?count=1", "GET /seq/{bizType}", false, map[string]string{
			"http.route": "/seq/{bizType}", "http.response.status_code": "404", "seqd.biz_type": "(not shown)", "seqd.count": "1", "seqd.caller": "shop", "error.type": "unknown_biz_type"}},
		{"GET", "/extra/order", "GET /extra/{name}", false, map[string]string{
			"http.route": "/extra/{name}", "http.response.status_code": "200", "seqd.biz_type": "order", "seqd.caller": "shop"}},
		{"SECRET", "/" + secret, "_OTHER", false, map[string]string{
			"http.response.status_code": "404", "seqd.caller": "shop", "error.type": "not_found"}},
	} {
		t.Run(tt.method+" "+tt.target, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, spans := newTraced(t, 1, func(o *options) { o.Guard, o.Extra = named{}, extraRoutes() })
				headers := []string{"X-Request-Id: mine", "Authorization: Bearer " + secret}
				if tt.method == "POST" {
					headers = append(headers, "Idempotency-Key: secret")
				}
				do(t, api, tt.method, tt.target, headers...)
				got := spans()
				if len(got) != 1 {
					t.Fatalf("%d spans, want 1", len(got))
				}
				tt.want["seqd.request_id"] = "mine"
				tt.want["http.request.method"], _, _ = strings.Cut(tt.name, " ")
				if got[0].Name != tt.name || got[0].Failed != tt.failed || !maps.Equal(got[0].Attributes, tt.want) {
					t.Errorf("got %q, failed %v, %v\nwant %q, failed %v, %v", got[0].Name, got[0].Failed, got[0].Attributes, tt.name, tt.failed, tt.want)
				}
			})
		})
	}
}

func TestProbesAreNotTraced(t *testing.T) {
	api, spans := newTraced(t, 1)
	do(t, api, "GET", "/healthz")
	do(t, api, "HEAD", "/readyz")
	if got := spans(); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

// TestRefusedRequestsAreTraced checks that a request without a place is traced too.
func TestRefusedRequestsAreTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, spans := newTraced(t, 1, func(o *options) { o.MaxInFlight = -1 })
		do(t, api, "GET", "/seq/order")
		got := spans()
		if len(got) != 1 || got[0].Attributes["error.type"] != "overloaded" || !got[0].Failed {
			t.Errorf("got %+v", got)
		}
	})
}

// TestAllocationsBesideTraces checks that a request that is not traced costs no allocation.
func TestAllocationsBesideTraces(t *testing.T) {
	without, _ := allocations(t, newAPI(t, define("order", newCounter(1_000_000))), "/seq/order")
	api, _ := newTraced(t, 0)
	with, _ := allocations(t, api, "/seq/order")
	if !racing.On && with > without {
		t.Errorf("one ID costs %v allocations, without traces %v", with, without)
	}
}
