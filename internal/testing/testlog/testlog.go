// Package testlog keeps what a test logs, so that it can be read while others write.
package testlog

import (
	"strings"
	"sync"
)

// Text is what was written so far. The zero value is empty. It is safe for concurrent use.
type Text struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

// Write implements [io.Writer].
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns all that was written.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Count returns how often a part is in what was written.
func (t *Text) Count(part string) int { return strings.Count(t.String(), part) }
