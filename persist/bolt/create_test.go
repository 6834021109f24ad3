package bolt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
