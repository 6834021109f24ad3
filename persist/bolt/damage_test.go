package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/testing/await"
	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

func allocate(t *testing.T, s *Store, size int64) (persist.Range, error) {
	t.Helper()
	return s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order", Size: size})
}

// A process that waits for the lock has opened the file already. When the name leads elsewhere by
// the time it gets the lock, it must not issue from what it holds.
func TestReplacedWhileWaitingForTheLock(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string){
		"removed and made anew": func(t *testing.T, path string) {
			must.Do(t, os.Remove(path))
			open(t, path)
		},
		"a backup moved over it": func(t *testing.T, path string) {
			data, err := os.ReadFile(path)
			must.Do(t, errors.Join(err, os.WriteFile(path+".backup", data, 0o600), os.Rename(path+".backup", path)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "seqd.db")
			first := open(t, path)
			second := make(chan error)
			go func() {
				s, err := Open(Options{Path: path, LockTimeout: time.Hour, Now: time.Now})
				if err == nil {
					err = errors.Join(errors.New("it was opened"), s.Close())
				}
				second <- err
			}()
			awaitOpen(t, path, 2)
			replace(t, path)
			must.Do(t, first.Close())
			must.Is(t, <-second, errMoved, "the second store")
		})
	}
}

// awaitOpen waits until this process has the file open n times.
func awaitOpen(t *testing.T, path string, n int) {
	t.Helper()
	await.True(t, fmt.Sprintf("%s is open %d times", path, n), func() bool {
		links := must.Get(filepath.Glob("/proc/self/fd/*"))(t)
		count := 0
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && target == path {
				count++
			}
		}
		return count >= n
	})
}

// bbolt panics when it meets some damages. Whoever waits for the write must not be told that it is
// on disk, the process goes on, and nothing more is done with the file.
func TestPanicIsNoSuccess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	s := open(t, path)
	addCounter(t, s, "order")
	works := s.writer.update
	s.writer.update = func(f func(*bbolt.Tx) error) error {
		return works(func(tx *bbolt.Tx) error { _ = f(tx); panic("page 7 already freed") })
	}
	_, first := allocate(t, s, 1)
	s.writer.update = works
	_, second := allocate(t, s, 1)
	_, read := s.Counters().Read(t.Context(), "order")
	for what, err := range map[string]error{"the caller": first, "the next one": second, "a reader": read} {
		text := fmt.Sprint(err)
		if !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(text, path) || !strings.Contains(text, "page 7") || !strings.Contains(text, "seqd raise") {
			t.Errorf("%s was told %v", what, err)
		}
	}
	must.Do(t, s.Close())
	open(t, path) // the lock is free
}

// A lock that bbolt holds after a panic must not keep the store from closing.
func TestCloseAfterPanicWithLock(t *testing.T) {
	s := must.Get(Open(Options{Path: filepath.Join(t.TempDir(), "seqd.db"), LockTimeout: time.Second, Now: time.Now}))(t)
	held := make(chan *bbolt.Tx, 1)
	s.writer.update = func(func(*bbolt.Tx) error) error {
		tx, err := s.db.Begin(true) // and its lock, as after a panic while it is rolled back
		if err != nil {
			return err
		}
		held <- tx
		panic("page 7 already freed")
	}
	for range 2 {
		must.Is(t, must.Err(allocate(t, s, 1)), errPanicked)
	}
	must.Report(t, s.Close())
	must.Report(t, (<-held).Rollback())
}

// damages are what can become of a page. Those of early would make bbolt count to billions if they
// came to be while the file is open.
var damages = map[string]func(page []byte){
	"zeros":     func(page []byte) { clear(page) },
	"ones":      func(page []byte) { fill(page, 0xff) },
	"text":      func(page []byte) { copy(page, bytes.Repeat([]byte("no database "), len(page)/12)) },
	"flags":     func(page []byte) { page[8] ^= 0x03 },
	"count":     func(page []byte) { page[10], page[11] = 0xff, 0x7f },
	"overflow":  func(page []byte) { page[15] = 0x7f },
	"longer":    func(page []byte) { page[12] ^= 0x05 },
	"positions": func(page []byte) { fill(page[16:64], 0x7f) },
	"second":    func(page []byte) { fill(page[len(page)/2:], 0xa5) },
}

var early = []string{"ones", "text", "overflow"}

func fill(data []byte, with byte) {
	for i := range data {
		data[i] = with
	}
}

