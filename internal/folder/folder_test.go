package folder

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestMake(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		must.Do(t, Make(inner, 0o700))
	}
	info, err := os.Stat(inner)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
	if err := Make(filepath.Join(file, "x"), 0o700); err == nil {
		t.Error("a folder was made inside a file")
	}
}

func TestSync(t *testing.T) {
	must.Report(t, Sync(t.TempDir()))
	must.Is(t, Sync(filepath.Join(t.TempDir(), "none")), fs.ErrNotExist)
}
