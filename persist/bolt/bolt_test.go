package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/persist/persisttest"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s := must.Get(Open(Options{Path: path, LockTimeout: 50 * time.Millisecond, Now: time.Now, noSync: true}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// refuses opens path and checks that the error names the file and says why.
func refuses(t *testing.T, path, why string) error {
	t.Helper()
	s, err := Open(Options{Path: path, LockTimeout: 50 * time.Millisecond, Now: time.Now})
	if err == nil {
		_ = s.Close()
		t.Fatalf("%s was opened", path)
	}
	if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), why) {
		t.Errorf("the error %q does not say %q and %q", err, path, why)
	}
	return err
}

func addCounter(t *testing.T, s *Store, bizTag string) {
	t.Helper()
	must.Do(t, s.Counters().Create(t.Context(), persist.Counter{BizTag: bizTag, Step: 10}))
}

func TestConformance(t *testing.T) {
	persisttest.Run(t, func(t *testing.T, now func() time.Time) persist.Store {
		return must.Get(Open(Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: now, noSync: true}))(t)
	})
}

func TestCounterSurvivesReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b", "seqd.db")
	s := open(t, path)
	addCounter(t, s, "order")
	first := must.Get(s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10}))(t)
	must.Do(t, s.Close())
	second, err := open(t, path).Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 10})
	if err != nil || second.First != first.Last+1 {
		t.Errorf("after reopening came %+v, %v, want it above %+v", second, err, first)
	}
}

// What is not synced is not persisted.
func TestWritesAreSynced(t *testing.T) {
	s := must.Get(Open(Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now}))(t)
	defer s.Close()
	if s.db.NoSync || s.db.NoGrowSync {
		t.Error("the store is opened without syncs")
	}
}

func TestCreateLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	open(t, filepath.Join(dir, "seqd.db"))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("the data folder holds %v, %v", entries, err)
	}
}

// Of many openers of a file that does not exist yet exactly one gets it, and it is the file that
// bears the name.
func TestConcurrentCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	var wg sync.WaitGroup
	stores := make(chan *Store, 16)
	for range cap(stores) {
		wg.Go(func() {
			s, err := Open(Options{Path: path, LockTimeout: 50 * time.Millisecond, Now: time.Now})
			if err == nil {
				stores <- s
			} else if !strings.Contains(err.Error(), "another process is using it") {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(stores)
	opened := 0
	for s := range stores {
		opened++
		must.Report(t, s.stillThere())
		_ = s.Close()
	}
	must.Equal(t, opened, 1, "the openers that have the file at once")
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, data, 0o600))
		return path
	}
	t.Run("a locked file", func(t *testing.T) {
		path := filepath.Join(dir, "locked.db")
		open(t, path)
		if err := refuses(t, path, "another process is using it"); errors.Is(err, persist.ErrUnavailable) {
			t.Error("a locked file must not be waited for")
		}
	})
	t.Run("an empty file", func(t *testing.T) { refuses(t, write("empty.db", nil), "it is empty") })
	t.Run("a foreign file", func(t *testing.T) {
		refuses(t, write("foreign.db", bytes.Repeat([]byte("no database "), 5000)), "damaged or not a store")
	})
	t.Run("a folder", func(t *testing.T) { refuses(t, dir, "directory") })
	t.Run("a folder that is a file", func(t *testing.T) {
		file := write("file", []byte("x"))
		refuses(t, filepath.Join(file, "seqd.db"), "open store file")
		refuses(t, filepath.Join(file, "data", "seqd.db"), "create the data folder")
	})
	t.Run("another program's bbolt file", func(t *testing.T) {
		path := filepath.Join(dir, "other.db")
		db := must.Get(bbolt.Open(path, 0o600, nil))(t)
		must.Do(t, db.Close())
		refuses(t, path, "not a store of seqd")
	})
	changed := func(change func(*bbolt.Tx) error) string {
		path := filepath.Join(t.TempDir(), "seqd.db")
		s := open(t, path)
		must.Do(t, errors.Join(s.writer.do(t.Context(), change), s.Close()))
		return path
	}
	for format, why := range map[string]string{fmt.Sprint(fileFormat + 1): "newer", "1": "start a build of November 2026", "0": "cannot be read", "x": "cannot be read"} {
		t.Run("the format "+format, func(t *testing.T) {
			path := changed(func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(formatKey, []byte(format)) })
			if err := refuses(t, path, why); errors.Is(err, persist.ErrNewer) != (why == "newer") || errors.Is(err, persist.ErrOlder) != (format == "1") {
				t.Errorf("error %v", err)
			}
			if done, err := compactFile(Options{Path: path, LockTimeout: time.Second, Now: time.Now}); err == nil || len(done) != 0 {
				t.Errorf("it was compacted: %v, %v", done, err)
			}
		})
	}
	t.Run("a bucket is missing", func(t *testing.T) {
		refuses(t, changed(func(tx *bbolt.Tx) error { return tx.DeleteBucket(slotsBucket) }), "not a store of seqd")
	})
}

