package browser

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestMain(m *testing.M) {
	code := m.Run()
	End()
	os.Exit(code)
}

// show opens a page with this body.
func show(t *testing.T, body string) *Page {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'; require-trusted-types-for 'script'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><html lang=en><title>a page</title><main>"+body+"</main></html>")
	}))
	t.Cleanup(server.Close)
	p := Open(t, server.URL)
	p.Go("/")
	return p
}

// Whatever a page must not do is a fault.
func TestFaults(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"error":            {`<script>console.error("bad", 7)</script>`, "console.error: bad 7"},
		"warning":          {`<script>console.warn("careful")</script>`, "console.warning: careful"},
		"exception":        {`<script>throw new Error("broken")</script>`, "broken"},
		"rejected promise": {`<script>Promise.reject(new Error("refused"))</script>`, "refused"},
		"policy":           {`<img src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">`, "Content Security Policy"},
		"trusted types":    {`<script>document.body.innerHTML = "x"</script>`, "TrustedHTML"},
		"dialog":           {`<script>alert("hello")</script>`, `dialog: alert("hello")`},
		"another origin":   {`<a href="http://127.0.0.1:9/x">away</a><script>document.querySelector("a").click()</script>`, "request to another origin: http://127.0.0.1:9/x"},
		"not found":        {`<script>fetch("http://127.0.0.1:9/")</script>`, "127.0.0.1:9"},
	} {
		t.Run(name, func(t *testing.T) {
			p := show(t, test.body)
			p.AwaitThat("a fault", func() bool {
				return slices.ContainsFunc(p.Faults(), func(f string) bool { return strings.Contains(f, test.want) })
			})
			p.Expect("")
			if left := p.Faults(); len(left) > 0 {
				t.Errorf("unexpected although everything is expected: %q", left)
			}
		})
	}
}

// A person finds things by what they are called, and uses them.
func TestActs(t *testing.T) {
	p := show(t, `<h1>Fruit</h1><label>Name <input id=name></label><label><input type=checkbox> Ripe</label>
		<label for=kind>Kind</label><select id=kind><option>apple<option>pear</select>
		<button onclick="out.textContent = document.getElementById('name').value + ' ' + kind.value">Save</button>
		<button disabled>Delete</button><p id=out></p>
		<dialog aria-labelledby=d><h2 id=d>Sure?</h2><button onclick="this.closest('dialog').close()">Save</button></dialog>
		<button onclick="document.querySelector('dialog').showModal()">Ask</button>`)
	p.Find("heading", "Fruit")
	p.Type("Name", "old")
	p.Type("Name", "new")
	p.Choose("Kind", "pear")
	p.Click("checkbox", "Ripe")
	p.Click("button", "S*e")
	p.See("new pear")
	must.Equal(t, p.Value("Ripe"), "true", "Ripe")
	must.Equal(t, p.Find("button", "Delete").Properties["disabled"], "true", "Delete is disabled")
	if got := p.Names("button"); !slices.Equal(got, []string{"Save", "Delete", "Ask"}) {
		t.Errorf("the buttons are %q", got)
	}
	p.Click("button", "Ask")
	p.In("dialog", "Sure?").Click("button", "Save")
	p.AwaitNone("dialog", "Sure?")
	want := []string{"textbox Name", "checkbox Ripe", "combobox Kind", "button Save", "button Ask"}
	if got := p.Tour(); !slices.Equal(got, want) {
		t.Errorf("Tab reaches %q, want %q", got, want)
	}
}
