package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/server/admin"
)

// definitions is a catalogue in memory that accepts any JSON object as a definition.
type definitions struct {
	mu   sync.Mutex // guards what follows
	list map[string]admin.BizType
}

var _ admin.Catalogue = (*definitions)(nil)

func newDefinitions() *definitions {
	return &definitions{list: map[string]admin.BizType{"order": {Name: "order", Version: 1, Enabled: true, Definition: json.RawMessage("{}")}, "fixed": {Name: "fixed", Definition: json.RawMessage("{}")}}}
}

func (d *definitions) List(context.Context, admin.Listing) ([]admin.BizType, string, error) {
	return []admin.BizType{{Name: "order", Version: 1, Definition: json.RawMessage("{}")}}, "order", nil
}

func (d *definitions) Get(_ context.Context, name string) (admin.BizType, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, ok := d.list[name]
	if !ok {
		return b, seqd.Errorf(seqd.CodeUnknownBizType, "no biz type is called %q", name)
	}
	return b, nil
}

func (d *definitions) Put(ctx context.Context, name string, definition []byte, c admin.Change) (b admin.BizType, created bool, err error) {
	before, err := d.Get(ctx, name)
	if wrong := c.Check(before.Version); wrong != nil {
		return before, false, wrong
	}
	var object map[string]any
	if json.Unmarshal(definition, &object) != nil || object == nil {
		return before, false, &seqd.Error{Code: seqd.CodeInvalidDefinition, Detail: "it is none", Problems: []seqd.Problem{{Key: "x", Text: fmt.Sprintf("%.100q", definition)}}}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b = admin.BizType{Name: name, Version: before.Version + 1, Enabled: true, Definition: json.RawMessage("{}"), Warnings: []string{"it is not looked at"}}
	if !c.DryRun && len(d.list) < 100 {
		d.list[name] = b
	}
	return b, err != nil, nil
}

func (d *definitions) Patch(ctx context.Context, name string, patch []byte, c admin.Change) (admin.BizType, error) {
	if _, err := d.Get(ctx, name); err != nil {
		return admin.BizType{}, err
	}
	b, _, err := d.Put(ctx, name, patch, c)
	return b, err
}

func (d *definitions) Enable(ctx context.Context, name string, _ bool, c admin.Change) (admin.BizType, error) {
	return d.Patch(ctx, name, []byte("{}"), c)
}

func (d *definitions) Delete(ctx context.Context, name string, c admin.Change) (admin.BizType, error) {
	return d.Patch(ctx, name, []byte("{}"), c)
}

// alone is the nodes of a cluster of one.
type alone struct{}

func (alone) Nodes(context.Context) ([]admin.Node, bool) {
	return []admin.Node{{ID: "x", Self: true}}, true
}

// TestBizTypes checks what becomes of requests about the biz types order, of version 1, and fixed,
// which only the configuration defines, and about new, which is none.
func TestBizTypes(t *testing.T) {
	for _, tt := range []struct {
		request, headers string
		status           int
		answer           string // the ETag, or the code of an error
	}{
		{"GET order", "", 200, `"1"`},
		{"GET fixed", "", 200, ""},
		{"GET new", "", 404, "unknown_biz_type"},
		{"GET order?dryRun=true", "", 400, "invalid_request"},
		{"GET a,b", "", 400, "invalid_biz_type"},
		{"", "", 200, ""},
		{"?limit=0", "", 400, "invalid_request"},
		{"?limit=1&after=a&x=y", "", 400, "invalid_request"},
		{"PUT order", "", 200, `"2"`},
		{"PUT new", "", 201, `"1"`},
		{"PUT new?dryRun=true", "", 200, `"1"`},
		{"PUT new?dryRun=false&force=true", "", 201, `"1"`},
		{"PUT new?dryRun=1", "", 400, "invalid_request"},
		{"PUT new?dryrun=true", "", 400, "invalid_request"},
		{"PUT a,b", "", 400, "invalid_biz_type"},
		{"PUT order", `If-Match: "1"`, 200, `"2"`},
		{"PUT order", `If-Match: "2"`, 412, "precondition_failed"},
		{"PUT order", `If-Match: 1`, 400, "invalid_request"},
		{"PUT new", "If-Match: *", 412, "precondition_failed"},
		{"PUT new", "If-None-Match: *", 201, `"1"`},
		{"PUT order", "If-None-Match: *", 412, "precondition_failed"},
		{"PUT new", `If-None-Match: "1"`, 400, "invalid_request"},
		{"PUT new", "If-None-Match: *\r\nIf-None-Match: *", 400, "invalid_request"},
		{"PUT new", "If-None-Match: *\r\nIf-Match: *", 400, "invalid_request"},
		{"PATCH order", "", 200, `"2"`},
		{"PATCH order", `If-Match: "2"`, 412, "precondition_failed"},
		{"PATCH new", "", 404, "unknown_biz_type"},
		{"POST order/enable", "", 200, `"2"`},
		{"POST order/disable", `If-Match: "1"`, 200, `"2"`},
		{"POST order/disable", `If-Match: "2"`, 412, "precondition_failed"},
		{"POST order/enable?dryRun=true", "", 400, "invalid_request"},
		{"DELETE order", "", 204, ""},
		{"DELETE order", `If-Match: "2"`, 412, "precondition_failed"},
		{"DELETE new", "", 404, "unknown_biz_type"},
		{"DELETE order?forced=true", "", 400, "invalid_request"},
	} {
		api := newAPI(t)
		method, target, named := strings.Cut(tt.request, " ")
		if target = "/" + target; !named { // the list
			method, target = "GET", tt.request
		}
		headers := []string{"X-Request-Id: x"}
		if tt.headers != "" {
			headers = append(headers, tt.headers)
		}
		body := ""
		if method == "PUT" || method == "PATCH" {
			body = "{}"
		}
		w := sendJSON(t, api, method, "/biz-types"+target, body, headers...)
		switch {
		case w.Code != tt.status || w.Header().Get("Cache-Control") != "no-store":
			t.Errorf("%s, %s: %d %s, headers %v", tt.request, tt.headers, w.Code, w.Body, w.Header())
		case tt.status >= 400:
			wantProblem(t, w, tt.status, seqd.Code(tt.answer))
		case w.Header().Get("Etag") != tt.answer:
			t.Errorf("%s, %s: ETag %s, want %s", tt.request, tt.headers, w.Header().Get("Etag"), tt.answer)
		}
	}
	api := newAPI(t)
	w := sendJSON(t, api, "PUT", "/biz-types/order", "[]")
	if wantProblem(t, w, 400, "invalid_definition"); !strings.Contains(w.Body.String(), `"problems":[{"key":"x","text":"\"[]\""}]`) {
		t.Errorf("the answer does not say what is wrong: %s", w.Body)
	}
}
