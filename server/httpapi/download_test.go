package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/admin"
)

// histories shows the numbers from 5 down, two on a page at most. fail is the page that fails.
type histories struct {
	plugin
	fail  int
	pages *[]url.Values
}

func (histories) ResourceName() string { return "history" }

type somePage struct {
	list []int
	next string
}

func (somePage) Columns() []string { return []string{"n", "text"} }

func (p somePage) Rows(yield func(any, []string) bool) {
	for _, n := range p.list {
		if !yield(map[string]int{"n": n}, []string{strconv.Itoa(n), "'=1"}) {
			return
		}
	}
}

func (p somePage) NextPage() string { return p.next }

func (h histories) Show(_ context.Context, query url.Values) (any, error) {
	*h.pages = append(*h.pages, query)
	if len(*h.pages) == h.fail {
		return nil, seqd.Errorf(seqd.CodeStoreUnavailable, "away")
	}
	at, _ := strconv.Atoi(query.Get("after"))
	if at == 0 {
		at = 6
	}
	limit, _ := strconv.Atoi(query.Get("limit"))
	p := somePage{}
	for n := at - 1; n > 0 && len(p.list) < min(2, limit); n-- {
		p.list = append(p.list, n)
	}
	if last := p.list[len(p.list)-1]; last > 1 {
		p.next = strconv.Itoa(last)
	}
	return p, nil
}

// A history is downloaded whole, page by page, and a filter is kept from page to page.
func TestDownloadHistory(t *testing.T) {
	var pages []url.Values
	d := define("order", newCounter(1))
	d.Plugins = append(d.Plugins, seqd.BoundPlugin{Name: "history", Plugin: histories{pages: &pages}})
	api := newAPI(t, d)
	const lines, csv = "{\"n\":5}\n{\"n\":4}\n{\"n\":3}\n{\"n\":2}\n{\"n\":1}", "\ufeffn,text\r\n5,'=1\r\n4,'=1\r\n3,'=1\r\n2,'=1\r\n1,'=1\r\n"
	for query, want := range map[string]string{"?format=jsonl&caller=": lines, "?format=csv&caller=": csv, "?format=jsonl&caller=&limit=1": "{\"n\":5}", "?format=csv&after=2&caller=": "\ufeffn,text\r\n1,'=1\r\n"} {
		pages = nil
		w := do(t, api, "GET", "/biz-types/order/history"+query)
		end := "csv"
		if strings.Contains(query, "jsonl") {
			end = "jsonl"
		}
		if w.Code != 200 || w.Body.String() != want || w.Header().Get("Content-Disposition") != `attachment; filename="order-history.`+end+`"` || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %q %v", query, w.Code, w.Body, w.Header())
		}
		if slices.ContainsFunc(pages, func(q url.Values) bool { return !q.Has("caller") || q.Has("format") }) {
			t.Errorf("%s: asked for %v", query, pages)
		}
	}
	for _, query := range []string{"?format=xml", "?format=", "?format=csv&format=csv", "?format=csv&limit=0", "?format=csv&limit=1&limit=2"} {
		wantProblem(t, do(t, api, "GET", "/biz-types/order/history"+query), 400, "invalid_request")
	}
	wantProblem(t, do(t, newAPI(t), "GET", "/biz-types/order/history?format=csv"), 404, "not_found")
}

// A download that fails after its first page breaks off. Before that it is refused.
func TestDownloadBreaksOff(t *testing.T) {
	for fail := 1; fail <= 2; fail++ {
		var pages []url.Values
		d := define("order", newCounter(1))
		d.Plugins = append(d.Plugins, seqd.BoundPlugin{Name: "history", Plugin: histories{pages: &pages, fail: fail}})
		api := newAPI(t, d)
		func() {
			defer func() {
				if p := recover(); (p == http.ErrAbortHandler) != (fail == 2) {
					t.Errorf("page %d: %v", fail, p)
				}
			}()
			w := do(t, api, "GET", "/biz-types/order/history?format=csv")
			wantProblem(t, w, 503, "store_unavailable")
			must.Equal(t, w.Header().Get("Content-Disposition"), "", "the name of a file")
		}()
	}
}

// Audit lines are found by what is said of them, and downloaded.
func TestAuditFilters(t *testing.T) {
	log := newAudit(nil)
	api := newGuarded(t, func(o *options) { o.Audit = log })
	for i, a := range []admin.Attempt{
		{Caller: "ops", Method: "PUT", Path: "/biz-types/order", Target: "order", Status: 200},
		{Caller: "=ops", Method: "DELETE", Path: "/tokens/order", Target: "order", Status: 204},
		{Method: "GET", Path: "/seq/order", Status: 401},
	} {
		a.RequestID = fmt.Sprint("r", i)
		log.Write(t.Context(), a)
	}
	must.Do(t, log.Close(t.Context()))
	for query, want := range map[string]string{
		"?caller=": "r2", "?caller=ops": "r0", "?target=order": "r1 r0", "?bizType=order": "r2 r0", "?requestId=r1": "r1", "?requestId=r": "",
		"?action=delete": "r1", "?action=/tokens/*": "r1", "?action=PUT%20/biz-types/*": "r0", "?action=PUT%20/biz-types": "", "?action=/*/order": "r2 r1 r0",
		"?from=2100-01-01T00:00:00Z": "", "?from=2020-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&limit=1": "r2", "?to=2020-01-01T00:00:00Z": "",
	} {
		var got []string
		for _, l := range readAudit(t, do(t, api, "GET", "/audit"+query, auth("ops"))).Lines {
			got = append(got, l.RequestID)
		}
		must.Equal(t, strings.Join(got, " "), want, "%s", query)
	}
	w := do(t, api, "GET", "/audit?format=csv&action=DELETE", auth("ops"))
	if rows := strings.Split(w.Body.String(), "\r\n"); len(rows) != 3 || !strings.Contains(rows[1], ",'=ops,,DELETE,/tokens/order,,order,204,0,0,web-1,n1,r1") || w.Header().Get("Content-Disposition") != `attachment; filename="audit.csv"` {
		t.Errorf("%s, %v", w.Body, w.Header())
	}
	if text := do(t, api, "GET", "/audit?format=jsonl", auth("ops")).Body.String(); strings.Count(text, "\n") != 2 || !strings.HasPrefix(text, `{"at":"`) {
		t.Errorf("%q", text)
	}
	for _, query := range []string{"?action=", "?bizType=", "?action=DELETE%20tokens", "?action=%20/tokens", "?from=x", "?to=", "?from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:00Z", "?format=xml", "?caller=a&caller=b"} {
		wantProblem(t, do(t, api, "GET", "/audit"+query, auth("ops")), 400, "invalid_request")
	}
	wantProblem(t, do(t, api, "GET", "/audit?format=csv", auth("reader")), 403, "forbidden")
}
