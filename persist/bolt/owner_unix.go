//go:build unix

package bolt

import (
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a file the owner of another. Only root can give a file to another user.
func keepOwner(file *os.File, of fs.FileInfo) error {
	want, ok := of.Sys().(*syscall.Stat_t)
	info, err := file.Stat()
	if err != nil || !ok {
		return err
	}
	if has, ok := info.Sys().(*syscall.Stat_t); ok && has.Uid == want.Uid && has.Gid == want.Gid {
		return nil
	}
	return file.Chown(int(want.Uid), int(want.Gid))
}
