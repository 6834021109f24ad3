// Package scenario plays scenarios that a person can read: text files of steps for a machine, each
// with what the machine does then. The files are for github.com/cockroachdb/datadriven, which
// describes their form. `go test -rewrite` writes what follows each step into them: read the
// difference before you commit it.
package scenario

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// Step is a step of a scenario.
type Step = datadriven.TestData

// Play executes a step and returns what the file shows below it. A step that makes no sense in the
// present state is no error: Play says so in what it returns, because without a rule the machine may
// be in another state than the author saw.
type Play func(t *testing.T, step *Step) string

// Arg returns the value of an argument of a step, or otherwise if the step has none of that name.
func Arg[T any](t *testing.T, step *Step, name string, otherwise T) T {
	t.Helper()
	if step.HasArg(name) {
		step.ScanArgs(t, name, &otherwise)
	}
	return otherwise
}

// Run plays each scenario in folder, for which begin makes a machine. Then it plays them without each
// rule: one of them must show something else, otherwise no scenario tells what the rule is for.
func Run[R fmt.Stringer](t *testing.T, folder string, rules []R, begin func(without ...R) Play) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario in %s: %v", folder, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { datadriven.RunTest(t, file, begin()) })
	}
	for _, rule := range rules {
		t.Run("without "+rule.String(), func(t *testing.T) {
			for _, file := range files {
				if where := differs(t, file, begin(rule)); where != "" {
					t.Log("it shows at", where)
					return
				}
			}
			t.Errorf("no scenario shows what the rule %s is for", rule)
		})
	}
}

// differs plays a scenario and returns the place of the first step after which something else
// follows than the file says, empty if there is none.
func differs(t *testing.T, file string, play Play) (where string) {
	datadriven.RunTest(t, file, func(t *testing.T, step *Step) string {
		if where == "" {
			if got := play(t, step); got != step.Expected && got+"\n" != step.Expected {
				where = step.Pos
			}
		}
		return step.Expected
	})
	return where
}
