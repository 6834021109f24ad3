package command

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
)

// A node saves a snapshot while it issues. It is killed, and the snapshot is restored into another
// file: no number comes again, of no key, and of no counter that began after the snapshot.
func TestSnapshot(t *testing.T) {
	dir := t.TempDir()
	file, path := filepath.Join(dir, "s"), func(name string) []string {
		config := write(t, "bizTypes: [{name: order, start: 100}, {name: tenant, keyed: true}, {name: invoice, strategy: gapless}, {name: late, strategy: gapless}]\n")
		return []string{"--config", config, "--store.driver", "bolt", "--store.bolt.path", filepath.Join(dir, name)}
	}
	run := func(says string, args ...string) {
		t.Helper()
		got := runWith(t, nil, append([]string{"snapshot"}, args...)...)
		if (got.code == ExitOK) != (got.errs == "") || !strings.Contains(got.out+got.errs, says) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	seqd, log, url, ended := startProcess(t, path("a")...)
	go func() { _, _ = io.Copy(io.Discard, log) }()
	for range 3 {
		get(t, url+"/seq/order")
		get(t, url+"/seq/tenant?key=a")
		get(t, url+"/seq/invoice")
	}
	run("gapless", "save", file, "--addr", url)
	run("another process", append([]string{"save", file}, path("a")...)...)
	run("invoice  1 counters  highest 3", "status", file)
	for range 3 {
		get(t, url+"/seq/order")
		get(t, url+"/seq/tenant?key=b")
		get(t, url+"/seq/invoice")
		get(t, url+"/seq/late")
	}
	must.Do(t, seqd.Process.Kill())
	<-ended
	run("--gapless", append([]string{"restore", file}, path("b")...)...)
	run("restored", append([]string{"restore", file, "--gapless", "100", "--by", "5000"}, path("b")...)...)
	run("was restored at", append([]string{"restore", file, "--gapless", "100", "--by", "5000"}, path("c")...)...)
	run("was restored at", append([]string{"restore", file, "--gapless", "100", "--by", "9000"}, path("c")...)...)
	run("not empty", append([]string{"restore", file, "--gapless", "101", "--by", "5001"}, path("b")...)...)
	unfinished, err := json.Marshal(formerRestore{Into: "elsewhere", By: new(int64(5000)), Gapless: new(int64(100))})
	must.Do(t, err)
	must.Do(t, os.WriteFile(file+restoredNote, unfinished, 0o600))
	run("was restored at", append([]string{"restore", file, "--gapless", "100", "--by", "5000"}, path("c")...)...)
	marks := filepath.Join(t.TempDir(), "highest")
	must.Do(t, os.WriteFile(marks, []byte("invoice,6"), 0o600))
	run("was restored at", append([]string{"restore", file, "--highest", marks}, path("c")...)...)
	folder := t.TempDir()
	_, log, url, _ = startProcess(t, append(path("b"), "--snapshots.every", "1h", "--snapshots.folder", folder)...)
	go func() { _, _ = io.Copy(io.Discard, log) }()
	for target, want := range map[string]string{
		"order": `"6100"`, "tenant?key=a": `"6001"`, "tenant?key=b": `"6001"`, "invoice": `"104"`, "late": `"101"`,
	} {
		if got := get(t, url+"/seq/"+target); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	var saved []string
	await.True(t, "the node has saved a snapshot", func() bool {
		saved = must.Get(filepath.Glob(filepath.Join(folder, "seqd-*.snapshot")))(t)
		return len(saved) == 1
	})
	run("order    1 counters  highest 6099", "status", saved[0])
}
