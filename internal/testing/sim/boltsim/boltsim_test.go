package boltsim_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/sim/boltsim"
)

// A copy replaces what is there, and a store that was never opened cannot be copied.
func TestCopyReplaces(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	must.Is(t, boltsim.Copy(from, to), os.ErrNotExist)
	for _, name := range []string{"b-history", "a", "a-history"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	must.Do(t, os.MkdirAll(to+"-answers", 0o700))
	must.Do(t, boltsim.Copy(from, to))
	got, err := os.ReadFile(to + "-history")
	left := must.Get(filepath.Glob(to + "*"))(t)
	if string(got) != "a-history" || err != nil || len(left) != 2 {
		t.Errorf("%q, %v, %q", got, err, left)
	}
}
