// Package boltsim kills simulated nodes whose store is package bolt's, with real files.
//
// kill -9 leaves what the operating system has of a file, synced or not. So [Copy] copies the files
// while the node that dies still has them open, and its next life begins with the copy. The dead one
// keeps its own files and its locks of them, and disturbs nobody. It may go on to write until it is
// closed: cut its network before the copy, so that nobody hears of what the copy lacks.
//
// What a loss of power leaves is not simulated: there everything that was written is kept.
package boltsim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// suffixes are appended to the path of a store's file for its other files: the history, and the folder
// of the answers.
var suffixes = []string{"", "-history", "-answers"}

// attempts is how often a copy is tried. One fails if there is a commit meanwhile.
const attempts = 10_000

// Copy copies the files of the store at path to another path, in a folder that exists, as they are at
// one moment during the call. The store may be in use. It replaces what is at the other path.
func Copy(path, to string) error {
	for range attempts {
		whole, err := try(path, to)
		if whole || err != nil {
			return err
		}
	}
	return fmt.Errorf("copy %s: it was written to during each of %d attempts", path, attempts)
}

// try copies once, and reports whether the copy is of one moment. It is if afterwards each file still
// has the meta pages that were copied. bbolt writes a page of a newer transaction only where the last
// one has none, and then the meta page. So whatever else was copied of a newer one is in free pages.
func try(path, to string) (whole bool, err error) {
	for _, suffix := range suffixes {
		if err := os.RemoveAll(to + suffix); err != nil {
			return false, err
		}
		err := copyTree(path+suffix, to+suffix)
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			continue // there is none, or it went meanwhile: then same says so
		}
		if err != nil {
			return false, err
		}
	}
	for _, suffix := range suffixes {
		if ok, err := same(path+suffix, to+suffix); !ok || err != nil {
			return false, err
		}
	}
	return true, nil
}

// copyTree copies a file, or a folder of files.
func copyTree(from, to string) error {
	names, err := files(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// files returns the names of the files in a folder, or "" for a file.
func files(path string) (names []string, err error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{""}, err
	}
	entries, err := os.ReadDir(path)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// same reports whether the files at two paths have the same names and meta pages.
func same(one, other string) (bool, error) {
	first, err := metas(one)
	if err != nil {
		return false, err
	}
	second, err := metas(other)
	if err != nil || len(first) != len(second) {
		return false, err
	}
	for name, meta := range first {
		if !bytes.Equal(meta, second[name]) {
			return false, nil
		}
	}
	return true, nil
}

// metas returns the meta pages of the files at a path, which need not exist.
func metas(path string) (map[string][]byte, error) {
	found := make(map[string][]byte)
	names, err := files(path)
	for _, name := range names {
		if err == nil {
			found[name], err = meta(filepath.Join(path, name))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return found, err
}

// meta returns the two pages at the beginning of a file, which say where everything else is.
func meta(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, int64(2*os.Getpagesize())))
}
