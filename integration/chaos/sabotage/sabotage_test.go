package sabotage

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/longtest"
)

// root is the root of the repository.
const root = "../../.."

// The build with the tag compiles, and its switches work.
func TestSabotagedBuild(t *testing.T) {
	longtest.Only(t)
	for _, args := range [][]string{
		{"build", "-tags", Tag, "./standard", "./server"}, // all of the program; linking takes most of the time
		{"test", "-tags", Tag, "./internal/sabotage"},
	} {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
