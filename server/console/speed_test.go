package console_test

import (
	"net/http"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/racing"
)

// nobody is a response writer that allocates nothing.
type nobody struct{ header http.Header }

func (w *nobody) Header() http.Header         { return w.header }
func (w *nobody) WriteHeader(int)             {}
func (w *nobody) Write(p []byte) (int, error) { return len(p), nil }

// issue returns a function that takes a number with a token.
func issue(t testing.TB, change func(*settings)) func() {
	n := newWorld(t).node(func(s *settings) { s.silent = true }, change)
	r := request(t, "GET", "/seq/order", "", "Authorization: Bearer "+opsSecret)
	want(t, n.serve(r), http.StatusOK, "")
	w := &nobody{make(http.Header)}
	return func() {
		clear(w.header)
		n.handler.ServeHTTP(w, r)
	}
}

// Issuing allocates nothing for the console.
func TestIssuingDoesNotPayForTheConsole(t *testing.T) {
	with := must.Allocs(1000, issue(t, func(*settings) {}))
	without := must.Allocs(1000, issue(t, func(s *settings) { s.without = true }))
	if with != without && !racing.On {
		t.Errorf("a number costs %v allocations with the console, %v without", with, without)
	}
}
