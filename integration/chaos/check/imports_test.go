package check

import (
	"go/build"
	"strings"
	"testing"
)

// If the checker shared code with seqd, it would share its mistakes.
func TestNothingOfSeqdIsImported(t *testing.T) {
	for folder, allowed := range map[string]string{".": "github.com/seqd/seqd/integration/chaos/record", "../record": ""} {
		p, err := build.ImportDir(folder, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range p.Imports {
			if strings.HasPrefix(path, "github.com/seqd/") && path != allowed {
				t.Errorf("%s imports %s", folder, path)
			}
		}
	}
}
