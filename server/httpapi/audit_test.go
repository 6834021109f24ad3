package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/audit"
	"github.com/seqd/seqd/server/gate"
)

// auditPage is an answer of GET /audit.
type auditPage struct {
	Lines []admin.AuditLine
	Next  string
}

func readAudit(t *testing.T, w *httptest.ResponseRecorder) (page auditPage) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 || page.Lines == nil || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	return page
}

// TestAuditRoute checks that changes and attempts at them are listed, the newest first and without
// secrets, page by page.
func TestAuditRoute(t *testing.T) {
	log := newAudit(nil)
	api := newGuarded(t, func(o *options) { o.Audit = log })
	for i, step := range []struct{ method, target, by, body string }{
		{"PUT", "/biz-types/order?force=true&note=hunter2", "ops", `{}`},
		{"PUT", "/biz-types/order?" + strings.Repeat("&", 20) + "f%6Frce=%74rue", "ops", `{"key":"hunter2"}`},
		{"PUT", "/biz-types/order?dryR%75n=tru%65", "ops", `{}`},
		{"PUT", "/biz-types/order?dryRun=true", "nobody", `{}`},
		{"DELETE", "/tokens/seqd_hunter2", "ops", ""},
		{"POST", "/tokens?token=hunter2", "reader", `{"name":"x","scopes":["read"]}`},
		{"GET", "/tokens", "ops", ""},
	} {
		r := must.Get(newRequest(step.method, step.target, auth(step.by), fmt.Sprint("X-Request-Id: r", i), "Content-Type: application/json"))(t)
		api.ServeHTTP(httptest.NewRecorder(), withBody(r, step.body, false))
	}
	must.Do(t, log.Close(t.Context()))
	w := do(t, api, "GET", "/audit", auth("ops"))
	if strings.Contains(w.Body.String(), "hunter2") || strings.Contains(w.Body.String(), "seqd_") {
		t.Errorf("a secret is shown: %s", w.Body)
	}
	page := readAudit(t, w)
	line := func(i int, token, method, path, query, target string, status int, version int64) admin.AuditLine {
		return admin.AuditLine{
			NodeID: "n1", Host: "web-1", Node: "a:1",
			Attempt: admin.Attempt{
				Addr: "192.0.2.1", RequestID: fmt.Sprint("r", i), Caller: token,
				Method: method, Path: path, Query: query, Target: target, Status: status, Version: version,
			},
		}
	}
	want := []admin.AuditLine{
		line(5, "reader", "POST", "/tokens", "(not shown)", "", 403, 0),
		line(4, "ops", "DELETE", "/tokens/(not shown)", "", "(not shown)", 404, 0),
		line(3, "", "PUT", "/biz-types/order", "dryRun=true", "order", 401, 0),
		line(1, "ops", "PUT", "/biz-types/order", "force=true", "order", 200, 2),
		line(0, "ops", "PUT", "/biz-types/order", "force=true&(not shown)", "order", 400, 0),
	}
	if len(page.Lines) != len(want) || page.Next != "" {
		t.Fatalf("%+v", page)
	}
	var all []string
	for i, got := range page.Lines {
		if at, err := time.Parse("2006-01-02T15:04:05.000Z", got.At); err != nil || time.Since(at) > time.Hour {
			t.Errorf("line %d is of %q, %v", i, got.At, err)
		}
		all = append(all, got.RequestID)
		if got.At = ""; got != want[i] {
			t.Errorf("line %d is\n%+v, want\n%+v", i, got, want[i])
		}
	}
	var paged []string
	for after := ""; ; {
		page := readAudit(t, do(t, api, "GET", "/audit?limit=2&after="+after, auth("ops")))
		for _, got := range page.Lines {
			paged = append(paged, got.RequestID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	must.Equal(t, strings.Join(paged, " "), strings.Join(all, " "), "the pages")
	for _, query := range []string{"?limit=0", "?limit=1001", "?x=y", "?after=%ff"} {
		wantProblem(t, do(t, api, "GET", "/audit"+query, auth("ops")), 400, "invalid_request")
	}
}

// TestAuditStarting checks that lines cannot be listed before the store is there.
func TestAuditStarting(t *testing.T) {
	api := newStarting(t, func(o *options) { o.Audit = audit.New(slog.New(slog.DiscardHandler), time.Now) })
	wantProblem(t, do(t, api, "GET", "/audit"), 503, "starting")
}

// TestSettingsRoute checks that the answer is made once.
func TestSettingsRoute(t *testing.T) {
	made := 0
	api := newStarting(t, func(o *options) { o.Settings = func() any { made++; return []int{made} } })
	for range 3 {
		wantBody(t, do(t, api, "GET", "/settings"), jsonType, "[1]")
	}
}

// TestMatch checks which patterns a list of biz types takes.
func TestMatch(t *testing.T) {
	api := newStarting(t)
	catalogue := &wanted{}
	api.Gate().Ready(&gate.Running{Catalogue: catalogue})
	for query, want := range map[string]admin.Listing{
		"":                                  {Limit: 100},
		"match=":                            {Limit: 100},
		"match=o*.R-_9*&limit=7&after=x":    {Match: "o*.R-_9*", Limit: 7, After: "x"},
		"match=" + strings.Repeat("*", 256): {Match: strings.Repeat("*", 256), Limit: 100},
	} {
		if w := do(t, api, "GET", "/biz-types?"+query); w.Code != 200 || catalogue.last != want {
			t.Errorf("%s: %d, asked for %+v", query, w.Code, catalogue.last)
		}
	}
	for _, match := range []string{"a?", "%20", "a/b", "%25", "%00", "%ff", "ö", "[a]", "a,b", strings.Repeat("a", 257)} {
		p := wantProblem(t, do(t, api, "GET", "/biz-types?match="+match), 400, "invalid_request")
		if !strings.HasPrefix(p.Detail, "match has ") {
			t.Errorf("%s: %s", match, p.Detail)
		}
	}
}

// wanted notes what was asked for.
type wanted struct {
	definitions
	last admin.Listing
}

func (w *wanted) List(_ context.Context, want admin.Listing) ([]admin.BizType, string, error) {
	w.last = want
	return nil, "", nil
}
