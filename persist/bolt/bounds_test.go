package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// TestDescribe checks that a new file is called one: numbers that had been issued would come again.
func TestDescribe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	s := open(t, path)
	if got := s.Describe(); !strings.Contains(got, path+" was made just now") || s.Shared() {
		t.Errorf("%q, shared %v", got, s.Shared())
	}
	must.Do(t, s.Close())
	if got := open(t, path).Describe(); !strings.Contains(got, path) || strings.Contains(got, "just now") {
		t.Error(got)
	}
}

// TestAnswersOfAClosedStore checks that a closed store says so, whether or not it has had answers.
func TestAnswersOfAClosedStore(t *testing.T) {
	for _, used := range []bool{false, true} {
		k := newKept(t)
		if used {
			k.answers("a", ttl)
		}
		windows := k.store.answers.windows.list
		must.Do(t, k.store.Close())
		for _, one := range windows {
			select {
			case <-one.writer.stopped:
			default:
				t.Error("the writer of a window goes on")
			}
		}
		a := k.store.Answers()
		_, claim := a.Claim(t.Context(), "a", "claim", lease)
		_, swap := a.Swap(t.Context(), "a", "claim", "answer", ttl)
		_, purge := a.Purge(t.Context())
		_, now := k.store.Now(t.Context())
		_, find := k.store.answers.windows.find(t.Context(), "a")
		put := k.store.answers.windows.put("a", "answer", ttl)
		_, sweep := k.store.answers.windows.purge()
		for what, err := range map[string]error{"claim": claim, "swap": swap, "drop": a.Drop(t.Context(), "a", "claim"), "purge": purge, "now": now, "find": find, "put": put, "sweep": sweep} {
			must.Is(t, err, persist.ErrClosed, "used %v: %s", used, what)
		}
	}
}

// TestClaimsAreForgotten checks that the memory of a claim is freed: when it is answered or dropped,
// or by a purge after its lease.
func TestClaimsAreForgotten(t *testing.T) {
	k := newKept(t)
	held := func(want int) {
		t.Helper()
		must.Equal(t, len(k.store.answers.entries), want, "the claims held")
	}
	k.answers("a", ttl)
	held(0)
	k.claims("a", "claim", "answer a")
	held(0)
	k.claims("b", "claim", "")
	k.claims("c", "claim", "")
	held(2)
	for i, claim := range []string{"other", "claim"} {
		must.Do(t, k.store.Answers().Drop(t.Context(), "b", claim))
		held(2 - i)
	}
	k.pass(lease - time.Millisecond)
	k.purges(0)
	held(1)
	k.claims("c", "other", "claim")
	k.pass(time.Millisecond)
	k.purges(0)
	held(0)
	k.claims("d", "claim", "")
	k.swaps("d", "claim", "claim", 2*lease, "") // it lasts longer
	k.pass(2*lease - time.Millisecond)
	k.claims("d", "other", "claim")
	k.pass(time.Millisecond)
	k.claims("d", "other", "")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must.Is(t, must.Err(k.store.Answers().Purge(ended)), context.Canceled)
}

// TestWindowBounds checks when a window is full, and how many there are at most.
func TestWindowBounds(t *testing.T) {
	k := newKept(t)
	k.answers("a", 8*time.Hour)
	k.pass(time.Hour - time.Millisecond)
	k.answers("b", 8*time.Hour)
	must.Equal(t, len(k.files()), 1, "the windows before the first is full")
	k.pass(time.Millisecond)
	k.answers("c", 8*time.Hour)
	must.Equal(t, len(k.files()), 2, "the windows after an eighth of the time of an answer")
	for i := range 20 {
		k.pass(time.Hour)
		k.answers(fmt.Sprint(i), 8*time.Hour)
		k.claims("b", "other", "answer b")
	}
	must.Equal(t, len(k.files()), 16, "the windows")
	k.claims("19", "other", "answer 19")
}

// TestPurgeBounds checks that a window is removed when its last answer has expired, and not before.
func TestPurgeBounds(t *testing.T) {
	k := newKept(t)
	k.answers("a", time.Hour)
	k.pass(time.Minute)
	k.answers("b", time.Hour)
	k.pass(time.Hour)
	k.purges(0)
	k.claims("a", "other", "answer a")
	k.pass(time.Millisecond)
	k.purges(2)
	must.Equal(t, fmt.Sprint(k.files()), "[]", "the files left")
}

// failsOnce makes the next transaction of a window fail for lack of space.
func (w *window) failsOnce() {
	works := w.writer.update
	w.writer.update = func(func(*bbolt.Tx) error) error {
		w.writer.update = works
		return &os.PathError{Op: "write", Path: w.path, Err: syscall.ENOSPC}
	}
}

