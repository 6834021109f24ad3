package docstest

import (
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestReferences(t *testing.T) {
	c := must.Get(newChecker(os.DirFS("../..")))(t)
	for _, problem := range c.check() {
		t.Error(problem)
	}
}

// Code in documents fits into 100 columns.
func TestWidthOfCode(t *testing.T) {
	c := must.Get(newChecker(os.DirFS("../..")))(t)
	for name, text := range c.files {
		if path.Ext(name) != ".md" {
			continue
		}
		prose, number := strings.Split(withoutBlocks(text), "\n"), 0
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); prose[number] == "" && utf8.RuneCountInString(line) > 100 {
				t.Errorf("%s:%d: %d columns", name, number+1, utf8.RuneCountInString(line))
			}
			number++
		}
	}
}

// The map of the packages names every folder with product code, and no other.
func TestMap(t *testing.T) {
	c := must.Get(newChecker(os.DirFS("../..")))(t)
	for _, problem := range c.checkMap() {
		t.Error(problem)
	}
}

// Each kind of reference is reported if its target is missing, and only then.
func TestChecker(t *testing.T) {
	repo := map[string]string{
		"README.md":             "# Project\n\n## Two nodes\n\nNodes *share* a\nstore.\n",
		"docs/DESIGN.md":        "# Design\n\n## 1. House\n\n### 1.2 Rooms\n\n**U1.** A range.\n\n**U3b.** Epochs.\n",
		"docs/design/attic.md":  "# 6. Attic\n\n**S4.** Boxes.\n\nThey *stay*.\n",
		"docs/adr/0020-x.md":    "# 20. X\n",
		"server/server.go":      "package server\n\nconst RuleGuard = 1\n",
		"server/server_test.go": "package server\n\nfunc TestStart(t *testing.T) {}\n",
		"docs/API.md":           "# API\n\n## `GET` it: now\n\n## Again\n\n## Again\n",
	}
	for _, test := range []struct{ file, good, bad, want string }{
		{"a.go", "package a // DESIGN §1", "package a // DESIGN §7", "DESIGN §7"},
		{"a.go", "package a // DESIGN §1.2", "package a // DESIGN §1.3", "DESIGN §1.3"},
		{"a.go", "package a // (DESIGN §1, §1.2)", "package a // (DESIGN §1, §4)", "DESIGN §4"},
		{"a.go", "package a // DESIGN §1 and §1", "package a\n\n// as DESIGN\n// §9 says", "DESIGN §9"},
		{"a.go", `package a; var s = "DESIGN §1"`, `package a; var s = "DESIGN §5"`, "DESIGN §5"},
		{"a.go", `package a // DESIGN §1 "House"`, `package a // DESIGN §1 "Garden"`, "Garden"},
		{"a.go", `package a // DESIGN §6 "They stay", S4`, `package a // DESIGN §6 "They leave"`, "They leave"},
		{"a.lua", "-- DESIGN §1", "-- DESIGN §2", "DESIGN §2"},
		{"a.go", "package a // invariant U1", "package a // invariant U2", "U2"},
		{"a.go", "package a // U3b", "package a // U3", "U3"},
		{"a.go", "package a; var S1 = 1", "package a // S1 holds", "S1"},
		{"a.md", "By U1.", "By G4.", "G4"},
		{"a.go", "package a // ADR 20", "package a // ADR 21", "ADR 21"},
		{"a.go", "package a // docs/adr/0020-x.md", "package a // docs/adr/0020-y.md", "docs/adr/0020-y.md"},
		{"a.md", "[x](docs/API.md)", "[x](docs/APU.md)", "docs/APU.md"},
		{"docs/a.md", "[x](../README.md#two-nodes)", "[x](../README.md#one-node)", "#one-node"},
		{"docs/a.md", "# Here\n[x](#here)", "# Here\n[x](#there)", "#there"},
		{"docs/a.md", "[x](API.md#get-it-now)", "[x](API.md#get-it)", "API.md#get-it"},
		{"docs/a.md", "[x](API.md#again-1)", "[x](API.md#again-2)", "#again-2"},
		{"docs/a.md", "[x](https://example.com/y#z)", "[x](y)", "docs/y"},
		{"docs/a.md", "```\n[x](y)\n```", "`code` [x](y)", "docs/y"},
		{"docs/a.md", "`server/server.go`", "`server/gone.go`", "server/gone.go"},
		{"docs/a.md", "`go test ./server`", "`go test ./server/gone`", "server/gone"},
		{"docs/a.md", "`TestStart`", "`TestStop`", "TestStop"},
		{"a.md", "`RuleGuard` in `server.go`", "`TestStart` in\n`server.go`", "TestStart"},
		{"a.md", "`TestStart` of `server`", "`TestStart` of `docs`", "TestStart"},
		{"docs/a.md", "`RuleGuard`", "`RuleGourd`", "RuleGourd"},
		{"docs/a.md", "`go test -run TestSt`", "`go test -run TestX`", "TestX"},
		{"a.go", "package a // see server/server.go", "package a // see server/gone.go", "server/gone.go"},
		{"a.go", "package a // see server.go", "package a // see gone.go", "gone.go"},
		{"a.go", "package a // see pkg.go.dev, server.go.", "package a // see pkg.go.dev, gone.go.", "gone.go"},
		{"a.go", `package a // (README "Two nodes")`, `package a // (README "Three nodes")`, "Three nodes"},
		{"a.go", "package a\n\n// README \"share a\n// store\"", "package a // README \"share no store\"", "share no store"},
		{"a.yaml", "# docs/API.md", "# docs/APU.md", "docs/APU.md"},
	} {
		check := func(text string) []string {
			all := fstest.MapFS{test.file: {Data: []byte(text)}}
			for name, text := range repo {
				all[name] = &fstest.MapFile{Data: []byte(text)}
			}
			c := must.Get(newChecker(all))(t)
			return c.check()
		}
		if got := check(test.good); len(got) > 0 {
			t.Errorf("%s: %q: %q", test.file, test.good, got)
		}
		if got := check(test.bad); len(got) != 1 || !strings.Contains(got[0], test.want) || !strings.HasPrefix(got[0], test.file+": ") {
			t.Errorf("%s: %q: got %q, want %s", test.file, test.bad, got, test.want)
		}
	}
}
