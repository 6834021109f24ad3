//go:build integration && linux

package statefile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// These tests mount small file systems, which needs root.

func tmpfs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("mount a tmpfs (these tests need root): %v", err)
	}
	t.Cleanup(func() {
		must.Report(t, syscall.Unmount(dir, syscall.MNT_DETACH))
	})
	return dir
}

// failsToStore checks that Store fails with an error that wraps want and leaves the old state.
func failsToStore(t *testing.T, f *File, want error) {
	t.Helper()
	next := sample().state
	next.Until++
	if err := f.Store(next); !errors.Is(err, want) || !strings.Contains(err.Error(), f.path) {
		t.Errorf("store: %v", err)
	}
	must.Equal(t, must.Get(f.Load())(t), sample().state)
}

func TestFullDisk(t *testing.T) {
	dir := tmpfs(t)
	f := open(t, dir)
	store(t, f, sample().state)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	must.Do(t, err)
	defer filler.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = filler.Write(block)
	}
	failsToStore(t, f, syscall.ENOSPC)
	if err := f.Invalidate(); err != nil {
		t.Errorf("it needs no space: %v", err)
	}
	refuses(t, f, ErrNone, "")
}

func TestReadOnly(t *testing.T) {
	dir := tmpfs(t)
	f := open(t, dir)
	store(t, f, sample().state)
	// a file that is open for writing would prevent remounting read-only
	must.Do(t, f.Close())
	must.Do(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	if _, err := Open(dir, fileName, sample().identity); !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), f.path) {
		t.Errorf("open: %v", err)
	}
	must.Is(t, must.Err(Open(filepath.Join(dir, "new"), fileName, sample().identity)), syscall.EROFS, "create a folder")
	must.Do(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""))
	wants(t, dir, sample().state)
}
