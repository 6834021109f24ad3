package sqlfaults

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/seqd/seqd/integration/testenv"
	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
)

// The disk of the server is full. The server may end, and then an operator starts it again once
// there is space. Nothing that it acknowledged is lost.
func TestFullDisk(t *testing.T) {
	longtest.Only(t)
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		disk := smallDisk(t, "120m")
		p := testenv.StartPostgresIn(t, disk, "max_wal_size = 8MB", "wal_recycle = off")
		fullDisk(onPostgres(t, p, p.Addr()), disk)
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		disk := smallDisk(t, "120m")
		m := testenv.StartMariaDBIn(t, disk, "log-bin=binlog", "sync-binlog=1", "max-binlog-size=4096")
		fullDisk(onMariaDB(t, m), disk)
	})
}

func fullDisk(s *system, disk string) {
	s.Helper()
	s.load()
	filler := filepath.Join(disk, "filler")
	refusals := func() int64 { return min(s.traffic[0].Failed(), s.traffic[1].Failed()) }
	before := refusals()
	await.True(s, "the nodes need the disk", func() bool {
		fill(s.T, filler) // again, because the server may remove files
		if isPostgres(s) {
			useUpLog(s)
		}
		return refusals() > before
	})
	must.Do(s, os.Remove(filler))
	s.returns() // the server may be about to end, and to recover or not; MariaDB itself tries again every minute
	s.finish(away...)
}

// useUpLog makes the server need another file for its log soon, by leaving the rest of each empty.
func useUpLog(s *system) {
	for range 10 {
		run, close, err := trySession(s)
		if err != nil {
			return // it has ended
		}
		_, _ = run("SELECT pg_switch_wal()") // it may end the server
		close()
	}
}

// smallDisk mounts a small file system in memory.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mount a tmpfs (this test needs root): %v", err)
	}
	t.Cleanup(func() {
		must.Report(t, syscall.Unmount(dir, syscall.MNT_DETACH))
	})
	must.Do(t, os.Chmod(filepath.Dir(dir), 0o711))
	return dir
}

// fill appends to a file until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must.Do(t, err)
	defer func() { _ = file.Close() }()
	for _, size := range []int{1 << 20, 4096} {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
