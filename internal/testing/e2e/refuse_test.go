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

// A mistake at start is reported by the name of the setting, and no files are left behind.
func TestRefusesToStart(t *testing.T) {
	tests := []struct {
		name string
		env  string
		want []string
	}{
		{"a wrong setting", "SEQD_SEGMENT_STEP=0", []string{"segment.step", "0 is outside"}},
		{"an unknown variable", "SEQD_SEGMENT_STEPS=5", []string{"SEQD_SEGMENT_STEPS", "no key has this name"}},
		{"a public address", "SEQD_SERVER_ADDR=0.0.0.0:0", []string{"server.addr", "auth.mode"}},
		{"an invalid address", "SEQD_SERVER_ADDR=127.0.0.1:99999", []string{"server.addr"}},
		{"no biz types", "SEQD_BIZTYPES=[]", []string{"bizTypes", "at least one"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			wantText(t, node.Launch(t, dir, test.env).Fails(), test.want...)
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("left behind: %v, %v", entries, err)
			}
		})
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
