package command

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/bolt"
)

func TestCompact(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	file := write(t, "store: {bolt: {path: "+path+", lockTimeout: 50ms}}\nbizTypes: [{name: order}]\n")
	if got := runWith(t, nil, "compact", "--config", file); got.code != ExitConfig || !strings.Contains(got.errs, path) {
		t.Errorf("without a file: %+v", got)
	}
	store := must.Get(bolt.Open(bolt.Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	must.Do(t, store.Counters().Create(t.Context(), persist.Counter{BizTag: "order", Max: 5000, Step: 10}))
	if got := runWith(t, nil, "compact", "--config", file); got.code != ExitFailed || !strings.Contains(got.errs, "another process is using it") {
		t.Errorf("while the file is in use: %+v", got)
	}
	must.Do(t, store.Close())
	if got := runWith(t, nil, "compact", "--config", file); got.code != ExitOK || !strings.Contains(got.out, path+": ") || !strings.Contains(got.out, " bytes, 2 records") || got.errs != "" {
		t.Errorf("%+v", got)
	}
	if got := runWith(t, nil, "compact", "--config", write(t, "store: {driver: memory}\nbizTypes: [{name: order}]")); got.code != ExitConfig || !strings.Contains(got.errs, "memory has no file") {
		t.Errorf("without files: %+v", got)
	}
}
