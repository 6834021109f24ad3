package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
)

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in: %s", part, text)
		}
	}
}

// A damaged store is neither issued from nor overwritten.
func TestDamagedStore(t *testing.T) {
	dir := t.TempDir()
	first := node.StartReady(t, dir)
	must.Get(first.Take("order", 5))(t)
	first.Stop()
	path := filepath.Join(dir, "data", "seqd.db")
	for name, content := range map[string]string{"empty": "", "garbage": strings.Repeat("garbage ", 10_000)} {
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		wantText(t, node.Launch(t, dir).Fails(), "data/seqd.db")
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%s: the file was changed: %v", name, err)
		}
	}
}
