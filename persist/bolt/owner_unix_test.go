//go:build unix

package bolt

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// A file gets the owner of the file that it replaces. Who may not give it away gets an error.
func TestKeepOwner(t *testing.T) {
	dir, root := t.TempDir(), os.Geteuid() == 0
	old, file := "/", must.Get(os.Create(filepath.Join(dir, "new")))(t)
	defer file.Close()
	if root {
		old = dir
		must.Do(t, os.Chown(old, 12345, 12346))
	}
	err := keepOwner(file, must.Get(os.Stat(old))(t))
	if !root {
		must.Is(t, err, fs.ErrPermission)
		return
	}
	must.Do(t, err)
	if has := must.Get(file.Stat())(t).Sys().(*syscall.Stat_t); has.Uid != 12345 || has.Gid != 12346 {
		t.Errorf("it belongs to %d and %d", has.Uid, has.Gid)
	}
}