// TestWindowsThatCannotChange checks that an answer is refused if its window cannot be made, and that
// a purge says what it could not do. The next attempt succeeds.
func TestWindowsThatCannotChange(t *testing.T) {
	k := newKept(t)
	k.answers("a", time.Hour)
	k.pass(time.Hour / 2)
	w, second := &k.store.answers.windows, filepath.Join(k.path+answersSuffix, "00000002.db")
	for _, harm := range []func(){func() { _ = os.Mkdir(second, 0o700) }, func() { _ = os.Remove(second); w.list[0].failsOnce() }} {
		harm()
		if err := w.put("b", "answer b", time.Hour); err == nil || len(w.list) != 1 {
			t.Errorf("%v, %d windows", err, len(w.list))
		}
	}
	k.answers("b", time.Hour)
	k.pass(time.Hour)
	first := filepath.Join(filepath.Dir(second), "00000001.db")
	for _, harm := range []func(){w.list[1].failsOnce, func() { _, _ = os.Remove(first), os.MkdirAll(filepath.Join(first, "x"), 0o700) }} {
		harm()
		if n, err := k.store.Answers().Purge(t.Context()); n != 0 || err == nil {
			t.Errorf("purged %d, %v", n, err)
		}
	}
	if err := errors.Join(os.RemoveAll(first), os.Remove(second)); err != nil { // as an operator may
		t.Fatal(err)
	}
	k.pass(time.Hour)
	k.purges(1)
}

// TestWindowsInTheWay checks that answers are refused if their folder cannot be read.
func TestWindowsInTheWay(t *testing.T) {
	k := newKept(t)
	must.Do(t, os.WriteFile(k.path+answersSuffix, nil, 0o600))
	w := &k.store.answers.windows
	for what, err := range map[string]error{"find": must.Err(w.find(t.Context(), "a")), "put": w.put("a", "answer", ttl), "purge": must.Err(w.purge())} {
		must.Is(t, err, syscall.ENOTDIR, "%s", what)
	}
}

// TestClockSteps checks that the clock is written when it has advanced by half a minute, and not each
// time.
func TestClockSteps(t *testing.T) {
	k := newKept(t)
	k.answers("a", time.Hour)
	one := k.store.answers.windows.list[0]
	began := one.now().Clock
	for _, step := range []struct{ pass, want time.Duration }{{clockStep - time.Millisecond, 0}, {time.Millisecond, clockStep}, {time.Second, clockStep}, {clockStep, 2*clockStep + time.Second}} {
		k.pass(step.pass)
		k.purges(0)
		must.Equal(t, time.Duration(one.now().Clock-began)*time.Millisecond, step.want, "how far the clock has advanced %v later", step.pass)
	}
}

// TestAnswersAreOpenedAgain checks that files that could not be opened are tried again after a
// second, and not for each caller.
func TestAnswersAreOpenedAgain(t *testing.T) {
	k := newKept(t)
	dir := k.path + answersSuffix
	must.Do(t, os.WriteFile(dir, nil, 0o600))
	fails := func(why string) {
		t.Helper()
		if held, err := k.store.Answers().Claim(t.Context(), "a", "claim", lease); held != "" || err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %q, %v", why, held, err)
		}
	}
	fails("the folder is a file")
	must.Do(t, os.Remove(dir))
	fails("at once")
	k.pass(openPause - time.Millisecond)
	fails("before a second has passed")
	k.pass(time.Millisecond)
	k.answers("a", ttl)
	k.pass(ttl / 2)
	k.answers("b", ttl)
	k.reopen(k.day)
	dir = filepath.Join(dir, "00000002.db")
	must.Do(t, os.Rename(dir, k.path+".away"))
	fails("a window is missing")
	must.Do(t, os.Rename(k.path+".away", dir))
	k.pass(openPause)
	k.claims("a", "other", "answer a")
	k.claims("b", "other", "answer b")
}

