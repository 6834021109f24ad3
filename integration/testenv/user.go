package testenv

import (
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// unprivileged returns a user for servers that refuse to run as root: nil, for the present user,
// unless that is root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	id, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	group, err := strconv.ParseUint(nobody.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(id), Gid: uint32(group)}, err
}

// giveTo makes a user the owner of a folder and of everything in it. The user may be nil.
func giveTo(user *syscall.Credential, folder string) error {
	if user == nil {
		return nil
	}
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(user.Uid), int(user.Gid))
	})
}

// userFolder returns a new folder of the test that belongs to a user, and that the user can reach.
// The user may be nil.
func userFolder(t testing.TB, user *syscall.Credential) string {
	t.Helper()
	folder := t.TempDir()
	if user == nil {
		return folder
	}
	err := giveTo(user, folder)
	// The folders of tests are closed to others.
	if err == nil {
		err = os.Chmod(filepath.Dir(folder), 0o711)
	}
	if err != nil {
		t.Fatalf("make a folder for another user: %v", err)
	}
	return folder
}
