package openapi

import (
	"encoding/json"
	"regexp"
	"slices"
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
		if got := d.Components.Schemas[schema].Properties["name"].Ref; got != name {
			t.Errorf("the name in %s refers to %q, want %s", schema, got, name)
		}
	}
	if got := d.Components.Parameters["TokenName"].Schema.Ref; got != name {
		t.Errorf("the name in a path refers to %q, want %s", got, name)
	}
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
		"", "read", "admin", "issue:", "issue:*", "issue:order*", "issue:*-7", "issue:7", "issue:a b", "issue:order", "issue:"+long, "issue:"+long+"a", "readx", "xread", "write", "issue")
}

// TestOneThingHasOneName checks that answers do not call things by the names that are not theirs.
// A definition, a token and a page of settings have the names of the configuration.
func TestOneThingHasOneName(t *testing.T) {
	var d struct {
		Components struct{ Schemas map[string]schemaOfNames }
	}
	must.Do(t, json.Unmarshal(mustLoad(t).JSON, &d))
	better := map[string]string{
		"token": "caller", "user": "caller", "by": "caller", "client": "addr", "ip": "addr", "time": "at", "timestamp": "at", "rejected": "refused",
		"seconds": "…Ms", "interval": "…Ms", "duration": "…Ms", "took": "…Ms", "p50": "p50Ms", "p99": "p99Ms", "clockOffset": "clockOffsetMs",
	}
	configured := []string{"Definition", "SettingsList", "SettingsOwner"}
	times := regexp.MustCompile(`^(at|until|since|expires|[a-z]+At)$`)
	for schema, s := range d.Components.Schemas {
		for name, p := range s.Properties {
			if want := better[name]; want != "" && !slices.Contains(configured, schema) {
				t.Errorf("%s has %s: call it %s", schema, name, want)
			}
			if strings.HasSuffix(p.Ref, "/BizTypeName") && name != "bizType" && !(name == "name" && (schema == "BizType" || schema == "Definition")) {
				t.Errorf("%s calls a biz type %s", schema, name)
			}
			if strings.HasSuffix(p.Ref, "/Time") && !times.MatchString(name) {
				t.Errorf("%s calls a time %s", schema, name)
			}
		}
	}
}