// TestPagesBeyondTheEnd checks that a file is refused if a page says that it is longer than the
// rest of the file, unless the page is free.
func TestPagesBeyondTheEnd(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
	addCounter(t, s, "order")
	var free []bool
	err := s.db.View(func(tx *bbolt.Tx) error {
		for id := range int(tx.Size()) / os.Getpagesize() {
			page, err := tx.Page(id)
			if err != nil {
				return err
			}
			free = append(free, page.Type == "free")
		}
		return nil
	})
	whole, readErr := os.ReadFile(s.path)
	if err := errors.Join(err, readErr, os.Remove(s.path), s.check(storeContent())); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a file that has gone: %v", err)
	}
	opens := func(id, overflow int) bool {
		hurt := bytes.Clone(whole)
		binary.LittleEndian.PutUint32(hurt[id*os.Getpagesize()+12:], uint32(overflow))
		path := filepath.Join(t.TempDir(), "seqd.db")
		must.Do(t, os.WriteFile(path, hurt, 0o600))
		s, err := Open(Options{Path: path, LockTimeout: time.Second, Now: time.Now, noSync: true})
		if err == nil {
			_ = s.Close()
		} else if !strings.Contains(err.Error(), "pages long") {
			t.Error(err)
		}
		return err == nil
	}
	if !opens(0, len(free)-1) || !slices.Contains(free, true) {
		t.Errorf("the first page reaches to the end; free are %v", free)
	}
	pages := len(free)
	for id, free := range free {
		for _, overflow := range []int{pages - id, pages} {
			must.Equal(t, opens(id, overflow), free, "page %d and %d more of %d: opened", id, overflow, pages)
		}
	}
}

// A process that goes on with a removed or replaced file would lose its maximum with it, and the
// next process would repeat its numbers.
func TestRemovedFileIsNoticed(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "seqd.db")
			s := open(t, path)
			addCounter(t, s, "order")
			must.Do(t, harm(path))
			s.writer.update = func(func(*bbolt.Tx) error) error { t.Error("it is written to"); return nil }
			_, err := s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 1})
			if !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), path) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// Writes that wait for the disk together share one transaction; one that fails takes nobody with
// it.
func TestWritesShareTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
		defer s.Close()
		transactions := 0
		works := s.writer.update
		s.writer.update = func(f func(*bbolt.Tx) error) error { transactions++; return works(f) }
		release := make(chan struct{})
		go func() { _ = s.writer.do(t.Context(), func(*bbolt.Tx) error { <-release; return nil }) }()
		synctest.Wait() // the first transaction is under way
		const n = most + 1
		for i := range n {
			go func() {
				err := s.Counters().Create(t.Context(), persist.Counter{BizTag: fmt.Sprintf("b%d", i/2), Step: 1})
				if err != nil && !errors.Is(err, persist.ErrExists) {
					t.Error(err)
				}
			}()
		}
		synctest.Wait() // all others wait for it
		close(release)
		synctest.Wait()
		list, err := s.Counters().List(t.Context(), "", n)
		if err != nil || len(list) != (n+1)/2 {
			t.Errorf("%d counters were created, %v, want %d", len(list), err, (n+1)/2)
		}
		if transactions != 6 { // each is followed by an empty one
			t.Errorf("%d transactions for 1, %d and 1 writes, want 6", transactions, most)
		}
	})
}

func TestFailedTransactions(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "seqd.db", Err: syscall.ENOSPC}
	tests := []struct {
		name     string
		err      error
		harmless bool
	}{
		{"page not written", full, true},
		{"quota", &os.PathError{Op: "write", Path: "seqd.db", Err: syscall.EDQUOT}, true},
		{"too large", &os.PathError{Op: "write", Path: "seqd.db", Err: syscall.EFBIG}, true},
		{"file removed", errMoved, true},
		{"file not grown", errors.New("file resize error: no space left on device"), true},
		{"sync failed", syscall.EIO, false},
		{"sync failed, as other systems say it", &os.PathError{Op: "sync", Path: "seqd.db", Err: syscall.EIO}, false},
		{"page not written for an unknown reason", &os.PathError{Op: "write", Path: "seqd.db", Err: syscall.EIO}, false},
		{"sync after growing failed", errors.New("file sync error: input/output error"), false},
		{"anything else", errors.New("what"), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			must.Equal(t, harmless(test.err), test.harmless, "harmless")
			if err := translate(test.err); !errors.Is(err, persist.ErrUnavailable) || !errors.Is(err, test.err) {
				t.Errorf("translated to %v", err)
			}
			if err := outOfSpace(test.err); !errors.Is(err, test.err) || noSpace(test.err) && !errors.Is(err, persist.ErrUnavailable) {
				t.Errorf("marked as %v", err)
			}
		})
	}
}

// After a failed sync nothing is handed out any more: what the kernel shows may not be on the disk.
// A failed write passes.
func TestWriterAfterFailure(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		after error
	}{
		{"sync failed", syscall.EIO, persist.ErrUnavailable},
		{"no space", &os.PathError{Op: "write", Path: "seqd.db", Err: syscall.ENOSPC}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
			addCounter(t, s, "order")
			allocate := func() error {
				_, err := s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: 1})
				return err
			}
			works := s.writer.update
			s.writer.update = func(func(*bbolt.Tx) error) error { return test.err }
			must.Is(t, allocate(), persist.ErrUnavailable, "during the failure")
			s.writer.update = works
			must.Is(t, allocate(), test.after, "after the failure")
		})
	}
}

// TestReadersSeeNoLess checks what readers may see as transactions reach the disk.
func TestReadersSeeNoLess(t *testing.T) {
	var s settled
	for _, id := range []int{5, 3} {
		s.reach(id)
		if !s.has(5) || s.has(6) {
			t.Errorf("after %d it has %d", id, s.upTo.Load())
		}
	}
	if err := translate(bolterrors.ErrDatabaseNotOpen); !harmless(bolterrors.ErrDatabaseNotOpen) || err != persist.ErrClosed {
		t.Errorf("of a closed file: %v", err)
	}
}

func BenchmarkAllocate(b *testing.B) {
	s := must.Get(Open(Options{Path: filepath.Join(b.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now}))(b)
	defer s.Close()
	must.Do(b, s.Counters().Create(b.Context(), persist.Counter{BizTag: "order", Step: 1}))
	for b.Loop() {
		must.Get(s.Counters().Allocate(b.Context(), persist.Request{BizTag: "order", Size: 1}))(b)
	}
}
