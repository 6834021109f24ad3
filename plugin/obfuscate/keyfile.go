package obfuscate

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"

	"github.com/seqd/seqd/internal/folder"
)

// keyLine is the content of a key file: a line with its kind, the key as 64 hexadecimal digits, and
// a checksum, so that damage is not taken for another key. The key consists of these digits as
// text.
var keyLine = regexp.MustCompile(`^seqd-obfuscate-key-1 ([0-9a-f]{64}) ([0-9a-f]{8})\n$`)

// checksum returns the checksum of a key in its file.
func checksum(key []byte) string {
	sum := sha256.Sum256(append([]byte("seqd obfuscate key file\x00"), key...))
	return fmt.Sprintf("%x", sum[:4])
}

// readOrMakeKey returns the key in a file. If there is no file, it creates one with a random key.
// If several processes do so at once, all return the same key, and one reports that it made it.
func readOrMakeKey(path string) (key []byte, made bool, err error) {
	key, err = readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, false, err
	}
	err = makeKey(path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, false, fmt.Errorf("keyFile %s cannot be created: %w", path, err)
	}
	made = err == nil
	key, err = readKey(path)
	return key, made, err
}

// readKey returns the key in a file. Its errors contain nothing from the file.
func readKey(path string) ([]byte, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("keyFile: %w", err)
	}
	if !stat.Mode().IsRegular() { // opening a pipe would block for ever
		return nil, fmt.Errorf("keyFile %s is not a regular file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("keyFile: %w", err)
	}
	defer file.Close()
	if stat, err = file.Stat(); err != nil {
		return nil, fmt.Errorf("keyFile: %w", err)
	}
	// the mode means nothing there
	if mode := stat.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("keyFile %s can be used by others than its owner (mode %#o): chmod 600 it, and treat the key as known if others may have read it", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(file, 1024))
	if err != nil {
		return nil, fmt.Errorf("keyFile: %w", err)
	}
	return parseKey(path, text)
}

// parseKey returns the key in the text of a file.
func parseKey(path string, text []byte) ([]byte, error) {
	if len(text) == 0 {
		return nil, fmt.Errorf("keyFile %s is empty: replace it by the file of another node or of a backup; remove it only if nothing was issued with it", path)
	}
	parts := keyLine.FindSubmatch(text)
	if parts == nil || checksum(parts[1]) != string(parts[2]) {
		return nil, fmt.Errorf("keyFile %s is damaged, or not a file that seqd created: replace it by the file of another node or of a backup", path)
	}
	return parts[1], nil
}

// makeKey creates a file with a random key. It links the file into place when it is complete and
// synced. So nobody ever sees a part of it, and of two processes at once exactly one succeeds. (A
// rename could replace a key that is in use.) It returns fs.ErrExist if the file exists.
func makeKey(path string) error {
	dir := filepath.Dir(path)
	if err := folder.Make(dir, 0o750); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, filepath.Base(path)+".new-*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails
	key := fmt.Appendf(nil, "%x", random)
	_, err = fmt.Fprintf(file, "seqd-obfuscate-key-1 %s %s\n", key, checksum(key))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil {
		return err
	}
	return folder.Sync(dir)
}
