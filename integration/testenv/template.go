package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// template is a data folder as a server has it when it is new. It is made once per test binary,
// because that takes a second, and every server gets a copy.
type template struct {
	once sync.Once
	// archive is a file that was removed at once, so that it never outlives the test.
	archive *os.File
	err     error
}

// unpack writes the data folder to a path that does not exist yet. The first call makes it with
// create, as the user, who may be nil.
func (m *template) unpack(user *syscall.Credential, create func(folder string) error, folder string) error {
	m.once.Do(func() { m.err = m.make(user, create) })
	if m.err != nil {
		return m.err
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	// Every reader needs a position of its own.
	archive := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), m.archive.Fd())
	return errors.Join(run(exec.Command("tar", "--extract", "--file", archive, "--directory", folder)), giveTo(user, folder))
}

func (m *template) make(user *syscall.Credential, create func(folder string) error) error {
	dir, err := os.MkdirTemp("", "seqd-template-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := giveTo(user, dir); err != nil {
		return err
	}
	folder := filepath.Join(dir, "data")
	if err := create(folder); err != nil {
		return err
	}
	archive := filepath.Join(dir, "data.tar")
	if err := run(exec.Command("tar", "--create", "--file", archive, "--directory", folder, ".")); err != nil {
		return err
	}
	m.archive, err = os.Open(archive)
	return err
}

// run runs a command. The error contains its output.
func run(command *exec.Cmd) error {
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}
