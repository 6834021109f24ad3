package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/seqd/seqd/client"
	"github.com/seqd/seqd/client/admin"
)

// pages answers requests for pages of an account by what they are after.
type pages map[string]string

func (p pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprint(w, p[r.URL.Query().Get("after")+" "+r.URL.Query().Get("period")])
}

const (
	page1 = `{"bizType":"invoice","period":"2026","first":"1","last":"9","issued":5,"gaps":[{"from":"2","to":"3","state":"void"}],"next":"3"}`
	page2 = `{"bizType":"invoice","period":"2026","first":"1","last":"10","issued":6,"gaps":[{"from":"5","to":"5","state":"released"}]}`
)

// All pages are read, and all of the period of the first one.
func TestEachPage(t *testing.T) {
	var got []int64
	var account admin.Account
	a := dial(t, pages{" ": page1, "3 2026": page2})
	err := a.EachPage(context.Background(), "invoice", admin.Counter{}, func(page admin.Account) error {
		for _, g := range page.Gaps {
			got = append(got, g.From, g.To)
		}
		account = page
		return nil
	})
	if err != nil || fmt.Sprint(got) != "[2 3 5 5]" || account.Last != 10 || account.Issued != 6 {
		t.Errorf("got %v, %+v, %v", got, account, err)
	}
}

// Pages that would never end, or that count a number twice, are errors.
func TestPagesOfSomethingElse(t *testing.T) {
	for name, node := range map[string]pages{
		"the same page again": {" ": page1, "3 2026": page1},
		"going back":          {" ": page1, "3 2026": `{"bizType":"invoice","first":"1","last":"9","issued":5,"gaps":[],"next":"3"}`},
		"no number":           {" ": `{"bizType":"invoice","first":"1","last":"9","issued":5,"gaps":[],"next":"x"}`},
		"not in order":        {" ": `{"bizType":"invoice","first":"1","last":"9","issued":5,"gaps":[{"from":"5","to":"5","state":"void"},{"from":"4","to":"4","state":"void"}]}`},
		"upside down":         {" ": `{"bizType":"invoice","first":"1","last":"9","issued":5,"gaps":[{"from":"5","to":"4","state":"void"}]}`},
		"another biz type":    {" ": `{"bizType":"order","first":"1","last":"9","issued":5,"gaps":[]}`},
		"no list":             {" ": `{"bizType":"invoice"}`},
	} {
		err := dial(t, node).EachPage(context.Background(), "invoice", admin.Counter{}, func(admin.Account) error { return nil })
		if !errors.Is(err, client.ErrBadAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
