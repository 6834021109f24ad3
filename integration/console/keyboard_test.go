package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/console/browser"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// reachable fails the test unless Tab reaches everything that can be used on what is shown, and one
// can see where the focus is. A group of radio buttons is one stop.
func reachable(t *testing.T, p *browser.Page, where string) {
	t.Helper()
	// again, because a page may change or move the focus meanwhile
	await.Eventually(t, "the keyboard reaches all of "+where, func() error { return unreached(p) })
}

// unreached returns an error about what Tab does not reach, and about what it reaches that has no
// name.
func unreached(p *browser.Page) error {
	stops := p.Tour()
	for _, role := range []string{"button", "link", "textbox", "searchbox", "combobox", "checkbox", "spinbutton"} {
		for _, e := range p.All(role, "") {
			stop := strings.TrimSpace(e.Role + " " + e.Name)
			if within(e) {
				continue
			}
			if e.Properties["disabled"] != "true" && e.Properties["focusable"] == "true" && !slices.Contains(stops, stop) {
				return fmt.Errorf("Tab does not reach %s; it reaches %q", stop, stops)
			}
		}
	}
	for _, stop := range stops {
		if !strings.Contains(stop, " ") {
			return fmt.Errorf("something without a name gets the focus: %s", stop)
		}
	}
	return nil
}

// within reports whether an element is a part of a field for a date, which the browser made.
func within(e browser.Element) bool {
	first, rest, _ := strings.Cut(e.Name, " ")
	return e.Role == "spinbutton" && first == rest || strings.HasSuffix(e.Name, "picker")
}

// Everything on every page can be reached with the keyboard.
func TestReachable(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	w.curl(http.StatusCreated, "POST", "/tokens", `{"name":"till-7","scopes":["issue:order"]}`)
	w.curl(http.StatusOK, "GET", "/seq/invoice?count=3", "")
	w.curl(http.StatusCreated, "POST", "/seq/invoice/reservations", "")
	w.curl(http.StatusOK, "GET", "/seq/ticket?key=a", "")
	w.curl(http.StatusCreated, "PUT", "/worker-pools/shop", `{}`)
	w.curl(http.StatusOK, "PATCH", "/biz-types/invoice", `{"events":true}`)
	w.curl(http.StatusCreated, "PUT", "/subscriptions/till", `{"url":"http://127.0.0.1:1/","bizTypes":["invoice"]}`)
	p := w.visit("")
	for _, hash := range []string{
		"#/overview", "#/jobs", "#/jobs?new=1", "#/subscriptions", "#/subscriptions/till", "#/workers", "#/workers?new=1", "#/workers/shop", "#/workers/shop/edit", "#/biz-types", "#/new", "#/access", "#/access?new=1", "#/access/till-7",
		"#/biz-types/order/overview", "#/biz-types/order/edit", "#/biz-types/order/numbers", "#/biz-types/order/history",
		"#/biz-types/order/stats", "#/biz-types/ticket/keys", "#/biz-types/invoice/account", "#/biz-types/invoice/reservations", "#/biz-types/invoice/events",
	} {
		p.Go("/console" + hash)
		p.Reload() // focus is where a page has it that was not reached by a link
		p.Await("the page has loaded", `document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
		p.SeeNot("checking…") // what the check says may have a link
		reachable(t, p, hash)
	}
}

// A biz type is created, used and deleted without a mouse.
func TestKeyboardOnly(t *testing.T) {
	t.Parallel()
	w := alone(t)
	p := w.visit("")
	p.Find("heading", "Overview")
	p.Press("Tab", "Enter") // skip the navigation
	if e := p.Focused(); e.Role != "heading" {
		t.Errorf("the skip link leads to %s %q", e.Role, e.Name)
	}
	p.Press("Shift+Tab")
	p.Eval("document.activeElement.blur()", nil)
	p.TabTo("link", "Biz types")
	p.Press("Enter")
	p.Find("heading", "Biz types")
	p.TabTo("link", "New biz type")
	p.Press("Enter")
	p.Find("heading", "New biz type")
	p.TabTo("textbox", "Name")
	p.Write("parcel")
	p.TabTo("radio", "segment*")
	p.Press("ArrowUp")
	p.AwaitThat("another strategy is chosen", func() bool { return strings.HasPrefix(p.Focused().Name, "gapless") })
	p.Press("ArrowDown")
	p.AwaitThat("the strategy is segment again", func() bool { return strings.HasPrefix(p.Focused().Name, "segment") })
	p.TabTo("textbox", "start")
	p.Write("7")
	p.TabTo("button", "Create…")
	p.Press("Enter")
	dialog := p.In("dialog", "Create parcel?")
	dialog.See("start", "7")
	reachable(t, p, "the dialog Create")
	p.Press("Escape") // back to where one was
	p.AwaitNone("dialog", "*")
	if e := p.Focused(); e.Name != "Create…" {
		t.Errorf("after Escape %s %q has the focus, want the button that opened the dialog", e.Role, e.Name)
	}
	p.Press("Space")
	dialog.See("start")
	p.TabTo("button", "Create")
	p.Press("Space")
	p.Find("heading", "parcel")

	p.TabTo("link", "Numbers")
	p.Press("Enter")
	p.FindField("How many")
	p.TabTo("spinbutton", "How many")
	p.Press("ArrowUp", "Enter")
	p.See("2 numbers", "7", "8")

	p.TabTo("link", "Overview") // of the biz type, or in the navigation
	p.Go("/console#/biz-types/parcel/overview")
	p.Find("heading", "State")
	p.TabTo("button", "Delete…")
	p.Press("Enter")
	dialog = p.In("dialog", "Delete parcel?")
	dialog.See("Type parcel to confirm")
	if e := p.Focused(); e.Role != "textbox" {
		t.Errorf("%s %q has the focus in the dialog, want the field", e.Role, e.Name)
	}
	reachable(t, p, "the dialog Delete")
	p.TabTo("textbox", "Type parcel*")
	p.Write("parcel")
	p.Press("Enter")
	p.Find("heading", "Biz types")
	p.See("parcel is deleted.") // said to a screen reader
	w.curl(http.StatusNotFound, "GET", "/seq/parcel", "")
}
