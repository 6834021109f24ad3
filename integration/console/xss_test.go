package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seqd/seqd/integration/console/browser"
	"github.com/seqd/seqd/internal/testing/longtest"
)

// payloads are texts that would do something in a page that takes them for anything but text.
var payloads = []string{
	`<img src=x onerror=alert(1)>`,
	`"><script>alert(2)</script>`,
	`'-alert(3)-'`,
	`javascript:alert(4)`,
	`<svg/onload=alert(5)><a href="javascript:alert(6)">x</a>`,
	"{{constructor.constructor('alert(7)')()}} ${alert(8)} `${alert(9)}`",
	"\u202Egnp.exe \u2066abc\u2069",      // turns what follows around
	"a\u200Bb\u2060c\uFEFFd",             // characters that one does not see
	strings.Repeat("W", 200),             // does not fit into anything
	"&lt;b&gt; &amp; &#x3C;script&#x3E;", // what is escaped already stays as it is
	"</title></textarea></style><img src=x onerror=alert(10)>",
}

// foreign lists what only markup in a text could have put into the page.
const foreign = `[
	...document.querySelectorAll("img, iframe, object, embed, base, audio, video, form[action], meta[http-equiv]"),
	...[...document.scripts].filter((s) => !s.src.startsWith(location.origin + "/console/")),
	...[...document.querySelectorAll("body *")].filter((e) => [...e.attributes].some((a) => a.name.startsWith("on"))),
	...[...document.querySelectorAll("[href], [src]")].filter((e) => /^\s*(javascript|data|vbscript):/i.test(e.getAttribute("href") ?? e.getAttribute("src"))),
].map((e) => e.outerHTML.slice(0, 200))`

// harmless fails the test if a text has become markup.
func harmless(t *testing.T, p *browser.Page, where string) {
	t.Helper()
	var found []string
	p.Eval(foreign, &found)
	if len(found) > 0 {
		t.Errorf("%s has elements that a text made: %s", where, found)
	}
	p.FitsWidth(where)
	var scrolled []string
	p.Eval(`[...document.querySelectorAll("table")].map((t) => t.parentElement).filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.innerText.slice(0, 200))`, &scrolled)
	if len(scrolled) > 0 {
		t.Errorf("%s has a table that is wider than the window: %q", where, scrolled)
	}
}

// stored reports whether the API took a text, and fails if it neither took it nor said why.
func stored(w *world, method, path string, body any, headers ...string) bool {
	w.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			w.Fatal(err)
		}
	}
	if w.tokens {
		headers = append(headers, "Authorization", "Bearer "+adminSecret)
	}
	a, err := w.nodes[0].Node.Do(method, path, string(text), headers...)
	if err != nil || a.Status >= 500 || a.Status == http.StatusUnauthorized {
		w.Fatalf("%s %s %s: %d, %v: %s", method, path, text, a.Status, err, a.Body)
	}
	return a.Status < 300
}

