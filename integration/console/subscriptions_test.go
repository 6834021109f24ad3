package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// A subscription shows what its receiver does not have, and sends it again; and the events of a biz
// type are shown.
func TestSubscriptions(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	var status atomic.Int64
	status.Store(http.StatusInternalServerError)
	receiver := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, _ *http.Request) { answer.WriteHeader(int(status.Load())) }))
	defer receiver.Close()
	definition := func(path string) string {
		return fmt.Sprintf(`{"url":%q,"bizTypes":["invoice"],"from":"oldest"}`, receiver.URL+path)
	}
	p := w.visit("#/subscriptions")
	p.See("No subscriptions.")
	p.Looks("subscriptions-none")
	w.curl(http.StatusOK, "PATCH", "/biz-types/invoice", `{"events":true}`)
	w.curl(http.StatusCreated, "PUT", "/subscriptions/shop", definition(""))
	w.curl(http.StatusOK, "GET", "/events?bizType=invoice&wait=1m", "")
	w.curl(http.StatusOK, "GET", "/seq/invoice?count=3", "")
	w.curl(http.StatusOK, "GET", "/events?bizType=invoice&after=1&wait=1m", "")
	p.Go("/console#/biz-types/invoice/events")
	p.See("range.issued", "definition.changed")
	p.Axe("events")
	p.Looks("events")
	p.Type("After position", "1")
	p.Click("button", "Show")
	p.See("range.issued")
	p.SeeNot("definition.changed")

	p.Go("/console#/subscriptions")
	p.See("shop")
	p.Axe("subscriptions")
	p.Looks("subscriptions")
	p.Click("link", "shop")
	p.See("the receiver fails", "the answer is 500")
	p.Click("button", "Refresh")
	p.See("range.issued of invoice, position 2")
	p.Axe("subscription")
	p.Looks("subscription")
	p.Choose("Which", "Dead")
	p.See("The receiver has all that was sent.")
	p.Choose("Which", "Pending")
	p.See("range.issued of invoice, position 2")

	expectStatus(p, "400", "412")
	p.Type("Biz type*", "order")
	p.Type("From position*", "1")
	p.Click("button", "Send again")
	p.See("1 is above the position of the last event of order")
	status.Store(http.StatusNoContent)
	p.Type("Biz type*", "invoice")
	p.Click("button", "Send again")
	p.SeeNot("the receiver fails")

	p.Click("button", "Disable…")
	dialog := p.In("dialog", "Disable shop?")
	p.Axe("disable subscription")
	w.curl(http.StatusOK, "PUT", "/subscriptions/shop", definition("/other")) // another administrator
	dialog.Click("button", "Disable")
	dialog.See("The subscription shop is version")
	dialog.Click("button", "Disable")
	p.AwaitNone("dialog", "*")
	p.See("disabled", receiver.URL+"/other")
	p.Click("button", "Enable…")
	p.In("dialog", "Enable shop?").Click("button", "Enable")
	p.AwaitNone("dialog", "*")
	p.SeeNot("disabled")
	must.Equal(t, strings.HasSuffix(w.get("/subscriptions/shop")["url"].(string), "/other"), true, "what the other one changed")

	p.Click("button", "Sign out")
	p.Find("heading", "Sign in")
	p.Go("/console#/subscriptions")
	w.signIn(p, readSecret)
	p.SeeNot("shop")
}
