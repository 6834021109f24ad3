package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// cut lists the tables that one would have to scroll to the side on a phone, where rows are blocks.
const cut = `[...document.querySelectorAll(".wide")].filter((e) => innerWidth < 704 && e.scrollWidth > e.clientWidth).map((e) => e.outerHTML.slice(0, 160))`

// Each page fits a phone, a tablet and a wide window.
func TestWidths(t *testing.T) {
	t.Parallel()
	w := alone(t, withTokens()...)
	w.curl(http.StatusOK, "POST", "/seq/order?count=20", "")
	w.curl(http.StatusOK, "POST", "/seq/ticket?key="+strings.Repeat("tenant-", 9), "")
	long := "till-" + strings.Repeat("x", 50)
	w.curl(http.StatusCreated, "POST", "/tokens", fmt.Sprintf(`{"name":%q,"scopes":["issue:order","read"]}`, long))
	w.curl(http.StatusAccepted, "POST", "/jobs", `{"bizType":"order","count":1000,"name":"for the sale of the summer"}`)
	w.curl(http.StatusCreated, "PUT", "/subscriptions/"+long, `{"url":"http://127.0.0.1:9/events","bizTypes":["order"]}`)
	w.curl(http.StatusCreated, "PUT", "/worker-pools/"+long, `{"bitsMachine":10,"ttl":"30s"}`)
	p := w.visit("#/overview")
	for _, width := range []int64{390, 800, 1400} {
		for _, page := range []struct{ hash, heading, text string }{
			{"overview", "Overview", "In hand"}, {"biz-types", "Biz types", "ticket"}, {"new", "New biz type", "Name"},
			{"biz-types/order", "order", "version 1"}, {"biz-types/order/history?caller=ops", "History", "100 to 119"},
			{"biz-types/ticket/keys", "Keys", "tenant-"}, {"biz-types/invoice/account", "Account", "Account"},
			{"biz-types/order/edit", "Edit order", "Strategy"}, {"jobs", "Jobs", "for the sale"},
			{"subscriptions", "Subscriptions", long}, {"workers", "Workers", long}, {"access", "Audit", long},
		} {
			p.Resize(width)
			p.Eval(fmt.Sprintf("void (location.hash = %q)", "#/"+page.hash), nil)
			p.Find("heading", page.heading)
			p.See(page.text)
			name := fmt.Sprintf("width-%d-%s", width, strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(page.hash))
			p.Shot(name)
			p.FitsWidth(name)
			var found []string
			if p.Eval(cut, &found); len(found) > 0 {
				t.Errorf("%s cuts off: %s", name, strings.Join(found, "\n"))
			}
		}
	}
}