// Whatever somebody stores with the API, the console shows as text.
func TestStoredTexts(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t, withTokens()...)
	var reasons, templates []string
	for i, text := range payloads {
		id := field(w.get("/seq/invoice"), "id")
		if stored(w, "POST", "/biz-types/invoice/voids", map[string]any{"id": id, "reason": text}) {
			reasons = append(reasons, text)
		}
		name := fmt.Sprintf("text-%02d", i)
		if stored(w, "PUT", "/biz-types/"+name, map[string]any{"plugins": []any{
			map[string]any{"name": "format", "template": text + "{seq}"}, map[string]any{"name": "history"}}}) {
			templates = append(templates, name)
			w.get("/seq/" + name)
		}
		for _, definition := range []map[string]any{
			{"plugins": []any{map[string]any{"name": "history", "to": "file", "file": map[string]any{"path": "/nowhere/" + text}}}},
			{"plugins": []any{map[string]any{"name": "obfuscate", "digits": 8, "key": text + "0123456789abcdef"}}},
			{"rejected": []any{map[string]any{"name": "webhook", "url": "http://127.0.0.1:9/" + text}}},
			{"timeZone": text}, {text: 1}, {"plugins": []any{map[string]any{"name": text}}},
		} {
			stored(w, "PUT", "/biz-types/odd-"+name, definition)
		}
		// What others send ends in audit lines and in the history.
		stored(w, "PUT", "/biz-types/"+url.PathEscape(text), map[string]any{}, "X-Request-Id", url.QueryEscape(text), "User-Agent", text)
		stored(w, "DELETE", "/biz-types/none?force="+url.QueryEscape(text), nil, "X-Forwarded-For", text)
		stored(w, "POST", "/tokens", map[string]any{"name": text, "scopes": []string{text}})
		stored(w, "POST", "/tokens", map[string]any{"name": "t" + name, "scopes": []string{"issue:" + text}})
		stored(w, "GET", "/seq/order", nil, "X-Request-Id", text)
	}
	if len(reasons) < 5 || len(templates) < 2 {
		t.Fatalf("only %d reasons and %d templates were stored: the test is of no use", len(reasons), len(templates))
	}

	t.Logf("%d of %d texts are reasons, and %d are templates", len(reasons), len(payloads), len(templates))
	p := w.visit("#/biz-types/invoice/account")
	p.See(reasons...)
	harmless(t, p, "the account")
	p.Looks("xss-account")
	p.Go("/console#/biz-types")
	p.See(templates...)
	for _, name := range templates {
		p.See(plainText(payloads[number(name)]))
	}
	harmless(t, p, "the list")
	p.Looks("xss-biz-types")
	for _, name := range templates {
		p.Go("/console#/biz-types/" + name)
		p.See(plainText(payloads[number(name)]))
		harmless(t, p, "the biz type "+name)
		p.Click("link", "Edit")
		p.Find("heading", "Edit "+name)
		p.FindField("template*")
		harmless(t, p, "the form of "+name)
		p.Click("button", "JSON")
		harmless(t, p, "the JSON of "+name)
		p.Go("/console#/biz-types/" + name + "/numbers")
		p.Click("button", "Take")
		p.See("1 number taken")
		harmless(t, p, "the numbers of "+name)
		p.Go("/console#/biz-types/" + name + "/history")
		p.Find("table", "*")
		harmless(t, p, "the history of "+name)
	}
	p.Go("/console#/access")
	p.Find("table", "Changes*")
	harmless(t, p, "the audit lines")
	p.Looks("xss-access")
	p.Go("/console#/biz-types/order/history")
	p.Find("table", "*")
	harmless(t, p, "the history")
	p.Go("/console#/overview")
	p.Find("heading", "Overview")
	harmless(t, p, "the overview")
}

// plainText is how a text looks with single spaces.
func plainText(text string) string { return strings.Join(strings.Fields(text), " ") }

// number returns the number at the end of a name such as text-07.
func number(name string) (n int) {
	_, _ = fmt.Sscanf(name, "text-%d", &n)
	return n
}

// Whatever stands in an address or is typed, the console shows as text.
func TestReflectedTexts(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	w := alone(t)
	p := w.visit("")
	expectStatus(p, "400", "404")
	for i, text := range payloads {
		if i%longtest.Or(3, 1) != 0 {
			continue
		}
		escaped := url.PathEscape(text)
		for _, hash := range []string{
			"#/" + escaped, "#/biz-types/" + escaped, "#/biz-types/" + escaped + "/edit", "#/biz-types/order/" + escaped,
			"#/biz-types?match=" + url.QueryEscape(text), "#/biz-types?after=" + url.QueryEscape(text),
			"#/new?from=" + url.QueryEscape(text), "#/access/" + escaped,
			"#/biz-types/order/numbers?id=" + url.QueryEscape(text) + "&key=" + url.QueryEscape(text),
			"#/biz-types/invoice/account?period=" + url.QueryEscape(text) + "&key=" + url.QueryEscape(text),
			"#/biz-types/invoice/reservations?id=" + url.QueryEscape(text), "#/biz-types/ticket/keys?prefix=" + url.QueryEscape(text),
			"#/biz-types/order/history?from=" + url.QueryEscape(text),
		} {
			p.Go("/console" + hash)
			p.Await("the page has loaded", `document.querySelector("main h1") && !document.querySelector("[aria-busy=true]")`)
			harmless(t, p, hash)
		}
	}
}
