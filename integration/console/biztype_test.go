package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/console/browser"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// Numbers that are taken on the page are those of the counter, and used up.
func TestTakeNumbers(t *testing.T) {
	t.Parallel()
	w := alone(t)
	p := w.visit("#/biz-types/order/numbers")
	p.Find("heading", "order")
	p.Click("button", "Take")
	p.See("1 number", "100")
	p.Type("How many*", "3")
	p.Click("button", "Take")
	p.See("3 numbers", "101", "102", "103")
	if next := w.get("/seq/order"); next["id"] != "104" {
		t.Errorf("curl got %v after the page had taken 100 to 103", next)
	}

	p.Type("How many*", "30")
	p.Click("button", "Take")
	p.See("30 numbers")
	if next := w.get("/seq/order"); next["id"] != "135" {
		t.Errorf("curl got %v after the page had taken up to 134", next)
	}

	expectStatus(p, "400")
	p.Type("How many*", "10001")
	p.Click("button", "Take")
	refusedAt(p, "How many*")
	p.Axe("numbers")
	p.Looks("numbers")
}

// What an ID contains is shown in words, and its time in the reader's zone.
func TestParse(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	w.curl(http.StatusCreated, "PUT", "/biz-types/user", `{"strategy":"snowflake"}`)
	await.True(w, "user issues", func() bool {
		a, err := w.nodes[0].Node.Do("GET", "/seq/user", "")
		return err == nil && a.Status == http.StatusOK
	})
	id := field(w.get("/seq/user"), "id")
	parsed := w.get("/seq/user/parse/" + id)
	p := w.visit("#/biz-types/user/numbers")
	p.Type("ID", id)
	p.Press("Enter")
	at := must.Get(time.Parse(time.RFC3339, field(parsed, "at")))(t)
	zone := must.Get(time.LoadLocation(browser.Zone))(t)
	p.See(browser.Zone, field(parsed, "at"), at.In(zone).Format("15:04:05"), "Machine ID", field(parsed, "machineId"))
	p.Looks("parse")
	expectStatus(p, "400")
	p.Type("ID", "not an ID")
	p.Press("Enter")
	refusedAt(p, "ID")
	p.SeeNot(field(parsed, "at"))
}

// A keyed biz type: keys are listed, found and used.
func TestKeys(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	for i := range 130 {
		w.curl(http.StatusOK, "GET", fmt.Sprintf("/seq/ticket?key=tenant-%03d", i), "")
	}
	w.curl(http.StatusOK, "GET", "/seq/ticket?key=zebra", "")
	p := w.visit("#/biz-types/ticket/keys")
	p.See("tenant-000", "tenant-099")
	if p.Shows("tenant-100") {
		t.Error("the first page shows more than 100 keys")
	}
	p.Click("button", "Next")
	p.See("tenant-100", "zebra")
	p.SeeNot("tenant-099")
	p.Click("button", "Previous")
	p.See("tenant-000")
	p.Type("Begins with", "z")
	p.Click("button", "Search")
	p.See("zebra")
	p.SeeNot("tenant-000")
	p.Axe("keys")
	p.Looks("keys")

	p.Click("link", "Numbers of zebra")
	must.Equal(t, p.Value("Key*"), "zebra", "the key")
	p.Click("button", "Take")
	p.See("1 number of the key zebra")
	if next := w.get("/seq/ticket?key=zebra"); next["id"] != "3" {
		t.Errorf("curl got %v for zebra", next)
	}
	expectStatus(p, "400")
	p.Type("Key*", "a b")
	p.Click("button", "Take")
	refusedAt(p, "Key*")
}

// The history says who got what, and stats count it.
func TestHistory(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	w.curl(http.StatusOK, "POST", "/seq/order?count=5", "", "Authorization", "Bearer "+callerSecret)
	a := w.curl(http.StatusOK, "POST", "/seq/order", "")
	await.True(w, "the history is written", func() bool {
		records, _ := w.get("/biz-types/order/history")["records"].([]any)
		return len(records) == 2
	})
	p := w.visit("#/biz-types/order/history")
	p.See("100 to 104", "shop", "105", "ops", a.header.Get("X-Request-Id"), browser.Zone)
	p.Axe("history")
	p.Looks("history")
	p.Type("Caller", "shop")
	p.Click("button", "Search")
	p.See("100 to 104")
	p.SeeNot(a.header.Get("X-Request-Id"))
	p.Axe("history of a caller")
	if name, text := p.Download(func() { p.Click("button", "Download JSON lines") }); name != "order-history.jsonl" || strings.Count(text, "\n") != 1 || !strings.Contains(text, `"caller":"shop"`) {
		t.Errorf("%s has %q", name, text)
	}
	expectStatus(p, "400")
	p.Type("Number", "x")
	p.Click("button", "Search")
	p.See("is not a whole number")
	p.Go("/console#/biz-types/order/history")
	p.Click("link", "Stats")
	p.See("Numbers issued 6", "Requests answered 2", "Nothing was refused.")
	p.Axe("stats")
	p.Looks("stats")

	p.Go("/console#/biz-types/ticket/history")
	p.See("There is no such page.", "the plugins history and stats")
	p.Shot("stats-not-bound")
}

