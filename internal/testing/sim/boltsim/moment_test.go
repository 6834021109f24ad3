package boltsim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// A copy is of one moment if no meta page has changed since, and no file has come or gone.
func TestOneMoment(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	page := int64(os.Getpagesize())
	write := func(at int64) {
		t.Helper()
		f, err := os.OpenFile(from+"-answers/1", os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteAt([]byte("x"), at)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	must.Do(t, os.Mkdir(from+"-answers", 0o700))
	write(4 * page)
	for _, test := range []struct {
		name   string
		change func()
		want   bool
	}{
		{"nothing", func() {}, true},
		{"a page after the meta pages", func() { write(2 * page) }, true},
		{"the first meta page", func() { write(100) }, false},
		{"the second meta page", func() { write(page + 100) }, false},
		{"a file more", func() { _ = os.WriteFile(from+"-answers/2", nil, 0o600) }, false},
		{"a file less", func() { _ = os.Remove(from + "-answers/2") }, false},
		{"no folder", func() { _ = os.RemoveAll(from + "-answers") }, false},
	} {
		_ = os.RemoveAll(to + "-answers")
		must.Do(t, copyTree(from+"-answers", to+"-answers"))
		test.change()
		must.Equal(t, must.Get(same(from+"-answers", to+"-answers"))(t), test.want, "%s changes", test.name)
	}
}
