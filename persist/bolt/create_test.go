package bolt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
)

// TestCreateFails checks that a file that cannot be made leaves nothing behind, and that the error
// says so.
func TestCreateFails(t *testing.T) {
	dir := t.TempDir()
	for name, opts := range map[string]Options{
		"no temporary file": {Path: filepath.Join(dir, strings.Repeat("x", 250)), content: storeContent()},
		"no bucket":         {Path: filepath.Join(dir, "seqd.db"), content: content{buckets: [][]byte{nil}, format: 1}},
	} {
		opts.LockTimeout, opts.Now = time.Second, time.Now
		o, err := openFile(opts)
		if err == nil {
			_ = o.close()
		}
		if err == nil || !strings.Contains(err.Error(), "create store file "+opts.Path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestFormerAnswersAreLookedForOnce checks that a store without answers of earlier versions does not
// look for them each time. No version that runs writes any.
func TestFormerAnswersAreLookedForOnce(t *testing.T) {
	k := newKept(t)
	k.claims("7", "claim", "")
	must.Do(t, k.store.Documents().Create(t.Context(), formerEntry("8", "former 8", k.day, time.Hour)))
	k.claims("8", "claim", "")
	must.Do(t, k.store.Close())
	if _, err := k.store.answers.former.any(t.Context()); err != nil {
		t.Errorf("looked again: %v", err)
	}
	again := former{documents: &k.store.documents}
	if there, err := again.any(t.Context()); there || err == nil {
		t.Errorf("found %v in a closed store, %v", there, err)
	}
	if text, err := again.find(t.Context(), "7"); text != "" || err == nil {
		t.Errorf("found %q in a closed store, %v", text, err)
	}
	if n, err := again.purge(t.Context(), 0); n != 0 || err == nil {
		t.Errorf("purged %d of a closed store, %v", n, err)
	}
}
