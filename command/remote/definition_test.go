package remote

import (
	"bytes"
	"encoding/json"
	"testing"
)

// A definition that is accepted becomes one JSON object. Written as YAML, it is read as the same.
func FuzzDefinition(f *testing.F) {
	for _, text := range []string{
		`{"start":1,"plugins":[{"name":"format"}]}`, "start: 1\nstep: 5", "a: [1, .5, ~, yes, 2026-01-02, 0x1F, '5']", "{a: {b: c}}",
		"a: &x 1\nb: *x", "a: !!binary aGk=", "a: 1e999", "? a\n: b", "a: |\n  x\n  y\n", "<<: {a: 1}", "1: 2", "a: \"\\u2028\"",
		"a: \"\\u007f\\u0080\\u0085\\u00a0\\ufeff\\uffff\"",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		first, err := toJSON(text)
		if err != nil {
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(first, &object); err != nil {
			t.Fatalf("%q became %q: %v", text, first, err)
		}
		if json.Valid(text) {
			return // it is sent as it is, also with what YAML does not have
		}
		shown, err := toYAML(first)
		if err != nil {
			t.Fatalf("%q: %v", first, err)
		}
		second, err := toJSON([]byte(shown))
		if err != nil {
			t.Fatalf("%q was shown as %q: %v", first, shown, err)
		}
		if !same(first, second) {
			t.Errorf("%q was shown as %q, which is %q", first, shown, second)
		}
	})
}

// same compares JSON, whole numbers by their digits.
func same(a, b []byte) bool {
	plain := func(text []byte) string {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var v any
		_ = decoder.Decode(&v) // it was decoded before
		text, _ = json.Marshal(v)
		return string(text)
	}
	return plain(a) == plain(b)
}
