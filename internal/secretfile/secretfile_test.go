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

func TestAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	must.Equal(t, Again("", "was"), "was", "without a file")
	must.Equal(t, Again(path, "was"), "was", "while there is none")
	must.Do(t, os.WriteFile(path, []byte("new\n"), 0o600))
	must.Equal(t, Again(path, "was"), "new", "once there is one")
}
