package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// attack is a page on another port of the same machine, which browsers send cookies from that are
// for the same site only. It tries what a page can do without being allowed to, and says how each
// attempt that it can look at ended.
const attack = `<!doctype html><title>foreign</title><body><a href="%[1]s/console#/access">the console</a>
<iframe name="sink" hidden></iframe><iframe id="framed" src="%[1]s/console"></iframe>
<script>
const node = "%[1]s", credentials = "include", mark = {"Seqd-Console": "1"};
const post = (path, type, field) => {
	const form = document.createElement("form");
	Object.assign(form, {method: "post", action: node + path, enctype: type, target: "sink"});
	const input = document.createElement("input");
	Object.assign(input, {name: field, value: "x"});
	form.append(input);
	document.body.append(form);
	form.submit();
};
const load = (tag, path) => new Promise((resolve) => {
	const e = document.createElement(tag);
	Object.assign(e, {onload: () => resolve(tag + " loaded"), onerror: () => resolve("refused"), src: node + path});
	document.body.append(e);
});
const send = (path, options) => fetch(node + path, {credentials, ...options}).then((r) => path + " " + r.type, () => "refused");
const blind = (path, options) => send(path, {mode: "no-cors", ...options}).then(() => "refused"); // it cannot see the answer
(async () => {
	const ends = await Promise.all([
		send("/console/api/seq/order", {headers: mark}),
		send("/console/api/seq/order"),
		send("/console/session", {headers: mark}),
		send("/console/session", {headers: mark, method: "DELETE"}),
		send("/console/api/biz-types/order/disable", {headers: mark, method: "POST"}),
		blind("/console/api/seq/order"),
		blind("/console/api/seq/order", {method: "POST"}),
		blind("/console/api/biz-types/order/disable", {method: "POST", body: "x"}),
		blind("/console/session", {method: "POST", body: '{"token":"seqd_x"}'}),
		load("img", "/console/api/seq/order"), load("script", "/console/api/seq/order"),
	]);
	navigator.sendBeacon(node + "/console/api/biz-types/order/disable", "x");
	const sink = document.querySelector("iframe");
	for (const path of ["/console/session", "/console/api/seq/order", "/console/api/biz-types/order/disable"]) {
		const loaded = new Promise((resolve) => { sink.onload = resolve; });
		post(path, "text/plain", '{"token":"seqd_x","a":"');
		await loaded;
	}
	window.ends = ends;
})();
</script>`

// A page of another origin, even on the same host, neither takes a number nor changes anything nor
// ends a session, and cannot show the console in a frame. It may lead to the console.
func TestForeignPage(t *testing.T) {
	for name, settings := range map[string][]string{"with tokens": withTokens(), "without tokens": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := alone(t, settings...)
			p := w.visit("#/biz-types")
			p.Find("heading", "Biz types")
			site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/html")
				_, _ = fmt.Fprintf(rw, attack, w.url)
			}))
			t.Cleanup(site.Close)
			p.Leave()
			p.Eval(fmt.Sprintf("void (location.href = %q)", site.URL), nil)
			p.Await("the attempts have ended", "document.title === 'foreign' && window.ends")
			must.Equal(t, len(p.Cookies()), min(1, len(settings)), "the cookies")
			var ends []string
			p.Eval("window.ends", &ends)
			for i, end := range ends {
				must.Equal(t, end, "refused", "attempt %d ended with", i)
			}
			if faults := strings.Join(p.Faults(), "\n"); !strings.Contains(faults, "frame-ancestors") {
				t.Errorf("the console was shown in a frame: %s", faults)
			}
			p.Expect("") // they are those of the foreign page
			p.Click("link", "the console")
			p.Find("heading", "Access") // still signed in
			must.Equal(t, w.get("/seq/order")["id"], "100", "the next number, if the page has taken none,")
			if got := w.get("/biz-types/order"); got["enabled"] != true {
				t.Errorf("the page has changed the biz type: %v", got)
			}
		})
	}
}
