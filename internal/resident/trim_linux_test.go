package resident

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// fromFiles returns how much of the resident memory is of files, in KiB.
func fromFiles(t *testing.T) (kib int) {
	t.Helper()
	status := must.Get(os.ReadFile("/proc/self/status"))(t)
	_, after, _ := strings.Cut(string(status), "RssFile:")
	must.Get(fmt.Sscan(after, &kib))(t)
	return kib
}

func TestTrim(t *testing.T) {
	before := fromFiles(t)
	must.Do(t, Trim())
	if after := fromFiles(t); after >= before {
		t.Errorf("%d KiB were resident before, %d after", before, after)
	}
}
