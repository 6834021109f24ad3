package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestMake(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "a", "b", "c")
	for range 2 {
		if err := Make(inner, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(inner)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Make(filepath.Join(file, "x"), 0o700); err == nil {
		t.Error("a folder was made inside a file")
	}
}

func TestSync(t *testing.T) {
	if err := Sync(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := Sync(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
