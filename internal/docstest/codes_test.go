package docstest

import (
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

var update = flag.Bool("update", false, "write the lists of codes anew")

// lists are the places that list the codes of errors. The group of the pattern is the list.
var lists = []struct {
	file    string
	pattern string
	write   func(old string) string // returns the list as it should be
}{
	{"codes.go", `(?s)\n// The codes, [^(]*\nconst \(\n(.*?)\)\n`, constants("Code")},
	{"client/errors.go", `(?s)\n// Codes of the service, [^(]*\nconst \(\n(.*?)\)\n`, constants("Err")},
	{"server/console/web/codes.js", `(?s)\nconst codes = \{\n  __proto__[^\n]*\n(.*?)\};`, consoleWords},
	{"server/openapi/openapi.yaml", `The set is closed\.\n +enum:\n((?: +- \w+\n)+)`, enum},
	{"server/openapi/openapi.yaml", `\n +x-codes: \[([a-z_, ]+)\]\n`, answer},
	{"docs/API.md", `\n\| status \| codes \|\n\|---\|---\|\n((?:\|.*\n)+)`, table},
	{"deploy/alerts.yaml", `seqd_resp_commands_total\{code=~"([a-z_|]+)"`, failures},
}

// TestCodes checks that all lists of codes agree with the table in codes.go, and writes them anew
// with -update.
func TestCodes(t *testing.T) {
	for _, l := range lists {
		file := "../../" + l.file
		text := read(t, file)
		current := mend(t, l.file, text, l.pattern, l.write)
		if current == text {
			continue
		}
		if !*update {
			t.Errorf("%s is not up to date: run go test ./internal/docstest -run TestCodes -update", l.file)
			continue
		}
		must.Do(t, os.WriteFile(file, []byte(current), 0o644))
	}
}

// mend writes anew each list in a text.
func mend(t *testing.T, file, text, pattern string, write func(string) string) string {
	found := regexp.MustCompile(pattern).FindAllStringSubmatchIndex(text, -1)
	if found == nil {
		t.Fatalf("%s: nothing matches %s", file, pattern)
	}
	for i := len(found) - 1; i >= 0; i-- {
		from, to := found[i][2], found[i][3]
		text = text[:from] + write(text[from:to]) + text[to:]
	}
	if filepath.Ext(file) == ".go" {
		text = string(must.Get(format.Source([]byte(text)))(t))
	}
	return text
}

// join returns what write makes of each code that is meant.
func join(meant func(seqd.Meaning) bool, sep string, write func(seqd.Meaning) string) string {
	var all []string
	for _, m := range seqd.Codes() {
		if meant(m) {
			all = append(all, write(m))
		}
	}
	return strings.Join(all, sep)
}

func every(seqd.Meaning) bool { return true }

func codeName(m seqd.Meaning) string { return string(m.Code) }

// constants returns a function that writes the constants for Go.
func constants(prefix string) func(string) string {
	return func(string) string {
		return join(every, "", func(m seqd.Meaning) string {
			return fmt.Sprintf("\t%s Code = %q // %d: %s\n", prefix+goName(m.Code), m.Code, m.Status, m.What)
		})
	}
}

// goName returns the name of a code's constant.
func goName(code seqd.Code) (name string) {
	for word := range strings.SplitSeq(string(code), "_") {
		switch word {
		case "id", "ttl", "uri":
			name += strings.ToUpper(word)
		default:
			name += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return name
}

// consoleWords writes what the console says.
func consoleWords(string) string {
	return join(every, "", func(m seqd.Meaning) string { return fmt.Sprintf("  %s: [%q, %q],\n", m.Code, m.What, m.Console) })
}

func enum(string) string {
	return join(every, "", func(m seqd.Meaning) string { return fmt.Sprintf("        - %s\n", m.Code) })
}

// answer writes the codes of an answer: all that have the status of the first, except the one that
// refuses nothing.
func answer(old string) string {
	first, _, _ := strings.Cut(old, ",")
	of, _ := seqd.Code(first).Meaning()
	return join(func(m seqd.Meaning) bool { return m.Status == of.Status && m.Code != seqd.CodeCursorContested }, ", ", codeName)
}

var described = regexp.MustCompile("`([a-z_]+)`( \\((?:[^()]|\\([^()]*\\))*\\))?")

// table writes the rows of API.md. It keeps what is said of a code in parentheses.
func table(old string) string {
	notes := make(map[string]string)
	for _, found := range described.FindAllStringSubmatch(old, -1) {
		notes[found[1]] = found[2]
	}
	var rows strings.Builder
	for status := 400; status < 600; status++ {
		row := join(func(m seqd.Meaning) bool { return m.Status == status }, " ", func(m seqd.Meaning) string {
			return "`" + codeName(m) + "`" + notes[codeName(m)]
		})
		if row != "" {
			rows.WriteString("| " + fmt.Sprint(status) + " | " + row + " |\n")
		}
	}
	return rows.String()
}

// failures writes the codes of failures that are no mistake of the caller.
func failures(string) string {
	return join(func(m seqd.Meaning) bool { return m.Status >= 500 }, "|", codeName)
}
