package console

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/console/browser"
	"github.com/seqd/seqd/internal/testing/longtest"
)

var secretForm = regexp.MustCompile(`seqd_[A-Za-z0-9_-]{20,}`)

// A token is created, and its secret shown once; it works, is changed, and is deleted. The audit lines
// show all of that.
func TestTokens(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	p := w.visit("#/access")
	p.See("ops", "viewer", "shop", "this session")
	p.Axe("access")
	p.Looks("access")
	p.Click("link", "New token")
	p.Type("Name", "till-7")
	addScope(p, "issue:order")
	p.TabTo("DateTime", "Expires*")
	for _, key := range "12312031" { // the year has six places
		p.Press(string(key))
	}
	p.Press("ArrowRight", "1", "1", "5", "9", "P")
	p.Press("Shift+Tab")
	p.Axe("new token")
	p.Looks("token-new")
	p.Click("button", "Create")
	dialog := p.In("dialog", "The secret of till-7")
	dialog.See("It is shown only now.")
	secret := secretForm.FindString(dialog.Text())
	p.Axe("secret")
	p.Looks("secret")
	w.curl(http.StatusOK, "GET", "/seq/order", "", "Authorization", "Bearer "+secret)
	w.curl(http.StatusForbidden, "GET", "/seq/ticket?key=a", "", "Authorization", "Bearer "+secret)
	p.Press("Escape", "Escape")                                  // does not close it
	for _, hash := range []string{"#/biz-types", "#/overview"} { // asks about the secret, once
		p.Eval(fmt.Sprintf("void (location.hash = %q)", hash), nil)
		p.In("dialog", "Leave without copying the secret?").See("Nobody can show it again.")
		p.AwaitThat("two dialogs are open", func() bool {
			var open int
			p.Eval(`document.querySelectorAll("dialog[open]").length`, &open)
			return open == 2
		})
	}
	p.In("dialog", "Leave without copying the secret?").Click("button", "Stay")
	p.AwaitNone("dialog", "Leave without copying the secret?")
	dialog.Click("button", "Copy the secret")
	dialog.See("Copied")
	dialog.Click("button", "I have copied it")
	p.Find("heading", "Access")
	p.See("till-7")
	if p.Shows(secret) {
		t.Error("the secret is still on the page")
	}
	p.Reload()
	p.See("till-7")
	var source string
	p.Eval("document.documentElement.outerHTML", &source)
	if strings.Contains(source, secret) {
		t.Error("the secret is on the page again")
	}

	if got := field(w.get("/tokens/till-7"), "expires"); !strings.HasPrefix(got, "2031-12-31T22:59:00") {
		t.Errorf("curl says that it expires %s, want what was typed, which is an hour ahead", got)
	}
	p.Click("link", "Edit till-7")
	p.Find("heading", "till-7")
	addScope(p, "read")
	p.Axe("token")
	p.Looks("token")
	w.curl(http.StatusOK, "PATCH", "/tokens/till-7", `{"expires":null}`) // another administrator
	expectStatus(p, "412")
	p.Click("button", "Save")
	p.See("Somebody changed till-7 meanwhile.", "what you entered is still here")
	p.Axe("token with a conflict")
	p.Looks("token-conflict")
	p.Click("button", "Save")
	p.Find("heading", "Access")
	w.curl(http.StatusOK, "GET", "/biz-types", "", "Authorization", "Bearer "+secret)

	secret = rotate(p, w, secret)
	p.Find("link", "Edit till-7")
	w.curl(http.StatusOK, "PATCH", "/tokens/till-7", `{"expires":"2031-01-01T00:00:00Z"}`) // after the list was read
	p.Click("button", "Delete till-7")
	dialog = p.In("dialog", "Delete the token till-7?")
	dialog.Type("Type till-7*", "till-7")
	p.Axe("delete token")
	p.Shot("token-delete-light")
	expectStatus(p, "412")
	dialog.Click("button", "Delete")
	dialog.See("The token till-7 is version")
	w.curl(http.StatusOK, "GET", "/seq/order", "", "Authorization", "Bearer "+secret)
	dialog.Click("button", "Delete")
	p.AwaitNone("dialog", "*")
	p.AwaitNone("link", "Edit till-7")
	w.curl(http.StatusUnauthorized, "GET", "/seq/order", "", "Authorization", "Bearer "+secret)
	p.Reload()
	p.AwaitThat("the audit lines are written", func() bool {
		p.Click("button", "Refresh")
		return p.Shows("Delete token till-7")
	})
	p.See("Create token till-7", "Change token till-7", "Sign in")
	p.Axe("access with audit lines")
	p.Looks("access-audit")
	audit := p.In("region", "Audit")
	audit.Type("Of what", "till-7")
	audit.Choose("What", "Delete token")
	audit.Click("button", "Search")
	p.AwaitThat("only what was searched for is shown", func() bool { return p.Shows("Delete token till-7") && !p.Shows("Create token till-7") })
	p.Axe("audit lines that fit")
	if name, text := p.Download(func() { p.Click("button", "Download CSV") }); name != "audit.csv" || strings.Count(text, "\n") < 2 || strings.Count(text, "DELETE,/tokens/till-7,") != strings.Count(text, "\n")-1 {
		t.Errorf("%s has %q", name, text)
	}
	if p.Shows(secret) {
		t.Error("an audit line has the secret")
	}
}