// TestWritesThatBoltRefuses checks that the error of a write is returned, with a bucket in the place
// of a record.
func TestWritesThatBoltRefuses(t *testing.T) {
	k := newKept(t)
	s, ctx := k.store, t.Context()
	k.answers("a", ttl)
	k.claims("b", "claim", "")
	doc := persist.Document{Kind: "token", Key: "k", Revision: 1, Expires: 7}
	changed, another := doc, doc
	changed.Revision, changed.Expires, another.Key = 2, 8, "other"
	must.Do(t, errors.Join(s.Documents().Create(ctx, doc), s.History().Append(ctx, someHistory(5))))
	record := someHistory(6)[0]
	for _, harm := range []struct {
		writer *writer
		change func(*bbolt.Tx) error
	}{
		{s.writer, func(tx *bbolt.Tx) error {
			expiry := tx.Bucket(documentsBucket).Bucket(expiryBucket)
			err := expiry.Delete(expiryKey(doc))
			for _, doc := range []persist.Document{doc, another} {
				_, made := expiry.CreateBucket(expiryKey(doc))
				err = errors.Join(err, made)
			}
			return err
		}},
		{s.history.writer, func(tx *bbolt.Tx) error {
			_, err := tx.Bucket(historyBucket).CreateBucket([]byte(record.PersistID()))
			return err
		}},
		{s.answers.windows.list[0].writer, func(tx *bbolt.Tx) error {
			_, err := tx.Bucket(answersBucket).CreateBucket([]byte("b"))
			return err
		}},
	} {
		must.Do(t, harm.writer.do(t.Context(), harm.change))
	}
	_, purge := s.Documents().Purge(ctx, "token", 100, 10)
	_, history := s.History().Purge(ctx, "order", 100, 10)
	_, swap := s.Answers().Swap(ctx, "b", "claim", "answer", ttl)
	other := open(t, filepath.Join(t.TempDir(), "seqd.db"))
	must.Do(t, other.writer.do(t.Context(), func(tx *bbolt.Tx) error { return tx.Bucket(documentsBucket).Put(expiryBucket, nil) }))
	for what, err := range map[string]error{
		"a record for the bucket": other.Documents().Create(ctx, persist.Document{Kind: "token", Key: "k", Revision: 1}),
		"create":                  s.Documents().Create(ctx, another), "update": s.Documents().Update(ctx, changed), "delete": s.Documents().Delete(ctx, "token", "k", 1),
		"keep": s.Documents().Keep(ctx, []persist.Document{another}), "purge": purge,
		"append": s.History().Append(ctx, []persist.HistoryRecord{record}), "purge of the history": history, "swap": swap,
	} {
		if err == nil {
			t.Errorf("%s: there was no error", what)
		}
	}
}

// TestRefusedSwapWritesNothing checks that a swap of a registry that is not there makes none.
func TestRefusedSwapWritesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "seqd.db"))
	slot := persist.Slot{ID: 1, Key: "k"}
	if made, err := s.Slots().Swap(t.Context(), "order", persist.SlotSwap{OldSlot: &slot, NewSlot: &slot}); made || err != nil {
		t.Error(made, err)
	}
	err := s.db.View(func(tx *bbolt.Tx) error {
		_, err := get[persist.Registry](tx.Bucket(slotsBucket), "order")
		return err
	})
	must.Is(t, err, persist.ErrNotFound, "there is a registry")
}

// TestInspectAnswers checks how many files and answers an operator is told of.
func TestInspectAnswers(t *testing.T) {
	k := newKept(t)
	for i := range 5 {
		k.answers(fmt.Sprint(i), ttl)
		k.pass(2 * time.Hour)
	}
	must.Do(t, k.store.Close())
	s := must.Get(OpenReadOnly(Options{Path: k.path, LockTimeout: time.Second, Now: time.Now}))(t)
	defer s.Close()
	if files, answers, err := s.InspectAnswers(); files != 3 || answers != 5 || err != nil {
		t.Errorf("%d files with %d answers, %v", files, answers, err)
	}
	other := filepath.Join(k.path+answersSuffix, "1.db") // not a number of 8 digits
	must.Do(t, os.WriteFile(other, nil, 0o600))
	if files, answers, err := s.InspectAnswers(); files != 3 || answers != 5 || err != nil {
		t.Errorf("beside another file: %d files with %d answers, %v", files, answers, err)
	}
	must.Do(t, errors.Join(os.RemoveAll(k.path+answersSuffix), os.WriteFile(k.path+answersSuffix, nil, 0o600)))
	if _, _, err := s.InspectAnswers(); err == nil {
		t.Error("the folder is a file")
	}
}

// TestReadOnlyRefuses checks what is said of files that cannot be looked at.
func TestReadOnlyRefuses(t *testing.T) {
	dir := t.TempDir()
	empty, foreign := filepath.Join(dir, "empty.db"), filepath.Join(dir, "foreign.db")
	must.Do(t, errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(foreign, []byte(strings.Repeat("no database ", 5000)), 0o600)))
	for path, why := range map[string]string{empty: "empty", foreign: "open store file"} {
		if _, err := OpenReadOnly(Options{Path: path, LockTimeout: time.Second, Now: time.Now}); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
