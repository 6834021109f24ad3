package longtest_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

const (
	root   = "../../.."
	module = "github.com/seqd/seqd/"
)

// scripts/long runs every package of the main module whose tests use this package, themselves or by
// a suite for drivers.
func TestScriptsFindLongTests(t *testing.T) {
	cmd := exec.Command("bash", "-c", ". scripts/lib.sh && differing")
	cmd.Dir = root
	out := must.Get(cmd.Output())(t)
	found, users := strings.Fields(string(out)), 0
	suites, _ := importers(t, module+"internal/testing/longtest")
	for _, used := range append(suites, module+"internal/testing/longtest") {
		_, tests := importers(t, used)
		for _, pkg := range tests {
			users++
			if !slices.Contains(found, pkg) {
				t.Errorf("the tests of %s import %s, and scripts/long does not run them", pkg, used)
			}
		}
	}
	if len(suites) == 0 || users == 0 {
		t.Errorf("%d tests and the suites %s use it, want some", users, suites)
	}
}

// importers returns the packages of the main module that import a package, in their code and in
// their tests.
func importers(t *testing.T, pkg string) (code, tests []string) {
	t.Helper()
	files := os.DirFS(root)
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bench", "client", "integration"}, file) {
			return fs.SkipDir // other modules
		}
		if path.Ext(file) != ".go" {
			return nil
		}
		text, err := fs.ReadFile(files, file)
		if err != nil || !strings.Contains(string(text), "\n\t\""+pkg+"\"\n") {
			return err
		}
		if strings.HasSuffix(file, "_test.go") {
			tests = append(tests, module+path.Dir(file))
		} else {
			code = append(code, module+path.Dir(file))
		}
		return nil
	})
	must.Do(t, err)
	return code, tests
}