// rotate gives till-7 a new secret, which it returns, and revokes the old one.
func rotate(p *browser.Page, w *world, old string) string {
	id := w.get("/tokens/till-7/secrets")["secrets"].([]any)[0].(map[string]any)["id"].(string)
	p.Click("link", "Edit till-7")
	p.See("It is the only secret: make another one first.")
	p.Click("button", "New secret")
	dialog := p.In("dialog", "The secret of till-7")
	fresh := secretForm.FindString(dialog.Text())
	dialog.Click("button", "I have copied it")
	p.AwaitNone("dialog", "*")
	for _, secret := range []string{old, fresh} {
		w.curl(http.StatusOK, "GET", "/seq/order", "", "Authorization", "Bearer "+secret)
	}
	p.Axe("token with two secrets")
	p.Click("button", "Revoke "+id)
	dialog = p.In("dialog", "Revoke the secret "+id+" of till-7?")
	dialog.Click("button", "Revoke")
	p.AwaitNone("dialog", "*")
	p.See("It is the only secret: make another one first.")
	w.curl(http.StatusUnauthorized, "GET", "/seq/order", "", "Authorization", "Bearer "+old)
	w.curl(http.StatusOK, "GET", "/seq/order", "", "Authorization", "Bearer "+fresh)
	p.Click("link", "Cancel")
	return fresh
}

// addScope adds a scope to the form of a token.
func addScope(p *browser.Page, scope string) {
	if bizType, issue := strings.CutPrefix(scope, "issue:"); issue {
		p.Type("Take numbers of*", bizType)
		p.Click("button", "Add")
	} else {
		p.Click("checkbox", scope)
	}
}

// What a token does not allow is disabled, and says why.
func TestScopes(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	p := browser.Open(t, w.url)
	p.Go("/console#/biz-types")
	w.signIn(p, readSecret)
	lacks := "Your token viewer lacks the scope admin."
	p.See(lacks)
	disabled(p, "New biz type")
	p.Click("link", "order")
	disabled(p, "Edit")
	p.Axe("biz type to read")
	p.Looks("biz-type-viewer")
	p.Click("link", "Numbers")
	p.See("Your token viewer lacks the scope issue:order.")
	disabled(p, "Take")
	p.Go("/console#/access")
	p.See(lacks)
	disabled(p, "New token")
	p.Looks("access-viewer")

	// A caller who may only take numbers.
	p.Click("button", "Sign out")
	p.Find("heading", "Sign in")
	expectStatus(p, "401", "403")
	p.Go("/console#/overview")
	w.signIn(p, callerSecret)
	p.See("The token shop may only take and parse numbers.", "use one with the scope read")
	p.SeeNot("No answer")
	p.Axe("overview of a caller")
	p.Looks("overview-caller")
	p.Type("Biz type*", "ticket")
	p.Click("button", "Open")
	p.Find("heading", "ticket")
	p.Go("/console#/overview")
	p.Click("link", "order") // of its scope
	p.Find("heading", "order")
	p.Go("/console#/biz-types/order/numbers")
	p.See("lacks the scope read")
	p.Click("button", "Take")
	p.See("1 number", "100")
	p.Shot("numbers-caller")
	p.Go("/console#/biz-types")
	p.See("The token shop may only take and parse numbers.")
	p.Click("link", "order")
	p.Find("heading", "order")
}

// disabled waits until a button is disabled, and says why to a screen reader.
func disabled(p *browser.Page, name string) {
	p.AwaitThat(name+" is disabled", func() bool {
		e := p.Find("button", name)
		return e.Properties["disabled"] == "true" && strings.Contains(e.Description, "lacks the scope")
	})
}
