package rediscursor

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	names  = regexp.MustCompile(`\brediscursor\.Key\(`)
	writes = regexp.MustCompile(`\.(HSet|HSetNX|HMSet|HDel|HIncrBy|Del|Unlink|Rename|Expire|Persist|Copy|Restore|Eval)\(ctx\b`)
)

// Invariant U4: only the scripts touch the hash of a cursor. No other package names it, and no Go
// code here sends a command that changes it.
func TestOnlyScriptsTouchTheHash(t *testing.T) {
	for _, test := range []struct {
		root string
		bad  *regexp.Regexp
	}{{"../../..", names}, {".", writes}} {
		files := 0
		err := fs.WalkDir(os.DirFS(test.root), ".", func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (name == "integration" || name == "bench"):
				return fs.SkipDir
			case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			files++
			text, err := fs.ReadFile(os.DirFS(test.root), name)
			if found := test.bad.Find(text); found != nil {
				t.Errorf("%s has %s", name, found)
			}
			return err
		})
		if err != nil || files == 0 {
			t.Errorf("%d files were read: %v", files, err)
		}
	}
	if !writes.MatchString("pipe.HSet(ctx, key)") || !names.MatchString("rediscursor.Key(p, c)") {
		t.Error("what is looked for would not be found")
	}
}
