package httpapi_test

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/access"
	"github.com/seqd/seqd/server/httpapi"
	"github.com/seqd/seqd/server/metrics"
)

// methods are the methods that a path of the document may have. Its other keys are not methods.
var methods = []string{"get", "head", "post", "put", "patch", "delete", "options", "trace"}

// unnamed removes the names of a path's parameters: /seq/{} for /seq/{bizType}.
func unnamed(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "{}"
		}
	}
	return strings.Join(parts, "/")
}

// covers reports whether route answers what described describes. described may have a fixed name
// where route has a parameter.
func covers(route, described string) bool {
	a, b := strings.Split(route, "/"), strings.Split(described, "/")
	return slices.EqualFunc(a, b, func(open, named string) bool { return open == named || open == "{}" })
}

// TestDocumentHasEveryRoute checks that the API and the document have the same routes.
func TestDocumentHasEveryRoute(t *testing.T) {
	api := newStarting(t, func(o *options) {
		o.Metrics = metrics.New(metrics.Options{})
		o.Tokens = access.New(access.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
		o.Reloader = struct{ httpapi.Reloader }{}
	})
	var document struct {
		Paths map[string]map[string]any
	}
	must.Do(t, json.Unmarshal(do(t, api, "GET", "/openapi.json").Body.Bytes(), &document))
	var described, served []string
	for path, item := range document.Paths {
		for method := range item {
			if slices.Contains(methods, method) {
				described = append(described, strings.ToUpper(method)+" "+unnamed(path))
			}
		}
	}
	for _, r := range api.Routes() {
		served = append(served, r.Method+" "+unnamed(r.Path))
	}
	for _, route := range served {
		if !slices.ContainsFunc(described, func(d string) bool { return d == route }) {
			t.Errorf("%s is not in the document", route)
		}
	}
	for _, d := range described {
		if !slices.ContainsFunc(served, func(route string) bool { return covers(route, d) }) {
			t.Errorf("%s is in the document and is not served", d)
		}
	}
}

func TestDocs(t *testing.T) {
	api := newStarting(t) // these routes need no issuer
	for _, tt := range []struct{ path, contentType, begin string }{
		{"/openapi.json", jsonType, `{"openapi":"3.1.0","info":{"title":"seqd",`},
		{"/docs", "text/html; charset=utf-8", "<!doctype html>"},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			w := do(t, api, method, tt.path)
			h := w.Header()
			if w.Code != 200 || h.Get("Content-Type") != tt.contentType || !strings.HasPrefix(w.Body.String(), tt.begin) {
				t.Errorf("%s %s: %d %s %.100q", method, tt.path, w.Code, h.Get("Content-Type"), w.Body)
			}
			if h.Get("Cache-Control") != "no-cache" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Request-Id") == "" {
				t.Errorf("%s %s: headers %v", method, tt.path, h)
			}
		}
		wantProblem(t, do(t, api, "POST", tt.path), 405, "method_not_allowed")
	}
	if policy := do(t, api, "GET", "/docs").Header().Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") {
		t.Errorf("the policy is %q", policy)
	}
}
