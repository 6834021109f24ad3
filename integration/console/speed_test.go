package console

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seqd/seqd/integration/console/browser"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// moment notes when the page first shows the figures of all nodes, in milliseconds after the
// navigation began.
const moment = `const seen = location.pathname === "/console" && setInterval(() => {
	if (document.body?.innerText.includes("All 3 nodes issue numbers")) { clearInterval(seen); globalThis.figuresAt = performance.now(); }
}, 2);`

// The test prints how soon the overview is there with 1,000 biz types and three nodes, and what an
// open console costs. It asserts nothing about time: see docs/PERFORMANCE.md for the figures of a
// quiet machine.
func TestSpeed(t *testing.T) {
	longtest.Only(t)
	definitions := make([]map[string]any, 1000)
	for i := range definitions {
		definitions[i] = map[string]any{"name": fmt.Sprintf("shop-%03d", i), "step": 100}
	}
	text := must.Get(json.Marshal(definitions))(t)
	w := threeOnPostgres(t, "SEQD_BIZTYPES="+string(text))
	for i := range definitions {
		w.take(fmt.Sprintf("shop-%03d", i), 3)
	}
	p := browser.Open(t, w.url)
	p.BeforePages(moment)
	for _, cached := range []bool{false, true} {
		p.Cache(cached)
		var paints, figures []float64
		for range 10 {
			p.Go("/console#/overview")
			p.Reload()
			p.Await("the figures", `globalThis.figuresAt > 0 && performance.getEntriesByName("first-contentful-paint").length > 0`)
			var paint, shown float64
			p.Eval(`performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1`, &paint)
			p.Eval("figuresAt", &shown)
			paints, figures = append(paints, paint), append(figures, shown)
		}
		t.Logf("the overview, with cached files %t: first paint %s, figures %s", cached, spread(paints), spread(figures))
	}
	const minute = time.Minute
	open, browsers := w.cost(p, minute)
	p.Eval(`location.href = "about:blank"`, nil)
	p.Await("the console is closed", `location.href === "about:blank"`)
	closed, without := w.cost(p, minute)
	t.Logf("processor time in %s: three nodes %s with one open console, %s without: %.2f %% of a core",
		minute, open, closed, 100*(open-closed).Seconds()/minute.Seconds())
	t.Logf("processor time of the browser in %s: with the overview %v, with an empty page %v", minute, browsers, without)
}

// cost returns the processor time of all nodes, and of the browser's processes by kind, in a while.
func (w *world) cost(p *browser.Page, while time.Duration) (time.Duration, map[string]time.Duration) {
	nodes := func() (sum time.Duration) {
		for _, n := range w.nodes {
			sum += n.Node.CPU()
		}
		return sum
	}
	before, kinds := nodes(), p.CPU()
	time.Sleep(while)
	after, later := nodes(), p.CPU()
	for kind := range later {
		later[kind] -= kinds[kind]
	}
	return after - before, later
}

// spread describes times in milliseconds.
func spread(times []float64) string {
	slices.Sort(times)
	return fmt.Sprintf("median %.0f ms, %.0f to %.0f ms", times[len(times)/2], times[0], times[len(times)-1])
}