// Whatever page of a file is damaged, while it is open or before: the process goes on, numbers are
// higher than those before or there are none, and an error of bbolt names the file.
func TestDamagedPages(t *testing.T) {
	origin := filepath.Join(t.TempDir(), "seqd.db")
	s := open(t, origin)
	const counters = 300 // they need branch pages
	for i := range counters {
		addCounter(t, s, fmt.Sprintf("order%03d", i))
	}
	must.Get(s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order150", Size: 10}))(t)
	must.Do(t, s.Close())
	whole := must.Get(os.ReadFile(origin))(t)
	size := os.Getpagesize()
	dir, failed := t.TempDir(), 0
	for at := 0; at+size <= len(whole); at += size {
		if page := at / size; page >= 4 && page%longtest.Or(8, 1) != 0 {
			continue
		}
		for name, damage := range damages {
			for _, late := range []bool{false, true} {
				if late && slices.Contains(early, name) {
					continue
				}
				path := filepath.Join(dir, fmt.Sprintf("%s-%d-%v.db", name, at/size, late))
				hurt := bytes.Clone(whole)
				damage(hurt[at : at+size])
				failed += useDamaged(t, path, whole, hurt, late)
				_ = os.Remove(path)
			}
		}
	}
	if failed == 0 {
		t.Error("no damage was noticed")
	}
}

// useDamaged uses a file that is damaged before it is opened, or after, and returns 1 if that
// failed.
func useDamaged(t *testing.T, path string, whole, hurt []byte, late bool) int {
	t.Helper()
	first := hurt
	if late {
		first = whole
	}
	must.Do(t, os.WriteFile(path, first, 0o600))
	s, err := Open(Options{Path: path, LockTimeout: time.Second, Now: time.Now, noSync: true})
	if err == nil {
		defer s.Close()
		if late {
			overwrite(t, path, hurt)
		}
		err = useAll(t, s, path)
	}
	if err == nil {
		return 0
	}
	if !strings.Contains(err.Error(), path) && !errors.Is(err, persist.ErrInvalid) && !errors.Is(err, persist.ErrNotFound) {
		t.Errorf("%s: %v", path, err)
	}
	return 1
}

// overwrite changes the file that others have open.
func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must.Do(t, err)
	_, err = f.Write(data)
	must.Do(t, errors.Join(err, f.Close()))
}

// useAll reads and writes, and returns the first error.
func useAll(t *testing.T, s *Store, path string) (first error) {
	t.Helper()
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	for _, i := range []int{0, 150, 299} {
		r, err := s.Counters().Allocate(t.Context(), persist.Request{BizTag: fmt.Sprintf("order%03d", i), Size: 1})
		note(err)
		if err == nil && i == 150 && r.First <= 10 {
			t.Errorf("%s: %v was issued before", path, r)
		}
	}
	_, err := s.Counters().List(t.Context(), "", 1000)
	note(err)
	_, err = s.Documents().List(t.Context(), "token", "", 10)
	note(err)
	note(s.Documents().Create(t.Context(), persist.Document{Kind: "token", Key: "a", Revision: 1, Body: strings.Repeat("x", 100_000)}))
	return first
}

// A file that is cut short while it is open faults when it is read, and does not end the process.
func TestTruncatedWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	s := open(t, path)
	for i := range 300 {
		addCounter(t, s, fmt.Sprintf("order%03d", i))
	}
	must.Do(t, os.Truncate(path, 0))
	_, read := s.Counters().List(t.Context(), "", 1000)
	_, write := s.Counters().Allocate(t.Context(), persist.Request{BizTag: "order150", Size: 1})
	for what, err := range map[string]error{"read": read, "write": write} {
		if !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestRemovedDuringCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	s := open(t, path)
	addCounter(t, s, "order")
	works := s.writer.update
	s.writer.update = func(f func(*bbolt.Tx) error) error { return errors.Join(works(f), os.RemoveAll(path)) }
	if r, err := allocate(t, s, 1); err == nil {
		t.Errorf("%v left a store whose file is gone", r)
	}
}

// One rotten byte in the meta page written last makes bbolt open the state before, silently. No
// range may come back by that.
func TestRottenMetaPage(t *testing.T) {
	for _, page := range []int64{0, 1} {
		path := filepath.Join(t.TempDir(), "seqd.db")
		s := open(t, path)
		addCounter(t, s, "order")
		first, err := allocate(t, s, 10)
		must.Do(t, errors.Join(err, s.Close()))
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		must.Do(t, err)
		_, err = f.WriteAt([]byte{0xff}, page*int64(os.Getpagesize())+16+40)
		must.Do(t, errors.Join(err, f.Close()))
		if second, err := allocate(t, open(t, path), 10); err != nil || second.First <= first.Last {
			t.Errorf("meta page %d: after %v came %v, %v", page, first, second, err)
		}
	}
}

