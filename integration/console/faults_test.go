package console

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/console/browser"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// take takes numbers on every node that runs.
func (w *world) take(bizType string, count int) {
	w.Helper()
	for _, n := range w.nodes {
		if n.Node.Ended() {
			continue
		}
		a, err := n.Node.Do("GET", fmt.Sprintf("/seq/%s?count=%d", bizType, count), "", "Authorization", "Bearer "+adminSecret)
		if err != nil || a.Status != http.StatusOK {
			w.Fatalf("take %d numbers of %s on %s: %d, %v: %s", count, bizType, n.HTTP, a.Status, err, a.Body)
		}
	}
}

// The overview shows the figures of all nodes, also while one of them is dead and another hangs,
// and after they are back.
func TestNodesLost(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := three(t, withTokens()...)
	p := w.visit("#/overview")
	expectStatus(p, "502", "503", "504")
	p.See("All 3 nodes issue numbers.")
	w.take("order", 500)
	p.In("table", "Busiest biz types").See("order")
	p.AwaitThat("every node has issued", func() bool {
		return strings.Count(p.In("table", "Nodes").Text(), " ready") == 3
	})
	p.Axe("overview")
	p.Looks("overview")

	dead, hanging := w.nodes[1], w.nodes[2]
	dead.Kill()
	hanging.Node.Pause()
	p.See("have not answered since", "the other one issues.")
	p.AwaitThat("both are said not to answer", func() bool {
		text := p.In("table", "Nodes").Text()
		return strings.Contains(text, dead.HTTP) && strings.Contains(text, hanging.HTTP) && strings.Count(text, "does not answer") == 2
	})
	hanging.Node.Resume()
	p.See(dead.HTTP + " has not answered since")
	p.Axe("overview with a dead node")
	p.Looks("overview-node-dead")
	// The session is everywhere.
	p.Click("link", "Biz types")
	p.See("invoice", "order")
	p.Click("link", "Overview")
	p.See("has not answered since")
	dead.Start()
	p.See("All 3 nodes issue numbers.")
}

// The node that answers dies while somebody types: the page says so, keeps what was typed, and goes
// on when the node is back.
func TestAnsweringNodeDies(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	p := w.visit("#/overview")
	p.Expect("ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_CONTENT_LENGTH_MISMATCH|ERR_SOCKET")
	expectStatus(p, "503")
	p.See("The node issues numbers.")
	w.nodes[0].Kill()
	p.See("No answer since", "The page asks again by itself.", "as of ")
	p.SeeNot("The node issues numbers.")
	p.Axe("overview without an answer")
	p.Looks("overview-no-answer")
	w.nodes[0].Start()
	p.See("The node issues numbers.")
	p.SeeNot("No answer since")

	p.Go("/console#/biz-types/order/edit")
	p.Type("step", "777")
	p.See("checked: no problems")
	w.nodes[0].Kill()
	p.Type("start", "300")
	p.See("not checked", "What you typed is kept.")
	p.Shot("edit-no-answer-light")
	p.Click("button", "Save…")
	p.See("not checked")
	w.nodes[0].Start()
	p.Click("button", "Save…")
	dialog := p.In("dialog", "Save order?")
	dialog.See("777", "300")
	w.nodes[0].Kill()
	dialog.Click("button", "Save")
	p.Find("alert", "")
	p.Shot("save-no-answer-light")
	w.nodes[0].Start()
	if !p.Has("dialog", "Save order?") {
		p.Click("button", "Save…")
	}
	dialog.Click("button", "Save")
	p.See("version 2")
	if now := w.get("/biz-types/order"); field(now, "definition.step") != "777" || field(now, "definition.start") != "300" {
		t.Errorf("curl says %v", now)
	}
}

// hold keeps the requests of the page that change something until it is told to let them go.
const hold = `
	const real = window.fetch;
	const held = [];
	let holds = true;
	window.fetch = (url, options) => !holds || options?.method === "GET" ? real(url, options)
		: new Promise((go) => held.push(go)).then(() => real(url, options));
	window.held = () => held.length;
	window.letGo = (all) => { holds = !all; held.splice(0).forEach((go) => go()); };`

