// Package secretfile reads secrets that are in files of their own, as orchestrators mount them.
package secretfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// most is how many bytes a secret may have.
const most = 64 << 10

// Read returns the secret in a file: its one line, without the line break. No error shows a part of
// it.
func Read(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	switch line := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")); {
	case err != nil:
		return "", err
	case len(text) > most:
		return "", fmt.Errorf("%s has more than %d bytes", path, most)
	case len(line) == 0:
		return "", fmt.Errorf("%s is empty", path)
	case bytes.ContainsAny(line, "\r\n\x00"):
		return "", errors.New(path + " has more than one line")
	default:
		return string(line), nil
	}
}

// Again returns the secret that is in a file now. It returns was if path is "", or while the file
// cannot be read.
func Again(path, was string) string {
	if path == "" {
		return was
	}
	now, err := Read(path)
	if err != nil {
		return was
	}
	return now
}
