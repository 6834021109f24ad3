package console_test

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/console"
)

// sources returns the files of the page by their names.
func sources(t *testing.T) map[string]string {
	t.Helper()
	list := must.Get(fs.ReadDir(console.Files, "web"))(t)
	files := make(map[string]string)
	for _, entry := range list {
		text, err := fs.ReadFile(console.Files, path.Join("web", entry.Name()))
		if err != nil {
			t.Fatal(err) // a folder has no place there
		}
		files[entry.Name()] = string(text)
	}
	return files
}

// forbidden is what no file of a kind may contain, and why.
var forbidden = map[string]map[string]string{
	"": {
		`(?i)\b(https?|wss?|ftp):(?://)?[^/]*`:     "a page that needs no other host works everywhere",
		`["'(\x60=]\s*/(console|docs|openapi)\b`:   "a proxy may serve the page below any path",
		`["'(]//\w`:                                "a page that needs no other host works everywhere",
		`(?i)["'\x60(=]\s*(javascript|data|blob):`: "the policy forbids it",
	},
	".js": {
		`\b(inner|outer)HTML\b|\binsertAdjacentHTML\b|\bsetHTML(Unsafe)?\b|\bsrcdoc\b`:        "text must never become HTML",
		`\bdocument\s*\.\s*write(ln)?\b|\bcreateContextualFragment\b|\bDOMParser\b`:           "text must never become HTML",
		`\beval\b|\bnew\s+Function\b|\bFunction\s*\(|\bset(Timeout|Interval)\s*\(\s*["'\x60]`: "text must never become a script",
		`\b(local|session)Storage\b|\bindexedDB\b|\bcaches\b|\bserviceWorker\b`:               "nothing is kept in the browser",
		`\blocation\s*\.\s*(origin|pathname)\b`:                                               "a proxy may serve the page below any path",
		`\.\s*cookie\b`:                                                                       "scripts cannot read the session and need not",
		`setAttribute(NS)?\s*\([^)]*["'\x60](style|on\w+)["'\x60]`:                            "the policy forbids inline styles and handlers",
		`\bpostMessage\b|\bwindow\s*\.\s*open\b`:                                              "the page talks to nobody but its node",
		`\bimport\s*\(\s*[^"')]`:                                                              "what is imported must be known",
	},
	".html": {
		`(?i)<style|\sstyle\s*=`:                 "the policy forbids inline styles",
		`(?i)\son\w+\s*=`:                        "the policy forbids inline handlers",
		`(?i)<script(\s[^>]*)?>\s*[^<\s]`:        "the policy forbids inline scripts",
		`(?i)<(iframe|object|embed|base|form)\b`: "the policy forbids it",
		`(?i)<meta[^>]*http-equiv`:               "headers say what there is to say",
		`(?i)(src|href)\s*=\s*["']?console/[^{]`: "another version has other files",
	},
	".css": {
		`(?i)@import|expression\s*\(`: "a style is one file",
	},
	".svg": {
		`(?i)<script|\son\w+\s*=|<foreignObject|<style|\sstyle\s*=`: "an image has no scripts and no inline styles",
	},
}

// namespaces are names that look like addresses, which nobody asks.
var namespaces = strings.NewReplacer("http://www.w3.org/2000/svg", "", "http://www.w3.org/1999/xlink", "")

func TestSourcesOfThePage(t *testing.T) {
	for name, text := range sources(t) {
		text = namespaces.Replace(text)
		for _, kind := range []string{"", path.Ext(name)} {
			for pattern, why := range forbidden[kind] {
				for _, at := range regexp.MustCompile(pattern).FindAllStringIndex(text, -1) {
					t.Errorf("%s:%d: %q: %s", name, 1+strings.Count(text[:at[0]], "\n"), text[at[0]:at[1]], why)
				}
			}
		}
	}
}

// The rules above find what they are meant to find.
func TestForbidden(t *testing.T) {
	for kind, examples := range map[string][]string{
		"": {"https://cdn.example/x.js", `import "//cdn.example/x.js"`, "url(data:image/png;base64,)", `"javascript:alert(1)"`, "WSS://x", "fetch(`/console/api`)", `<a href="/docs">`},
		".js": {
			"location.origin + x", "x.innerHTML = y", "x.outerHTML", "document.write(x)", "document . writeln(x)", "x.insertAdjacentHTML('a', b)", "eval(x)", "new Function(x)",
			"setTimeout('x', 1)", "localStorage.x", "sessionStorage", "document.cookie", `e.setAttribute("style", x)`, `e.setAttribute('onclick', x)`,
			"import(name)", "new DOMParser()", "parent.postMessage(x)", "e.srcdoc = x",
		},
		".html": {
			"<style>", `<p style="x">`, `<p onclick="x">`, "<script>x</script>", `<script type="module"> x`, "<iframe>", "<base href=x>",
			`<script src="console/app.js">`, `<meta http-equiv="refresh">`,
		},
		".css": {"@import 'x'"},
		".svg": {"<script/>", `<g onload="x">`},
	} {
		for _, example := range examples {
			found := false
			for pattern := range forbidden[kind] {
				found = found || regexp.MustCompile(pattern).MatchString(example)
			}
			if !found {
				t.Errorf("%s in a file %q is not found", example, kind)
			}
		}
	}
}

// The whole page is small, as it is sent without compression.
func TestSizeOfThePage(t *testing.T) {
	const most = 238_592
	sum := 0
	for _, text := range sources(t) {
		sum += len(text)
	}
	if sum > most {
		t.Errorf("the files of the page have %d bytes, want at most %d", sum, most)
	}
}

// Every import names a file that there is, and every script is imported by the page.
func TestModules(t *testing.T) {
	files := sources(t)
	imports := regexp.MustCompile(`(?m)\bfrom\s+"([^"]+)"|^import\s+"([^"]+)"|\bimport\(\s*"([^"]+)"`)
	links := regexp.MustCompile(`(?:src|href)="console/\{\{\.Build\}\}/([^"]+)"`)
	used := make(map[string]bool)
	var follow func(name string)
	follow = func(name string) {
		if used[name] {
			return
		}
		used[name] = true
		text, there := files[name]
		if !there {
			t.Errorf("there is no file %s", name)
		}
		for _, found := range imports.FindAllStringSubmatch(text, -1) {
			target, relative := strings.CutPrefix(found[1]+found[2]+found[3], "./")
			if !relative {
				t.Errorf("%s imports %s, which is not beside it", name, found[0])
				continue
			}
			follow(target)
		}
	}
	for _, found := range links.FindAllStringSubmatch(files["index.html"], -1) {
		follow(found[1])
	}
	for name := range files {
		if name != "index.html" && !used[name] {
			t.Errorf("%s is not used", name)
		}
	}
}