// A dialog stays until it is known what became of it. An answer that comes after the page was left
// changes nothing on the next one.
func TestSlowAnswers(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	p := w.visit("#/biz-types/order")
	expectStatus(p, "412")
	p.Eval("void (() => {"+hold+"})()", nil)
	p.Click("button", "Disable…")
	dialog := p.In("dialog", "Disable order?")
	dialog.Click("button", "Disable")
	p.Await("the request to be sent", "held() === 1")
	p.Press("Escape")
	dialog.Click("button", "Cancel")
	dialog.Click("button", "Close")
	if !p.Has("dialog", "Disable order?") {
		t.Error("the dialog was closed before it was known what became of it")
	}
	p.Eval("letGo()", nil)
	p.See("Disabled. Requests for numbers are refused")
	p.AwaitNone("dialog", "*")

	p.Click("button", "Enable…")
	p.In("dialog", "Enable order?").Click("button", "Enable")
	p.Await("the request to be sent", "held() === 1")
	p.Eval(`void (location.hash = "#/new")`, nil) // as Back does
	p.Find("heading", "New biz type")
	p.Type("Name", "typed-meanwhile")
	w.curl(http.StatusOK, "PATCH", "/biz-types/order", `{"step":555}`) // so the answer is 412
	p.Await("the request to be sent", "held() >= 1")
	p.Eval(`performance.clearResourceTimings()`, nil)
	p.Eval("letGo(true)", nil)
	p.Await("the answer and what follows", `performance.getEntriesByType("resource").filter(({ name }) => name.includes("/biz-types/order")).length > 1`)
	p.See("The first ID looks like 1")
	must.Equal(t, p.Find("textbox", "Name").Value, "typed-meanwhile", "the form")
	p.Leave()
}

// The store is away: that is explained, and what was typed stays.
func TestStoreAway(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := threeOnPostgres(t, withTokens()...)
	p := w.visit("#/biz-types/order/edit")
	expectStatus(p, "503", "504")
	w.take("order", 10)
	p.Type("step", "777")
	p.See("checked: no problems")
	w.store.Kill()
	p.Click("button", "Save…")
	p.See("not checked", "store", "What you typed is kept.")
	p.Axe("edit while the store is away")
	p.Looks("edit-store-away")
	must.Equal(t, p.Value("step"), "777", "step, as it was typed,")
	q := w.visitAgain(p, "#/overview")
	q.See("The store is away", "numbers in hand", "3 biz types in use. Figures")
	q.SeeNot(" ready")
	q.Axe("overview while the store is away")
	q.Looks("overview-store-away")
	for _, hash := range []string{"#/biz-types", "#/biz-types/order/numbers", "#/access"} {
		q.Go("/console" + hash)
		q.See("The store does not answer", "Try again")
		q.Shot("store-away-" + strings.NewReplacer("#/", "", "/", "-").Replace(hash) + "-light")
	}
	w.store.Restart()
	p.AwaitThat("the store is back", func() bool {
		p.TryClick("button", "Check again")
		return p.Shows("checked: no problems")
	})
	p.Click("button", "Save…")
	p.In("dialog", "Save order?").Click("button", "Save")
	p.See("version 2")
}

// visitAgain opens another tab with the cookies of one.
func (w *world) visitAgain(p *browser.Page, hash string) *browser.Page {
	w.Helper()
	q := p.Another()
	expectStatus(q, "503", "504")
	q.Go("/console" + hash)
	return q
}

// A node of an older version: the page says what is missing, and that the files are those of
// another version.
func TestOlderNode(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := three(t)
	p := browser.Open(t, w.url)
	expectStatus(p, "404")
	p.Expect("Failed to load module script", "Failed to fetch dynamically imported module", "preload")
	ofBuild := regexp.MustCompile(`^/console/[0-9a-f]+/`)
	notFound := func(rw http.ResponseWriter) {
		rw.Header().Set("Content-Type", "application/problem+json")
		rw.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(rw, `{"type":"about:blank","title":"Not Found","status":404,"code":"not_found","detail":"there is no such route","requestId":"old-1"}`)
	}
	refuse := func(refused func(string) bool) {
		w.balancer.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
			if refused(r.URL.Path) {
				notFound(rw)
				return true
			}
			return false
		})
	}
	refuse(ofBuild.MatchString)
	p.Go("/console")
	p.See("The console has not started", "another version")
	p.Shot("older-files-light")
	refuse(func(path string) bool { return strings.HasSuffix(path, "/biztypes.js") })
	p.Go("/console#/biz-types")
	p.Reload()
	p.See("This page could not be loaded", "another version")
	p.Shot("older-module-light")
	refuse(func(path string) bool { return path == "/console/api/overview" })
	p.Go("/console#/overview")
	p.Reload()
	p.See("This node has an older version, which has no overview.")
	p.Axe("overview of an older node")
	p.Looks("overview-older-node")
	refuse(func(path string) bool { return path == "/console/api/settings" })
	p.Go("/console#/biz-types/order/edit")
	p.See("There is nothing at this address", "older version", "Try again")
	p.Axe("edit on an older node")
	p.Looks("edit-older-node")
	refuse(func(path string) bool { return path == "/console/api/audit" })
	p.Go("/console#/access")
	p.In("region", "Audit").See("older version")
	p.Shot("access-older-node-light")
}