// A file cut short or with a hole is refused in words, or the numbers go on higher; seqd does not
// crash on it.
func TestTruncatedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	s := open(t, path)
	for _, name := range []string{"order", "a", "b", "c"} {
		addCounter(t, s, name)
	}
	last, err := allocate(t, s, 10)
	must.Do(t, errors.Join(err, s.Close()))
	whole := must.Get(os.ReadFile(path))(t)
	for size := 1; size < len(whole); size += 1021 {
		cut := filepath.Join(t.TempDir(), "seqd.db")
		must.Do(t, os.WriteFile(cut, whole[:size], 0o600))
		s, err := Open(Options{Path: cut, LockTimeout: time.Second, Now: time.Now, noSync: true})
		if err != nil {
			if !strings.Contains(err.Error(), cut) {
				t.Errorf("cut to %d bytes: %v", size, err)
			}
			continue
		}
		if r, err := allocate(t, s, 1); err == nil && r.First <= last.Last {
			t.Errorf("cut to %d bytes: %v after %v", size, r, last)
		}
		_ = s.Close()
	}
}

func TestRecordOfAnother(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
	record, err := persist.Encode(persist.Counter{BizTag: "other", Max: 5, Step: 10})
	must.Do(t, err)
	err = s.writer.do(t.Context(), func(tx *bbolt.Tx) error {
		b := tx.Bucket(countersBucket)
		return errors.Join(b.Put([]byte("order"), record), b.Put([]byte("user"), []byte("x")))
	})
	must.Do(t, err)
	must.Is(t, must.Err(s.Counters().List(t.Context(), "", 10)), persist.ErrInvalid, "the list")
	if r, err := allocate(t, s, 1); !errors.Is(err, persist.ErrInvalid) {
		t.Errorf("got %v, %v", r, err)
	}
}

// A disk that hangs does not hold a caller beyond its context; what it waited for is forgotten.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
		defer s.Close()
		addCounter(t, s, "order")
		release := make(chan struct{})
		works := s.writer.update
		s.writer.update = func(f func(*bbolt.Tx) error) error { err := works(f); <-release; return err }
		for range 2 { // the first is in the transaction, the second waits for its turn
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			r, err := s.Counters().Allocate(ctx, persist.Request{BizTag: "order", Size: 10})
			if !errors.Is(err, context.DeadlineExceeded) || r != (persist.Range{}) || time.Since(began) != time.Second {
				t.Errorf("%v, %v after %s", r, err, time.Since(began))
			}
		}
		close(release)
		synctest.Wait()
		if r, err := allocate(t, s, 1); err != nil || r.First != 11 {
			t.Errorf("afterwards: %v, %v; the first of the abandoned ranges was taken, the second was not begun", r, err)
		}
	})
}

// The functions ran, the commit failed: nobody may believe what they returned.
func TestFailedCommitGivesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
	addCounter(t, s, "order")
	r := must.Get(allocate(t, s, 10))(t)
	works := s.writer.update
	s.writer.update = func(f func(*bbolt.Tx) error) error {
		return works(func(tx *bbolt.Tx) error {
			_ = f(tx)
			return &os.PathError{Op: "write", Err: syscall.ENOSPC}
		})
	}
	if given, err := s.Counters().GiveBack(t.Context(), "order", r); given || err == nil {
		t.Errorf("given %v, %v", given, err)
	}
	if got, err := allocate(t, s, 10); got != (persist.Range{}) || err == nil {
		t.Errorf("%v, %v", got, err)
	}
}

// A name that leads to nothing must not make bbolt create an empty database there.
func TestDanglingLink(t *testing.T) {
	dir := t.TempDir()
	path, target := filepath.Join(dir, "seqd.db"), filepath.Join(dir, "target.db")
	must.Do(t, os.Symlink(target, path))
	refuses(t, path, "no such file")
	must.Is(t, must.Err(os.Lstat(target)), os.ErrNotExist, "an empty database came to be")
}

// A document that is damaged is not purged, and holds up no others.
func TestPurgeOfDamagedDocument(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
	for i, key := range []string{"a", "b", "c"} {
		must.Do(t, s.Documents().Create(t.Context(), persist.Document{Kind: "answer", Key: key, Revision: 1, Expires: int64(i + 1)}))
	}
	must.Do(t, s.writer.do(t.Context(), func(tx *bbolt.Tx) error { return tx.Bucket(documentsBucket).Put([]byte("answer/a"), []byte("x")) }))
	must.Equal(t, must.Get(s.Documents().Purge(t.Context(), "answer", 10, 10))(t), 2, "purged")
	must.Is(t, must.Err(s.Documents().Read(t.Context(), "answer", "a")), persist.ErrInvalid, "the damaged one")
	must.Is(t, must.Err(s.Documents().List(t.Context(), "answer", "", 10)), persist.ErrInvalid, "the list")
}
