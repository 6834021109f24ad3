package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/longtest"
)

// The list of biz types is searched, and has pages.
func TestBizTypes(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	for i := range 120 {
		w.curl(http.StatusCreated, "PUT", fmt.Sprintf("/biz-types/shop-%03d", i), `{}`)
	}
	w.curl(http.StatusOK, "POST", "/biz-types/shop-007/disable", "")
	p := w.visit("#/biz-types")
	p.See("invoice", "order", "shop-000")
	p.Axe("biz types")
	p.Looks("biz-types")
	p.Click("button", "Next")
	p.SeeNot("invoice")
	p.See("shop-050")
	p.Click("button", "Previous")
	p.See("invoice")
	p.Click("button", "Next")
	p.Click("button", "First")
	p.See("invoice")

	p.Type("Search", "007")
	p.See("1 biz type", "shop-007", "disabled")
	p.Type("Search", "shop-*9")
	p.See("12 biz types", "shop-119")
	p.SeeNot("order")
	var hash string
	p.Eval("location.hash", &hash)
	if !strings.Contains(hash, "match=shop-*9") {
		t.Errorf("the address is %s, which does not have the search", hash)
	}
	p.Reload() // the address has the search
	p.See("12 biz types")
	p.Type("Search", "nothing")
	p.See("No biz type has such a name")
	p.Shot("biz-types-none")
	expectStatus(p, "400")
	p.Type("Search", "a b")
	p.Find("alert", "")
	p.Shot("biz-types-refused")

	p.Type("Search", "shop-11")
	p.Click("link", "shop-110")
	p.Find("heading", "shop-110")
}

// A service without biz types says how to begin.
func TestNoBizTypes(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, "SEQD_BIZTYPESFROM=store", "SEQD_BIZTYPES=[]")
	p := w.visit("#/biz-types")
	p.See("No biz types yet")
	p.Axe("no biz types")
	p.Looks("biz-types-empty")
	p.Click("link", "Create the first one")
	p.Find("heading", "New biz type")
	p.Go("/console#/overview")
	p.Find("heading", "Overview")
	p.See("No biz types yet", "Create the first one")
	p.Axe("overview of nothing")
	p.Looks("overview-empty")
}
