package scenario

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// rule is a rule of a machine that adds numbers.
type rule string

func (r rule) String() string { return string(r) }

func begin(without ...rule) Play {
	sum := 0
	return func(t *testing.T, step *Step) string {
		if n := Arg(t, step, "n", 1); n > 0 || len(without) > 0 && without[0] == "no negative numbers" {
			sum += n
		}
		return fmt.Sprint(sum)
	}
}

func TestRun(t *testing.T) { Run(t, "testdata", []rule{"no negative numbers"}, begin) }

func TestDiffers(t *testing.T) {
	const file = "testdata/sums.txt"
	must.Equal(t, differs(t, file, begin("a rule that does nothing")), "", "it differs at")
	if where := differs(t, file, begin("no negative numbers")); !strings.HasSuffix(where, "sums.txt:8") {
		t.Errorf("it differs at %q", where)
	}
}
