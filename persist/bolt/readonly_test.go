package bolt_test

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
)

// What is opened to be looked at is read and not written, and nothing is made beside it.
func TestReadOnly(t *testing.T) {
	opts := bolt.Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: 100 * time.Millisecond, Now: time.Now}
	must.Is(t, must.Err(bolt.OpenReadOnly(opts)), fs.ErrNotExist, "no file")
	store := must.Get(bolt.Open(opts))(t)
	counter := persist.Counter{BizTag: "order", Max: 7, Step: 1, Timestamp: 1}
	must.Do(t, store.Counters().Create(t.Context(), counter))
	must.Is(t, must.Err(bolt.OpenReadOnly(opts)), bolt.ErrInUse, "in use")
	must.Do(t, store.Close())
	looked := must.Get(bolt.OpenReadOnly(opts))(t)
	defer looked.Close()
	must.Equal(t, must.Get(looked.Counters().Read(t.Context(), "order"))(t), counter)
	if _, err := looked.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 1}); err == nil {
		t.Errorf("a range was taken: %v", err)
	}
	if err := looked.History().Append(t.Context(), nil); err == nil {
		t.Error("a history was made")
	}
	if entries, err := os.ReadDir(filepath.Dir(opts.Path)); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A list of free pages that a start refuses is refused here too: doctor must not call such a file good.
func TestReadOnlyRefusesFreePages(t *testing.T) {
	opts := bolt.Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now}
	must.Do(t, must.Get(bolt.Open(opts))(t).Close())
	content := must.Get(os.ReadFile(opts.Path))(t)
	page := os.Getpagesize()
	for meta := range 2 { // each names the page with its list behind its own header and the root
		list := int(binary.NativeEndian.Uint64(content[meta*page+48:])) * page
		copy(content[list:], bytes.Repeat([]byte{0xbd}, 16))
	}
	must.Do(t, os.WriteFile(opts.Path, content, 0o600))
	if _, err := bolt.OpenReadOnly(opts); err == nil || !strings.Contains(err.Error(), opts.Path) || !strings.Contains(err.Error(), "freelist") {
		t.Error(err)
	}
}
