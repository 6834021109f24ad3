package sabotage

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestWithout(t *testing.T) {
	const script = "if a[1] --[[without one: or true]] and b --[[without two: and a[2] ]] then"
	for taken, want := range map[Rule]string{
		"one":   "if a[1] or true and b --[[without two: and a[2] ]] then",
		"two":   "if a[1] --[[without one: or true]] and b and a[2]  then",
		"three": script,
	} {
		must.Equal(t, Without(script, func(r Rule) bool { return r == taken }), want, "without %s", taken)
	}
	if got := RulesOf(script); !slices.Equal(got, []Rule{"one", "two"}) {
		t.Errorf("rules: %v", got)
	}
}

// Only this package knows the build tag and the environment variable, so no other file of the
// product can take a rule out.
func TestOneSwitch(t *testing.T) {
	// the laboratory, which builds and starts such a seqd
	allowed := []string{"internal/sabotage", "integration/chaos", "integration/cmd/chaos"}
	const root = "../.."
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".go" {
			return err
		}
		path, err := filepath.Rel(root, file)
		if err != nil || slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(filepath.ToSlash(path), a+"/") }) {
			return err
		}
		text, err := os.ReadFile(file)
		for _, word := range []string{"seqd_sabotage", "SEQD_TEST_SABOTAGE"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s mentions %s", path, word)
			}
		}
		return err
	})
	must.Do(t, err)
}
