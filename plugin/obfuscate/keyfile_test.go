package obfuscate

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestKeyFileIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "obfuscate.key")
	r := &recorder{}
	logged := env()
	logged.Log = slog.New(slog.NewTextHandler(r, nil))
	first := newPluginIn(t, logged, &Settings{Digits: 8, KeyFile: path})
	stat := must.Get(os.Stat(path))(t)
	must.Equal(t, stat.Mode().Perm(), 0o600, "the mode")
	second := newPluginIn(t, logged, &Settings{Digits: 8, KeyFile: path})
	key := must.Get(readKey(path))(t)
	if log := r.log.String(); strings.Count(log, "a new key was created") != 1 || !strings.Contains(log, path) || strings.Contains(log, string(key)) {
		t.Errorf("the log says %s", log)
	}
	must.Equal(t, first.all.permutation.k0, second.all.permutation.k0, "another key the second time")
	if shapeOf(t, &Settings{Digits: 8, KeyFile: path}) == shapeOf(t, &Settings{Digits: 8, KeyFile: filepath.Join(t.TempDir(), "key")}) {
		t.Error("two files have the same key")
	}
	wantAlone(t, path)
}

// wantAlone fails if there is anything beside a file.
func wantAlone(t *testing.T, path string) {
	t.Helper()
	entries := must.Get(os.ReadDir(filepath.Dir(path)))(t)
	must.Equal(t, len(entries), 1, "the folder holds %v", entries)
}

// TestKeyFileIsMadeAtOnce checks that concurrent creators of a key file all return the key that
// stays.
func TestKeyFileIsMadeAtOnce(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "new", "key")
		keys := make([]string, 16)
		var makers atomic.Int64
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() {
				key, made, err := readOrMakeKey(path)
				must.Report(t, err)
				if made {
					makers.Add(1)
				}
				keys[i] = string(key)
			})
		}
		all.Wait()
		must.Equal(t, makers.Load(), 1, "how many made it")
		for _, key := range keys {
			if key != keys[0] || len(key) != 64 {
				t.Fatalf("keys of %d and %d bytes that differ", len(key), len(keys[0]))
			}
		}
		wantAlone(t, path)
	}
}

func TestKeyFileThatIsRefused(t *testing.T) {
	good := must.Get(os.ReadFile(made(t)))(t)
	another := []byte(strings.Replace(string(good), "key-1 ", "key-1 0", 1))
	for name, test := range map[string]struct {
		text []byte
		mode fs.FileMode
		want string
	}{
		"empty":             {nil, 0o600, "is empty"},
		"zeros":             {make([]byte, 94), 0o600, "is damaged"},
		"cut":               {good[:50], 0o600, "is damaged"},
		"without its end":   {good[:len(good)-1], 0o600, "is damaged"},
		"longer":            {append(good[:len(good):len(good)], '\n'), 0o600, "is damaged"},
		"one digit moved":   {another, 0o600, "is damaged"},
		"one digit changed": {flip(good, 40), 0o600, "is damaged"},
		"checksum":          {flip(good, len(good)-2), 0o600, "is damaged"},
		"somebody's own":    {[]byte("correct horse\n"), 0o600, "is damaged, or not a file that seqd created"},
		"for all":           {good, 0o644, "chmod 600"},
		"for the group":     {good, 0o640, "chmod 600"},
	} {
		path := filepath.Join(t.TempDir(), "key")
		must.Do(t, os.WriteFile(path, test.text, 0o600))
		must.Do(t, os.Chmod(path, test.mode))
		wantRefused(t, name, path, test.want)
		if text, err := os.ReadFile(path); err != nil || string(text) != string(test.text) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	wantRefused(t, "a folder", t.TempDir(), "is not a regular file")
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink("nowhere", link))
	wantRefused(t, "a link to nothing", link, "no such file")
	wantRefused(t, "below a file", filepath.Join(made(t), "key"), "keyFile")
}

// wantRefused fails unless a file makes New and Shape fail, with an error that says why and does
// not show the content.
func wantRefused(t *testing.T, name, path, want string) {
	t.Helper()
	settings := &Settings{Digits: 8, KeyFile: path}
	_, err := New(env(), bizTypeWith(), binding(settings))
	_, shapeErr := shape(bizTypeWith(), binding(settings), "")
	for _, err := range []error{err, shapeErr} {
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %q and the path", name, err, want)
		} else if text, _ := os.ReadFile(path); len(text) > 50 && strings.Contains(err.Error(), string(text[21:40])) {
			t.Errorf("%s: error %v holds the key", name, err)
		}
	}
}

// TestKeyFileIsReadOnce checks that a file that changes between New and Shape, or cannot be read
// for a while, is never taken for another key.
func TestKeyFileIsReadOnce(t *testing.T) {
	path := made(t)
	settings := &Settings{Digits: 8, KeyFile: path}
	newPlugin(t, settings)
	before := shapeOf(t, settings)
	must.Do(t, os.Remove(path))
	must.Equal(t, shapeOf(t, settings), before, "the shape")
	must.Is(t, must.Err(os.Stat(path)), fs.ErrNotExist, "the file was made again")
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	wantRefused(t, "folder", "/proc/self/key", "cannot be created") // not even root can create a file there
}

// made returns the path of a new key file.
func made(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if _, _, err := readOrMakeKey(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// flip changes the hexadecimal digit at i.
func flip(text []byte, i int) []byte {
	changed := append([]byte(nil), text...)
	if changed[i] == '0' {
		changed[i] = '1'
	} else {
		changed[i] = '0'
	}
	return changed
}
