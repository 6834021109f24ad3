package console

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/seqd/seqd/integration/console/browser"
	"github.com/seqd/seqd/internal/testing/must"
)

// consoleFolder has the console and its tests.
const consoleFolder = "../../server/console"

// policy is that of the console.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// runModule runs the functions of a module of tests, and returns what failed, by name.
const runModule = `(async () => {
	const {tests} = await import(%q);
	const failures = {};
	for (const [name, test] of Object.entries(tests)) {
		failures[name] = "";
		try { await test(); } catch (error) { failures[name] = String(error?.stack ?? error); }
	}
	return failures;
})()`

// The modules of the console, by the tests beside them, in a page with the console's policy.
func TestModules(t *testing.T) {
	modules := http.NewServeMux()
	modules.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>tests</title><main id="main"></main></html>`)
	})
	modules.HandleFunc("GET /favicon.ico", func(http.ResponseWriter, *http.Request) {})
	for _, folder := range []string{"web", "tests"} {
		modules.Handle("GET /"+folder+"/", http.FileServer(http.Dir(consoleFolder)))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		modules.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	files, err := filepath.Glob(consoleFolder + "/tests/*.test.js")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tests: %v", err)
	}
	for _, file := range files {
		file = filepath.Base(file)
		t.Run(file, func(t *testing.T) {
			p := browser.Open(t, server.URL)
			p.Go("/")
			var failures map[string]string
			p.Eval(fmt.Sprintf(runModule, "/tests/"+file), &failures)
			if len(failures) == 0 {
				t.Error("it has no tests")
			}
			for name, failure := range failures {
				t.Run(name, func(t *testing.T) {
					must.Equal(t, failure, "")
				})
			}
		})
	}
}
