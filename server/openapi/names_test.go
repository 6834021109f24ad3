package openapi

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/access"
)

// schemaOfNames is the part of a schema that the test reads.
type schemaOfNames struct {
	Ref        string `json:"$ref"`
	Pattern    string
	Items      *schemaOfNames
	Properties map[string]schemaOfNames
}

// TestNamesOfTokens checks that names of tokens and scopes have a pattern everywhere, and that the
// pattern is the rule of the code.
func TestNamesOfTokens(t *testing.T) {
	var d struct {
		Components struct {
			Schemas    map[string]schemaOfNames
			Parameters map[string]struct{ Schema schemaOfNames }
		}
	}
	must.Do(t, json.Unmarshal(mustLoad(t).JSON, &d))
	const name = "#/components/schemas/TokenName"
	for _, schema := range []string{"Token", "TokenWithSecret", "TokenRequest"} {
		must.Equal(t, d.Components.Schemas[schema].Properties["name"].Ref, name, "the name in %s refers to", schema)
	}
	must.Equal(t, d.Components.Parameters["TokenName"].Schema.Ref, name, "the name in a path refers to")
	agree := func(kind, pattern string, good func(string) error, texts ...string) {
		matches := regexp.MustCompile(pattern)
		for _, text := range texts {
			if documented, err := matches.MatchString(text), good(text); documented != (err == nil) {
				t.Errorf("the %s %q is %t in the document, and in the code: %v", kind, text, documented, err)
			}
		}
	}
	long := strings.Repeat("a", 64)
	agree("name", d.Components.Schemas["TokenName"].Pattern, seqd.CheckName, "", "a", "shop", "Till-7", "a.b_c", "7", "-a", "a b", "é", "a/b", long, long+"a")
	agree("scope", d.Components.Schemas["Scopes"].Items.Pattern, access.CheckScope,
		"", "read", "admin", "issue:", "issue:*", "issue:order*", "issue:*-7", "issue:7", "issue:a b", "issue:order", "issue:"+long, "issue:"+long+"a", "lease:shop", "lease:*", "lease:eu.*", "lease:", "lease:a/b", "lease:7", "lease", "lease:"+long, "lease:"+long+"a", "readx", "xread", "write", "issue")
}

// TestOneThingHasOneName checks that names of biz types and times are called so. Which other names
// there are TestWords of internal/docstest says.
func TestOneThingHasOneName(t *testing.T) {
	var d struct {
		Components struct{ Schemas map[string]schemaOfNames }
	}
	must.Do(t, json.Unmarshal(mustLoad(t).JSON, &d))
	times := regexp.MustCompile(`^(at|until|since|expires|[a-z]+At)$`)
	for schema, s := range d.Components.Schemas {
		for name, p := range s.Properties {
			if strings.HasSuffix(p.Ref, "/BizTypeName") && name != "bizType" && !(name == "name" && (schema == "BizType" || schema == "Definition")) {
				t.Errorf("%s calls a biz type %s", schema, name)
			}
			if strings.HasSuffix(p.Ref, "/Time") && !times.MatchString(name) {
				t.Errorf("%s calls a time %s", schema, name)
			}
		}
	}
}
