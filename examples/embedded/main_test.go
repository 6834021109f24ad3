package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// A run continues where the previous one stopped.
func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "embedded.db")
	for i, want := range []string{
		"order 1\norder 2\norder 3\ninvoice INV-1000\ninvoice INV-1001\n",
		"order 4\norder 5\norder 6\ninvoice INV-1002\ninvoice INV-1003\n",
	} {
		var out strings.Builder
		if err := run(t.Context(), &out, path); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Errorf("run %d prints\n%s, want\n%s", i+1, out.String(), want)
		}
	}
}

// An interrupted run stops cleanly: the next one gets the first numbers.
func TestInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "embedded.db")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	if err := run(ctx, &out, path); err == nil {
		t.Errorf("it printed %q", out.String())
	}
	if err := run(t.Context(), &out, path); err != nil || !strings.HasPrefix(out.String(), "order 1\n") {
		t.Errorf("after that it printed %q, %v", out.String(), err)
	}
}