// The account of gapless numbers adds up, whatever somebody does to them on the page.
func TestAccount(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	p := w.visit("#/biz-types/invoice/account")
	p.See("No number was handed out yet.")
	p.Shot("account-empty")
	var ids []string
	for range 3 {
		ids = append(ids, field(w.get("/seq/invoice"), "id"))
	}

	p.Click("link", "Reservations")
	p.Type("How many*", "2")
	p.Type("For how long*", "90s")
	p.Click("button", "Reserve")
	p.See("2 IDs", "Confirm", "Expires")
	p.Axe("reservation")
	p.Looks("reservation")
	p.Click("button", "Confirm")
	p.See("confirmed")
	p.Type("How many*", "1")
	p.Click("button", "Reserve")
	p.See("-0006", "Release")
	released := p.In("dialog", "Release this reservation?")
	p.Click("button", "Release")
	released.See("Release it only if nobody uses them.")
	p.Axe("release")
	p.Shot("release-light")
	released.Click("button", "Release")
	p.See("released")

	p.Click("link", "Account")
	p.Type("ID", ids[1])
	p.Type("Reason", "printed twice")
	p.Click("button", "Make void…")
	dialog := p.In("dialog", "Make "+ids[1]+" void?")
	dialog.See("printed twice")
	p.Axe("void")
	p.Shot("void-light")
	dialog.Click("button", "Make it void")
	p.See(ids[1]+" is void.", "Handed out 1 to 6: 4 issued, 1 released and 1 void (4 + 1 + 1 = 6).", strings.Replace(ids[1], "-0002", "-0006", 1))
	account := w.get("/biz-types/invoice/gaps")
	must.Equal(t, field(account, "issued"), "4", "the numbers that are issued, in %v", account)
	p.Axe("account")
	p.Looks("account")

	expectStatus(p, "400")
	p.Type("ID", "INV-1999-0001")
	p.Type("Reason", "never was")
	p.Click("button", "Make void…")
	p.In("dialog", "Make INV-1999-0001 void?").Click("button", "Make it void")
	refusedAt(p, "ID")
	must.Equal(t, p.Value("Reason"), "never was", "the reason")
	long := strings.Repeat("long ", 50)
	p.Type("ID", ids[0])
	p.Type("Reason", long)
	p.Click("button", "Make void…")
	p.In("dialog", "Make "+ids[0]+" void?").Click("button", "Make it void")
	refusedAt(p, "Reason")
	must.Equal(t, p.Value("Reason"), long, "the reason")
	name, csv := p.Download(func() { p.Click("button", "Download CSV") })
	want := w.curl(http.StatusOK, "GET", "/biz-types/invoice/gaps", "", "Accept", "text/csv").body
	if name != "invoice-account.csv" || csv != want {
		t.Errorf("the page saved %s:\n%s\nwant what curl gets:\n%s", name, csv, want)
	}
}

// The overview of a biz type says what it is; pages that it does not have say so.
func TestBizTypePages(t *testing.T) {
	t.Parallel()
	w := alone(t)
	p := w.visit("#/biz-types/order")
	p.Find("heading", "order")
	p.See("enabled", "segment", "version 1", "No fault")
	p.Axe("biz type")
	p.Looks("biz-type")
	w.curl(http.StatusOK, "PATCH", "/biz-types/order", `{"step":500}`)
	p.See("Somebody changed order meanwhile")
	p.Click("button", "Show it")
	p.SeeNot("meanwhile")
	p.See("version 2")
	w.curl(http.StatusNoContent, "DELETE", "/biz-types/order", "")
	expectStatus(p, "404")
	p.See("Somebody deleted order meanwhile")
	p.Reload()
	p.See("There is no biz type order.")
	p.Shot("biz-type-deleted")

	p.Go("/console#/biz-types/ticket/account")
	p.See("There is no such page.")
	p.Go("/console#/biz-types/ticket/nothing")
	p.See("There is no such page.")
	p.Go("/console#/nothing")
	p.Find("heading", "*")
	p.Shot("no-such-page")
}
