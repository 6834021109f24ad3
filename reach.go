package seqd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Reach is which files and environment variables definitions of biz types may name. Whoever may
// change definitions must not get at what else the process can read or write. A nil Reach is
// without limits. It is immutable and safe for concurrent use.
type Reach struct {
	// Folder is the folder in which files lie, as it was configured.
	Folder string
	// Variables is the prefix of the names of environment variables. If it is empty, a definition can
	// name none. Names that begin with SEQD_ are never allowed.
	Variables string
	// Store is the path of the store's file, "" for none. The process has more files whose paths begin
	// like it.
	Store string
	// Own are the paths of other files that the process uses, such as its configuration.
	Own []string
}

// Confined is implemented by settings of strategies and plugins that name files or environment
// variables.
type Confined interface {
	// Confine tells the settings, which are valid, what they may name. It returns what they must not
	// name, and does no I/O. Whoever opens a file calls [Reach.Resolve] first.
	Confine(r *Reach) []Problem
}

// ErrOutOfReach is the error for a file or an environment variable that a definition must not name.
var ErrOutOfReach = errors.New("a definition must not name it")

// Check returns an error if a definition must not name a path. It does no I/O.
func (r *Reach) Check(path string) error {
	if r == nil {
		return nil
	}
	folder, err1 := filepath.Abs(r.Folder)
	full, err2 := filepath.Abs(path)
	switch {
	case errors.Join(err1, err2) != nil || strings.ContainsRune(path, 0) || !within(folder, full):
		return fmt.Errorf("%w: it is not in the folder %s, see bizTypeFolder", ErrOutOfReach, r.Folder)
	case r.owns(full):
		return fmt.Errorf("%w: the service itself uses a file of this name", ErrOutOfReach)
	}
	return nil
}

// within reports whether a path is a folder, or in it. Both are absolute.
func within(folder, path string) bool {
	rest, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rest)
}

// owns reports whether a path is one that the process uses. Some file systems ignore case.
func (r *Reach) owns(full string) bool {
	for _, own := range r.Own {
		if own, err := filepath.Abs(own); err == nil && strings.EqualFold(own, full) {
			return true
		}
	}
	store, err := filepath.Abs(r.Store)
	return r.Store != "" && err == nil && len(full) >= len(store) && strings.EqualFold(full[:len(store)], store)
}

// Resolve returns the path without symbolic links, as far as it exists. It returns an error if a
// definition must not name it, or if links lead to what it must not name.
func (r *Reach) Resolve(path string) (string, error) {
	if r == nil {
		return filepath.Abs(path)
	}
	if err := r.Check(path); err != nil {
		return "", err
	}
	real, err := linkless(path)
	if err != nil {
		return "", err
	}
	there := Reach{}
	if there.Folder, err = linkless(r.Folder); err != nil {
		return "", err
	}
	if r.Store != "" {
		if there.Store, err = linkless(r.Store); err != nil {
			return "", err
		}
	}
	if err := there.Check(real); err != nil {
		return "", fmt.Errorf("%w, through a symbolic link", err)
	}
	return real, r.foreign(real)
}

// foreign returns an error if an existing file is one that the process uses, under any name.
func (r *Reach) foreign(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, own := range append([]string{r.Store}, r.Own...) {
		if used, err := os.Stat(own); err == nil && os.SameFile(used, info) {
			return fmt.Errorf("%w: the service itself uses the file", ErrOutOfReach)
		}
	}
	for _, stream := range []*os.File{os.Stdin, os.Stdout, os.Stderr} { // such as a file with the log
		if used, err := stream.Stat(); err == nil && os.SameFile(used, info) {
			return fmt.Errorf("%w: the service itself uses the file", ErrOutOfReach)
		}
	}
	return nil
}

// linkless returns an absolute path in which as much as exists has no symbolic links.
func linkless(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	if _, dangling := os.Lstat(path); dangling == nil || filepath.Dir(path) == path {
		return "", err
	}
	above, err := linkless(filepath.Dir(path))
	return filepath.Join(above, filepath.Base(path)), err
}

// ownVariables begin the names of environment variables with the configuration, secrets included.
const ownVariables = "SEQD_"

// CheckVariable returns an error if a definition must not name an environment variable. It does not
// say whether the variable exists.
func (r *Reach) CheckVariable(name string) error {
	begins := func(prefix string) bool {
		start := name[:min(len(prefix), len(name))]
		return start == prefix || runtime.GOOS == "windows" && strings.EqualFold(start, prefix)
	}
	switch {
	case r == nil:
		return nil
	case r.Variables == "":
		return fmt.Errorf("%w: bizTypeVariables is empty", ErrOutOfReach)
	case !begins(r.Variables) || begins(ownVariables):
		return fmt.Errorf("%w: its name does not begin with %s, see bizTypeVariables", ErrOutOfReach, r.Variables)
	}
	return nil
}
