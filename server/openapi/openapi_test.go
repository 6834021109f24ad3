package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

func mustLoad(t *testing.T) *Document {
	t.Helper()
	return must.Get(Load())(t)
}

// TestJSON checks that the JSON equals the YAML.
func TestJSON(t *testing.T) {
	var fromJSON, fromYAML any
	must.Do(t, json.Unmarshal(mustLoad(t).JSON, &fromJSON))
	must.Do(t, yaml.Unmarshal(source, &fromYAML))
	encoded := must.Get(json.Marshal(fromYAML))(t)
	var want any
	must.Do(t, json.Unmarshal(encoded, &want))
	if !reflect.DeepEqual(fromJSON, want) {
		t.Error("the JSON says something else than the YAML")
	}
}

func TestToJSON(t *testing.T) {
	for text, want := range map[string]string{
		"{b: 1, a: [x, 2.5, true, null, ~], \"n\": \"7\"}": `{"b":1,"a":["x",2.5,true,null,null],"n":"7"}`,
		"a: 2026-11-21\nb: 2026-11-21T12:00:00Z\n":         `{"a":"2026-11-21","b":"2026-11-21T12:00:00Z"}`,
		"a: <b>&\"\nb: {}\nc: []\n1m: x\n":                 `{"a":"<b>&\"","b":{},"c":[],"1m":"x"}`,
	} {
		var root yaml.Node
		must.Do(t, yaml.Unmarshal([]byte(text), &root))
		must.Equal(t, string(must.Get(toJSON(&root))(t)), want, "%q becomes", text)
	}
	for _, text := range []string{"a: 1\na: 2\n", "a: &x 1\nb: *x\n"} {
		var root yaml.Node
		must.Do(t, yaml.Unmarshal([]byte(text), &root))
		if got, err := toJSON(&root); err == nil {
			t.Errorf("%q becomes %s, want an error", text, got)
		}
	}
}

// TestPage checks that the page is well-formed, loads nothing and runs no script.
func TestPage(t *testing.T) {
	d := mustLoad(t)
	page := string(d.Page)
	for _, banned := range []string{"<script", "javascript:", "src=", "@import", `url\(`, `[="'(]\s*https?://`, `style="`, `<[^>]*\son[a-z]+=`} {
		must.Equal(t, regexp.MustCompile(banned).FindString(page), "", "the page")
	}
	_, rest, _ := strings.Cut(page, "<style>")
	css, _, found := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(css))
	if hash := base64.StdEncoding.EncodeToString(sum[:]); !found || !strings.Contains(d.Policy, "'sha256-"+hash+"'") {
		t.Errorf("the policy %q does not allow the style, whose hash is %s", d.Policy, hash)
	}
	ids, links := make(map[string]bool), regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1)
	for _, m := range regexp.MustCompile(`id="([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("two places are called %s", m[1])
		}
		ids[m[1]] = true
	}
	for _, link := range links {
		if !ids[link[1]] {
			t.Errorf("the link to %s leads nowhere", link[1])
		}
	}
	wellFormed(t, d.Page)
}

// wellFormed checks that every element that is opened is closed.
func wellFormed(t *testing.T, page []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(page))
	decoder.Entity = xml.HTMLEntity
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("the page: %v", err)
		}
	}
}

// operations returns what a path offers.
func operations(i item) []*operation {
	return slices.DeleteFunc([]*operation{i.Get, i.Post, i.Put, i.Patch, i.Delete}, func(op *operation) bool { return op == nil })
}

// TestPageIsComplete checks that every route, parameter, error code and schema is on the page.
func TestPageIsComplete(t *testing.T) {
	page := string(mustLoad(t).Page)
	var d description
	must.Do(t, yaml.Unmarshal(source, &d))
	found := 0
	for _, path := range d.Paths {
		for _, op := range operations(path.Value) {
			found++
			if !strings.Contains(page, `<article id="`+op.OperationID+`">`) || op.Curl == "" || op.Summary == "" {
				t.Errorf("%s is missing, or has no example or summary", op.OperationID)
			}
		}
	}
	if found == 0 {
		t.Error("there are no operations")
	}
	for _, s := range d.Components.Schemas {
		if !strings.Contains(page, `<article id="schema-`+s.Name+`">`) {
			t.Errorf("the schema %s is missing", s.Name)
		}
	}
	for _, code := range documentedCodes(t) {
		if !strings.Contains(page, "<code>"+code+"</code>") {
			t.Errorf("the code %s is missing", code)
		}
	}
}

// TestPlainSchemas checks that generators understand the schemas. The top of openapi.yaml says what
// they do not understand.
func TestPlainSchemas(t *testing.T) {
	var document any
	must.Do(t, json.Unmarshal(mustLoad(t).JSON, &document))
	components := document.(map[string]any)["components"].(map[string]any)
	schemas := components["schemas"].(map[string]any)
	for name := range schemas {
		if _, collides := schemas["New"+name]; collides {
			t.Errorf("New%s is also the constructor of %s in generated Go", name, name)
		}
	}
	plain(t, "paths", document.(map[string]any)["paths"])
	plain(t, "components", components)
}

// plain fails for every schema in a part of the document that generators do not understand.
func plain(t *testing.T, where string, part any) {
	t.Helper()
	switch part := part.(type) {
	case []any:
		for i, item := range part {
			plain(t, where+"/"+strconv.Itoa(i), item)
		}
	case map[string]any:
		for _, key := range []string{"oneOf", "anyOf", "allOf", "not", "unevaluatedProperties"} {
			if _, found := part[key]; found {
				t.Errorf("%s has %s", where, key)
			}
		}
		properties, _ := part["properties"].(map[string]any)
		for name, property := range properties {
			if _, found := property.(map[string]any)["default"]; found {
				t.Errorf("%s/%s has a default, and so must be sent in strict TypeScript", where, name)
			}
		}
		for key, value := range part {
			plain(t, where+"/"+key, value)
		}
	}
}

// TestProblems checks that errors refer to Problem itself, that each code is used, and that answers
// have the status of their codes.
func TestProblems(t *testing.T) {
	var d description
	must.Do(t, yaml.Unmarshal(source, &d))
	// No route has the first; only /readyz shows the others.
	placed := []string{"method_not_allowed", "cursor_contested", "no_coordinator"}
	for name, r := range d.Components.Responses {
		if len(r.Content) != 1 || r.Content[0].Name != "application/problem+json" || r.Content[0].Value.Schema.Ref != "#/components/schemas/Problem" {
			t.Errorf("%s is not a Problem", name)
		}
		placed = append(placed, r.Codes...)
	}
	for _, code := range documentedCodes(t) {
		if !slices.Contains(placed, code) {
			t.Errorf("no answer has the code %s", code)
		}
	}
	for _, path := range d.Paths {
		for _, op := range operations(path.Value) {
			for _, r := range op.Responses {
				for _, code := range d.Components.Responses[strings.TrimPrefix(r.Value.Ref, "#/components/responses/")].Codes {
					if m, _ := seqd.Code(code).Meaning(); r.Name != strconv.Itoa(m.Status) {
						t.Errorf("%s: the answer %s has the code %s, whose status is %d", op.OperationID, r.Name, code, m.Status)
					}
				}
			}
		}
	}
}

func documentedCodes(t *testing.T) []string {
	t.Helper()
	var d description
	must.Do(t, yaml.Unmarshal(source, &d))
	for _, s := range d.Components.Schemas {
		if s.Name == "Code" {
			return s.Value.Enum
		}
	}
	t.Fatal("there is no schema Code")
	return nil
}
