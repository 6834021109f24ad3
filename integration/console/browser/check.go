package browser

import (
	"fmt"
	"os"
	"strings"

	"github.com/chromedp/chromedp"
)

// AxeEnv is the environment variable with the path of axe.min.js, of the package axe-core.
// scripts/test installs it and sets this.
const AxeEnv = "SEQD_TEST_AXE"

// finding is a rule of axe that is broken, and where.
type finding struct {
	ID     string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		Target         []any  `json:"target"`
		HTML           string `json:"html"`
		FailureSummary string `json:"failureSummary"`
	} `json:"nodes"`
}

// runAxe returns what is serious or worse.
const runAxe = `axe.run(document, {resultTypes: ["violations"], elementRef: false}).then((r) =>
	r.violations.filter((v) => v.impact === "serious" || v.impact === "critical"))`

// Axe fails the test if axe finds something serious or critical in what is shown, in light and in
// dark colours. The page is light afterwards.
func (p *Page) Axe(what string) {
	p.t.Helper()
	var loaded bool
	p.Eval("'axe' in window", &loaded)
	if !loaded {
		p.loadAxe()
	}
	for _, dark := range []bool{true, false} {
		p.Dark(dark)
		var found []finding
		p.Eval(runAxe, &found)
		for _, f := range found {
			for _, n := range f.Nodes {
				p.t.Errorf("axe on %s (dark: %t): %s, %s: %s\n%v %s\n%s", what, dark, f.ID, f.Impact, f.Help, n.Target, shortened(n.HTML), n.FailureSummary)
			}
		}
	}
}

func (p *Page) loadAxe() {
	p.t.Helper()
	file := os.Getenv(AxeEnv)
	if file == "" {
		p.t.Fatalf("%s is not set: it is the path of axe.min.js. scripts/test installs it; or: npm install axe-core@4.14.1, and set it to node_modules/axe-core/axe.min.js", AxeEnv)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatalf("%s: %v", AxeEnv, err)
	}
	p.run("load axe", chromedp.Evaluate(string(source)+"\n;0", nil))
}

// overflowing lists what is wider than the window.
const overflowing = `(() => {
	const root = document.documentElement;
	if (root.scrollWidth <= innerWidth) return [];
	return [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5)
		.slice(0, 8).map((e) => e.outerHTML.slice(0, 120));
})()`

// FitsWidth fails the test if the page can be scrolled to the side.
func (p *Page) FitsWidth(what string) {
	p.t.Helper()
	var wide []string
	p.Eval(overflowing, &wide)
	if len(wide) > 0 {
		p.t.Errorf("%s is wider than the window: %s", what, strings.Join(wide, "\n"))
	}
}

// Looks keeps screenshots of the page in light, dark and narrow, and fails the test if the page is
// wider than a narrow window, that of a tablet, or a wide one. The page has its usual size
// afterwards, and is light.
func (p *Page) Looks(name string) {
	p.t.Helper()
	p.Dark(true)
	p.Shot(name + "-dark")
	p.Dark(false)
	p.Shot(name + "-light")
	p.Resize(Narrow)
	p.Shot(name + "-narrow")
	p.FitsWidth(name)
	for _, width := range []int64{800, 1400} {
		p.Resize(width)
		p.FitsWidth(fmt.Sprintf("%s at width %d", name, width))
	}
	p.Resize(Width)
}

// stop is where the focus is after Tab: whether it was there before, and why one does not see it.
type stop struct {
	End    bool   `json:"end"`
	Inside bool   `json:"inside"` // another part of the same field, such as the year of a date
	Hidden string `json:"hidden"`
}

// nextStop notes that the focus was here.
const nextStop = `(() => {
	const e = document.activeElement, s = getComputedStyle(e), r = e.getBoundingClientRect();
	if (e === globalThis.lastStop) return {inside: true};
	if (e === document.body || e.dataset.toured) {
		document.querySelectorAll("[data-toured]").forEach((e) => delete e.dataset.toured);
		delete globalThis.lastStop;
		return {end: true};
	}
	e.dataset.toured = "yes";
	globalThis.lastStop = e;
	const hidden = r.width < 2 || r.height < 2 ? "it has no size"
		: r.bottom < 0 || r.top > innerHeight || r.right < 0 || r.left > innerWidth ? "it is outside the window"
		: s.outlineStyle === "none" && s.boxShadow === "none" ? "it has neither an outline nor a shadow"
		: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) < 1 ? "its outline has no width" : "";
	return {hidden};
})()`

// focusStart puts the focus before everything else on the page or in its dialog.
const focusStart = `(() => {
	const start = [...document.querySelectorAll("dialog:modal")].at(-1) ?? document.body;
	start.tabIndex = -1;
	start.focus();
	start.removeAttribute("tabindex");
})()`

// TabTo presses Tab until an element has the focus.
func (p *Page) TabTo(role, name string) {
	p.t.Helper()
	const most = 300
	var seen []string
	for range most {
		e := p.Focused()
		if e.Role == role && fits(name, e.Name) {
			return
		}
		seen = append(seen, e.Role+" "+e.Name)
		p.Press("Tab")
	}
	p.fatalf("Tab does not reach %s %q, but %q", role, name, seen)
}

// Tour presses Tab until the focus leaves the page or comes back to where it began, and returns what
// had the focus, as "role name". It fails the test if one cannot see where the focus is.
func (p *Page) Tour() []string {
	p.t.Helper()
	const most = 400
	var stops []string
	p.Eval(focusStart, nil)
	for range most {
		p.Press("Tab")
		var at stop
		p.Eval(nextStop, &at)
		if at.End {
			return stops
		}
		if at.Inside {
			continue
		}
		e := p.Focused()
		stops = append(stops, strings.TrimSpace(e.Role+" "+e.Name))
		if at.Hidden != "" {
			p.t.Errorf("one cannot see the focus on %s %q: %s", e.Role, e.Name, at.Hidden)
		}
	}
	p.fatalf("Tab does not come to an end: %s", fmt.Sprint(stops))
	return nil
}
