package resident

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// fromFiles returns how much of the resident memory is of files, in KiB.
func fromFiles(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		t.Fatal(err)
	}
	return kib
}

func TestTrim(t *testing.T) {
	before := fromFiles(t)
	if err := Trim(); err != nil {
		t.Fatal(err)
	}
	if after := fromFiles(t); after >= before {
		t.Errorf("%d KiB were resident before, %d after", before, after)
	}
}
