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

// keyLine is what a file with a key holds: a line that says what it is, the key, which is 64
// hexadecimal digits as they stand here, and a checksum of it, so that damage is not taken for
// another key.
var keyLine = regexp.MustCompile(`^seqd-obfuscate-key-1 ([0-9a-f]{64}) ([0-9a-f]{8})\n$`)

// checksum is that of a key in its file.
func checksum(key []byte) string {
	sum := sha256.Sum256(append([]byte("seqd obfuscate key file\x00"), key...))
	return fmt.Sprintf("%x", sum[:4])
}

// readOrMakeKey returns the key in a file, which it makes with a random key when there is none. Of
// processes that do so at once, all return the key of the same one, and one of them reports that it
// made it.
func readOrMakeKey(path string) (key []byte, made bool, err error) {
	key, err = readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, false, err
	}
	err = makeKey(path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, false, fmt.Errorf("keyFile %s cannot be made: %w", path, err)
	}
	made = err == nil
	key, err = readKey(path)
	return key, made, err
}

// readKey returns the key in a file. The error holds nothing of what the file says.
func readKey(path string) ([]byte, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("keyFile: %w", err)
	}
	if !stat.Mode().IsRegular() { // opening a pipe would wait for ever
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
	// where a mode says nothing
	if mode := stat.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("keyFile %s is open to others than its owner (mode %#o): chmod 600 it, and think of the key as known if others can have read it", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(file, 1024))
	if err != nil {
		return nil, fmt.Errorf("keyFile: %w", err)
	}
	return parseKey(path, text)
}

// parseKey returns the key that the text of a file holds.
func parseKey(path string, text []byte) ([]byte, error) {
	if len(text) == 0 {
		return nil, fmt.Errorf("keyFile %s is empty: put the file of another node or of a backup there; only if nothing was issued with it, remove it", path)
	}
	parts := keyLine.FindSubmatch(text)
	if parts == nil || checksum(parts[1]) != string(parts[2]) {
		return nil, fmt.Errorf("keyFile %s is damaged, or not a file that seqd made: put the file of another node or of a backup there", path)
	}
	return parts[1], nil
}

// makeKey makes a file with a random key and links it into place when it is complete and on disk:
// nobody ever sees a part of it, and of two processes that do so at once exactly one wins (a rename
// would put the loser's key over one that is in use). It returns fs.ErrExist when there is a file
// already.
func makeKey(path string) error {
	dir := filepath.Dir(path)
	if err := folder.Make(dir, 0o750); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, filepath.Base(path)+".new-*") // its mode is 0600
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
