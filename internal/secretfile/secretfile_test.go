package secretfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]string{
		"a b":                              "a b",
		"line\n":                           "line",
		"line\r\n":                         "line",
		" kept ":                           " kept ",
		"":                                 "is empty",
		"\n":                               "is empty",
		"two\nlines":                       "has more than one line",
		"two\n\n":                          "has more than one line",
		"zero\x00":                         "has more than one line",
		strings.Repeat("a", most+1):        "has more than 65536 bytes",
		strings.Repeat("b", most-1) + "\n": strings.Repeat("b", most-1),
	} {
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := Read(path)
		if err != nil {
			got = strings.TrimPrefix(err.Error(), path+" ")
		}
		must.Equal(t, got, want, "%.20q", text)
	}
}

// A secret that cannot be read, or is not good, leaves the one before in use, not the first one.
func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	must.Equal(t, Follow("", "first", nil)(), "first", "without a file")
	now := Follow(path, "first", func(secret string) bool { return secret != "another's" })
	must.Equal(t, now(), "first", "while there is no file")
	must.Do(t, os.WriteFile(path, []byte("second\n"), 0o600))
	must.Equal(t, now(), "second", "once there is one")
	must.Do(t, os.WriteFile(path, []byte("another's"), 0o600))
	must.Equal(t, now(), "second", "while it has one that is not good")
	must.Do(t, os.Remove(path))
	must.Equal(t, now(), "second", "while it is away")
}
