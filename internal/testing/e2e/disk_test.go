//go:build integration

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/internal/testing/node"
	"github.com/seqd/seqd/internal/testing/ordercheck"
)

// These tests mount small file systems, which needs root.

// tmpfs mounts a file system of the given size.
func tmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
	t.Cleanup(func() {
		must.Report(t, syscall.Unmount(dir, syscall.MNT_DETACH))
	})
	return dir
}

// fill writes a file until nothing more fits.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	must.Do(t, err)
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		must.Do(t, os.Remove(path))
	}
}

// bizTypes returns n biz types. With enough of them, their records need pages that the file does
// not have yet.
func bizTypes(n int) (names []string, env string) {
	list := make([]map[string]string, n)
	for i := range list {
		name := fmt.Sprintf("t%03d%s", i, strings.Repeat("x", 56))
		names = append(names, name)
		list[i] = map[string]string{"name": name}
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return names, "SEQD_BIZTYPES=" + string(text)
}

// The disk is full before the store exists: the process stays up, reports why it is not ready, and
// recovers by itself.
func TestDiskFullAtFirstStart(t *testing.T) {
	dir := tmpfs(t, "512k")
	must.Do(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
	free := fill(t, dir)
	n := node.Start(t, dir)
	if status, body := n.Status("/healthz"); status != 200 {
		t.Errorf("healthz says %d: %s", status, body)
	}
	n.AwaitReadiness(503, "store_unavailable") // until then it is only starting
	wantText(t, n.Await("/seq/order", 503), "store_unavailable")
	wantText(t, n.Log(), "no space left on device", "data/seqd.db")
	free()
	n.AwaitAll()
	if numbers, err := n.Take("order", 1); err != nil || numbers[0] != 100 {
		t.Errorf("got %v, %v", numbers, err)
	}
	n.Stop()
}

// The disk fills up while numbers are issued, and the process is killed meanwhile. Nothing is
// issued that was not on disk. Biz types that need no space continue, and the others do so once
// there is space again.
func TestDiskFullWhileIssuing(t *testing.T) {
	dir := tmpfs(t, "1m")
	names, env := bizTypes(300)
	histories := make(map[string]*ordercheck.Record)
	for _, name := range names {
		histories[name] = ordercheck.New()
	}
	// A request waits this long if there is no space, and it may be refused if the disk is slow.
	settings := []string{env, "SEQD_SEGMENT_STEP=3", "SEQD_SEGMENT_MAXSTEP=3", "SEQD_SEGMENT_ACQUIRETIMEOUT=100ms"}
	issue := func(n *node.Node) (refused int) {
		for _, name := range names {
			h := histories[name]
			began := h.Now()
			numbers, err := n.Take(name, 7)
			switch {
			case err == nil:
				h.Add(began, name, numbers)
			case errors.Is(err, node.ErrStatus) && (strings.Contains(err.Error(), "store_unavailable") || strings.Contains(err.Error(), "timeout")):
				refused++
			default:
				t.Fatalf("%s: %v\n%s", name, err, n.Log())
			}
		}
		return refused
	}
	issueAll := func(n *node.Node) {
		await.Eventually(t, "no biz type is rejected with space on the disk", func() error {
			if refused := issue(n); refused > 0 {
				return fmt.Errorf("%d are", refused)
			}
			return nil
		})
	}
	must.Do(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
	// The store exists, with one biz type; then the disk is full.
	node.StartReady(t, dir).Stop()
	free := fill(t, dir)
	n := node.Start(t, dir, settings...)
	n.Await("/seq/unknown", 404) // the store is open
	await.Eventually(t, "biz types cannot issue", func() error {
		if _, body := n.Status("/readyz"); !strings.Contains(body, "store_unavailable") {
			return errors.New(body)
		}
		return nil
	})
	refused := issue(n)
	if refused == 0 {
		t.Fatal("no request was rejected: the disk was not full for the store")
	}
	wantText(t, n.Log(), "no space left on device")
	free()
	n.AwaitAll()
	issueAll(n)
	free = fill(t, dir)
	issue(n)
	n.Kill()
	free()
	n = node.StartReady(t, dir, settings...)
	issueAll(n)
	n.Stop()
	total := 0
	for _, h := range histories {
		must.Report(t, h.Check())
		total += h.Numbers()
	}
	t.Logf("%d of %d biz types were rejected at first, %d numbers issued in all", refused, len(names), total)
}

// With a data folder that cannot be written, the process ends with an error that names the file.
func TestReadOnlyDataFolder(t *testing.T) {
	for _, existing := range []bool{false, true} {
		t.Run(fmt.Sprintf("existing store %v", existing), func(t *testing.T) {
			dir := tmpfs(t, "1m")
			must.Do(t, os.Mkdir(filepath.Join(dir, "data"), 0o755))
			if existing {
				node.StartReady(t, dir).Stop()
			}
			must.Do(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			wantText(t, node.Launch(t, dir).Fails(), "data/seqd.db", "read-only file system")
		})
	}
}

// The disk is full while seqd generate writes: it says so, and continues when there is room.
func TestDiskFullWhileGenerating(t *testing.T) {
	n := node.StartReady(t, t.TempDir(), invites)
	dir := tmpfs(t, "1m")
	args := []string{"generate", "invite", "--count", "500000", "-o", "codes.txt", "--resume"}
	for range 2 { // also with a disk that was full before
		out, err := n.Tool(dir, args...).CombinedOutput()
		if err == nil {
			t.Fatal("6 MB fit into 1 MB")
		}
		wantText(t, string(out), "write codes.txt: no space left on device", "--resume continues")
	}
	must.Do(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, "size=16m"))
	if out, err := n.Tool(dir, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checkNumbers(t, n, "invite", filepath.Join(dir, "codes.txt"), 500_000)
}

// A disk that is full from the start leaves nothing behind.
func TestDiskFullBeforeGenerating(t *testing.T) {
	n := node.StartReady(t, t.TempDir(), invites)
	dir := tmpfs(t, "64k")
	fill(t, dir)
	out, err := n.Tool(dir, "generate", "invite", "--count", "500000", "-o", "codes.txt").CombinedOutput()
	if err == nil {
		t.Fatal("it is done")
	}
	wantText(t, string(out), "no space left on device")
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
