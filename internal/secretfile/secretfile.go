// Package secretfile reads secrets that are in files of their own, as orchestrators mount them.
package secretfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
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

// Follow returns a function that returns the secret in a file as it is now. While the file cannot be
// read, or good says that its secret is not for this use, the function returns the last one that was,
// at first was. It always returns was if path is "". If good is nil, every secret is good.
func Follow(path, was string, good func(secret string) bool) func() string {
	if path == "" {
		return func() string { return was }
	}
	var mu sync.Mutex
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		if now, err := Read(path); err == nil && (good == nil || good(now)) {
			was = now
		}
		return was
	}
}
