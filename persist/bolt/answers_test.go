package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

const (
	lease = 5 * time.Second
	ttl   = 24 * time.Hour
)

// kept is a store whose clocks a test sets.
type kept struct {
	*testing.T
	path  string
	store *Store

	mu      sync.Mutex    // guards the fields below
	day     time.Time     // the time of day
	elapsed time.Duration // what nobody sets
}

func newKept(t *testing.T) *kept {
	k := &kept{T: t, path: filepath.Join(t.TempDir(), "seqd.db"), day: time.UnixMilli(1_790_000_000_000)}
	k.open()
	return k
}

func (k *kept) open() {
	k.Helper()
	s := must.Get(Open(Options{
		noSync: true, Path: k.path, LockTimeout: time.Second, Now: func() time.Time { day, _ := k.clocks(); return day }, Elapsed: func() time.Duration { _, elapsed := k.clocks(); return elapsed },
	}))(k)
	k.store = s
	k.Cleanup(func() { _ = s.Close() })
}

// reopen opens the store again after it was closed, with the time of day then, in another process.
func (k *kept) reopen(day time.Time) {
	k.Helper()
	must.Do(k, k.store.Close())
	k.day, k.elapsed = day, 0
	k.open()
}

// pass lets time pass.
func (k *kept) pass(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.day, k.elapsed = k.day.Add(d), k.elapsed+d
}

func (k *kept) clocks() (day time.Time, elapsed time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.day, k.elapsed
}

func (k *kept) claims(id, claim, want string) {
	k.Helper()
	if held, err := k.store.Answers().Claim(k.Context(), id, claim, lease); held != want || err != nil {
		k.Errorf("a claim of %s found %.80q, %v, want %q", id, held, err, want)
	}
}

func (k *kept) swaps(id, old, text string, keep time.Duration, want string) {
	k.Helper()
	if held, err := k.store.Answers().Swap(k.Context(), id, old, text, keep); held != want || err != nil {
		k.Errorf("a swap of %s found %.80q, %v, want %q", id, held, err, want)
	}
}

// answers claims and answers.
func (k *kept) answers(id string, keep time.Duration) {
	k.Helper()
	k.claims(id, "claim", "")
	k.swaps(id, "claim", "answer "+id, keep, "")
}

func (k *kept) purges(want int) {
	k.Helper()
	if n, err := k.store.Answers().Purge(k.Context()); n != want || err != nil {
		k.Errorf("%d were purged, %v, want %d", n, err, want)
	}
}

// files returns the names of the windows.
func (k *kept) files() (names []string) {
	k.Helper()
	found := must.Get(filepath.Glob(filepath.Join(k.path+answersSuffix, "*")))(k)
	for _, name := range found {
		names = append(names, filepath.Base(name))
	}
	return names
}

// Answers are in files of their own: those of the counters are as small as before, and a window
// goes as a whole once all its answers have expired.
func TestAnswersAreDroppedWhole(t *testing.T) {
	k := newKept(t)
	addCounter(t, k.store, "order")
	before := must.Get(os.Stat(k.path))(t)
	const hours = 60
	most := 0
	for hour := range hours {
		for i := range 20 {
			k.answers(fmt.Sprintf("%d-%d", hour, i), ttl)
		}
		k.pass(time.Hour)
		must.Get(k.store.Answers().Purge(t.Context()))(t)
		most = max(most, len(k.files()))
		for ago := range 24 {
			if then := hour - ago; then >= 0 {
				k.claims(fmt.Sprintf("%d-7", then), "other", fmt.Sprintf("answer %d-7", then))
			}
		}
	}
	if after, err := os.Stat(k.path); err != nil || after.Size() != before.Size() {
		t.Errorf("the file of the counters grew from %d to %d bytes, %v", before.Size(), after.Size(), err)
	}
	if most < windowShare || most > windowShare+2 {
		t.Errorf("there were up to %d files", most)
	}
	k.claims("5-7", "other", "") // it has gone
	k.pass(2 * ttl)
	if _, err := k.store.Answers().Purge(t.Context()); err != nil || len(k.files()) != 0 {
		t.Errorf("left are %v, %v", k.files(), err)
	}
}

// A finished answer is replayed until it is purged, a claim until its lease ends.
func TestAnswerOutlivesItsTimeUntilPurged(t *testing.T) {
	k := newKept(t)
	k.answers("a", time.Minute)
	k.claims("b", "first", "")
	k.pass(time.Hour)
	k.claims("a", "other", "answer a")
	k.claims("b", "second", "")
	k.purges(1)
	k.claims("a", "other", "")
}

// Neither a clock that is set nor one that is wrong at a start ends an answer before its time.
func TestAnswersAndTheTimeOfDay(t *testing.T) {
	for name, change := range map[string]func(*kept){
		"set a day ahead":       func(k *kept) { k.day = k.day.Add(25 * time.Hour) },
		"a day ahead, and back": func(k *kept) { k.day = k.day.Add(25 * time.Hour); k.purges(0); k.day = k.day.Add(-25 * time.Hour) },
		"started a day ahead":   func(k *kept) { k.reopen(k.day.Add(25 * time.Hour)) },
		"started a day behind":  func(k *kept) { k.reopen(k.day.Add(-25 * time.Hour)) },
		"started ahead, written, set": func(k *kept) {
			k.reopen(k.day.Add(100 * time.Hour))
			k.answers("b", ttl)
			k.reopen(k.day.Add(-100 * time.Hour))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			k.answers("a", ttl)
			change(k)
			k.purges(0)
			k.claims("a", "other", "answer a")
			k.pass(ttl - time.Hour)
			k.purges(0)
			k.claims("a", "other", "answer a")
			k.pass(5 * time.Hour)
			must.Get(k.store.Answers().Purge(t.Context()))(t)
			k.claims("a", "other", "")
		})
	}
}

// The clock goes on where it was over restarts, also when nothing is answered.
func TestAnswersExpireOverRestarts(t *testing.T) {
	k := newKept(t)
	k.answers("a", 10*time.Minute)
	for range 9 {
		k.pass(time.Minute)
		k.purges(0)
		k.reopen(k.day)
	}
	k.claims("a", "other", "answer a")
	k.pass(2 * time.Minute)
	k.purges(1)
	must.Equal(t, fmt.Sprint(k.files()), "[]", "the files left")
}

// copied is what a process that is killed now leaves.
func (k *kept) copied() *kept {
	k.Helper()
	next := &kept{T: k.T, path: filepath.Join(k.TempDir(), "seqd.db"), day: k.day}
	must.Do(k, os.CopyFS(filepath.Dir(next.path), os.DirFS(filepath.Dir(k.path))))
	return next
}

// What was acknowledged is there after a kill, and a claim is not: its owner has gone.
func TestAnswersAfterAKill(t *testing.T) {
	k := newKept(t)
	for i := range 30 {
		k.answers(fmt.Sprint(i), ttl)
		k.pass(time.Hour / 2)
	}
	k.claims("under way", "claim", "")
	next := k.copied()
	next.open()
	for i := range 30 {
		next.claims(fmt.Sprint(i), "other", fmt.Sprint("answer ", i))
	}
	next.claims("under way", "other", "")
	if got, want := len(next.files()), len(k.files()); got != want || want < 3 {
		t.Errorf("%d files, then %d", want, got)
	}
}

// While the disk hangs, a caller that does not wait for it leaves its answer on the way, and nobody
// issues for the same ID meanwhile.
// The clock of the answers goes on after a kill from where the last answer was kept.
func TestClockAfterAKill(t *testing.T) {
	k := newKept(t)
	k.answers("a", ttl)
	k.pass(time.Hour)
	k.answers("b", ttl)
	k = k.copied()
	k.open()
	k.pass(ttl + time.Minute)
	k.purges(2)
}

func TestAnswerOnAHangingDisk(t *testing.T) {
	k := newKept(t)
	k.answers("first", ttl)
	one := k.store.answers.windows.list[0]
	release, works := make(chan struct{}), one.writer.update
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	one.writer.update = func(f func(*bbolt.Tx) error) error { leave(); <-release; return works(f) }
	k.claims("a", "claim", "")
	if held, err := k.store.Answers().Swap(ctx, "a", "claim", "answer a", ttl); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", held, err)
	}
	k.pass(time.Hour) // far beyond the lease
	if held, err := k.store.Answers().Claim(ctx, "a", "other", lease); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", held, err)
	}
	k.claims("b", "claim", "") // others are not concerned
	close(release)
	k.claims("a", "other", "answer a")
}

// A write that failed for lack of space was not done, and ends the claim.
func TestAnswerOnAFullDisk(t *testing.T) {
	k := newKept(t)
	k.answers("first", ttl)
	one := k.store.answers.windows.list[0]
	works := one.writer.update
	one.writer.update = func(func(*bbolt.Tx) error) error {
		return &os.PathError{Op: "write", Path: one.path, Err: syscall.ENOSPC}
	}
	k.claims("a", "claim", "")
	if held, err := k.store.Answers().Swap(t.Context(), "a", "claim", "answer a", ttl); held != "" || !errors.Is(err, persist.ErrUnavailable) || !strings.Contains(err.Error(), one.path) {
		t.Errorf("%q, %v", held, err)
	}
	k.claims("first", "other", "answer first")
	one.writer.update = works
	k.claims("a", "again", "")
	k.swaps("a", "claim", "another", ttl, "again")
	must.Is(t, must.Err(k.store.Answers().Swap(t.Context(), "never claimed", "claim", "answer", ttl)), persist.ErrNotFound)
	k.swaps("a", "again", "answer", ttl, "")
}

// Of many at once one answers, also while windows change.
func TestAnswersRace(t *testing.T) {
	k := newKept(t)
	for round := range 20 {
		id := fmt.Sprint(round)
		k.claims(id, "claim", "")
		var (
			wg  sync.WaitGroup
			mu  sync.Mutex // guards won
			won []string
		)
		for i := range 8 {
			wg.Go(func() {
				text := fmt.Sprint("answer ", i)
				held, err := k.store.Answers().Swap(context.Background(), id, "claim", text, time.Minute)
				must.Report(t, err)
				if held == "" {
					mu.Lock()
					won = append(won, text)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%d answered", len(won))
		}
		k.claims(id, "other", won[0])
		k.pass(3 * time.Second)
	}
}

// A caller that leaves while another works on its ID is told so, and holds nothing up.
func TestAnswersAwaitTheirTurn(t *testing.T) {
	k := newKept(t)
	a := &k.store.answers
	e := must.Get(a.enter(t.Context(), "k"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if held, err := a.Claim(ctx, "k", "claim", lease); held != "" || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%q, %v", held, err)
	}
	a.leave("k", e)
	must.Equal(t, len(a.entries), 0, "left are %v", a.entries)
	k.claims("k", "claim", "")
}

// Whatever byte of an answer is damaged, and wherever it is cut off, is noticed, as is an answer
// under the ID of another.
func TestUnsealed(t *testing.T) {
	whole := sealed("a", "text")
	must.Equal(t, must.Get(unsealed("a", whole))(t), "text")
	damaged := [][]byte{sealed("b", "text"), sealed("a", "")}
	for i := range whole {
		other := bytes.Clone(whole)
		other[i] = 0
		damaged = append(damaged, other, whole[:i])
	}
	for _, data := range damaged {
		if text, err := unsealed("a", data); text != "" || !errors.Is(err, persist.ErrInvalid) {
			t.Errorf("%q: %q, %v", data, text, err)
		}
	}
	whole[0]++
	must.Is(t, must.Err(unsealed("a", whole)), persist.ErrNewer, "a later format")
}

// A file that is missing or damaged is named, with what to do; counters go on.
func TestDamagedAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		harm func(path string) error
		at   string // the answer that is asked for
	}{
		"the oldest is missing":    {"00000001.db", os.Remove, "0"},
		"one between is missing":   {"00000002.db", os.Remove, "0"},
		"the newest is missing":    {"00000003.db", os.Remove, "0"},
		"one is empty":             {"00000002.db", func(path string) error { return os.WriteFile(path, nil, 0o600) }, "0"},
		"one is cut short":         {"00000002.db", func(path string) error { return os.Truncate(path, 5000) }, "0"},
		"one is no store":          {"00000002.db", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 1<<15), 0o600) }, "0"},
		"one has a rotten record":  {"00000001.db", func(path string) error { return rot(path, "answer 0") }, "0"},
		"one has a rotten counter": {"00000002.db", func(path string) error { return rot(path, `"until"`) }, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			addCounter(t, k.store, "order")
			for i := range 3 {
				k.answers(fmt.Sprint(i), ttl)
				k.pass(4 * time.Hour)
			}
			must.Do(t, k.store.Close())
			path := filepath.Join(k.path+answersSuffix, test.file)
			must.Do(t, test.harm(path))
			inspected(t, k.path, path, 0)
			k.open()
			held, err := k.store.Answers().Claim(t.Context(), test.at, "other", lease)
			if text := fmt.Sprint(err); err == nil || !strings.Contains(text, path) || held != "" {
				t.Errorf("%q, %v", held, err)
			}
			if r, err := allocate(t, k.store, 5); err != nil || r.First != 1 {
				t.Errorf("counters: %v, %v", r, err)
			}
			must.Report(t, k.store.Close())
			// What the message says: without the folder, answers are forgotten.
			must.Do(t, os.RemoveAll(k.path+answersSuffix))
			k.open()
			k.answers(test.at, ttl)
		})
	}
}

// inspected looks at the answers, and wants an error that names a file, "" for none.
func inspected(t *testing.T, path, bad string, want int) {
	t.Helper()
	s := must.Get(OpenReadOnly(Options{Path: path, LockTimeout: time.Second, Now: time.Now}))(t)
	defer s.Close()
	files, _, err := s.InspectAnswers()
	// which only who asks for it finds
	if rotten := strings.Contains(t.Name(), "rotten_record"); rotten {
		return
	}
	if bad == "" && (err != nil || files != want) || bad != "" && !strings.Contains(fmt.Sprint(err), bad) {
		t.Errorf("%d files, %v", files, err)
	}
}

// rot changes a byte behind a text, wherever it stands.
func rot(path, text string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Contains(data, []byte(text)) {
		return fmt.Errorf("%s does not hold %q", path, text)
	}
	return os.WriteFile(path, bytes.ReplaceAll(data, []byte(text), []byte(text[:len(text)-1]+"\x01")), 0o600)
}

// A crash while a window is made or given up leaves a file that no answer is missing from.
func TestAnswersAfterACrashBetween(t *testing.T) {
	k := newKept(t)
	for i := range 3 {
		k.answers(fmt.Sprint(i), ttl)
		k.pass(4 * time.Hour)
	}
	given := must.Get(os.ReadFile(filepath.Join(k.path+answersSuffix, "00000001.db")))(t)
	k.pass(15 * time.Hour)
	k.purges(1)
	must.Do(t, os.WriteFile(filepath.Join(k.path+answersSuffix, "00000001.db"), given, 0o600))
	must.Do(t, create(Options{Path: filepath.Join(k.path+answersSuffix, "00000004.db"), content: answersContent("")}))
	must.Do(t, k.store.Close())
	inspected(t, k.path, "", 4)
	k.reopen(k.day)
	k.claims("2", "other", "answer 2")
	k.claims("0", "other", "")
	if files := k.files(); len(files) != 2 {
		t.Errorf("there are %v", files)
	}
	k.swaps("0", "other", "answer", ttl, "")
	k.reopen(k.day)
	k.claims("0", "other", "answer")

	// A file of a newer seqd is not read.
	must.Do(t, k.store.Close())
	must.Do(t, create(Options{Path: filepath.Join(k.path+answersSuffix, "00000005.db"), content: content{[][]byte{answersBucket}, persist.FormatVersion + 1, ""}}))
	k.open()
	must.Is(t, must.Err(k.store.Answers().Claim(t.Context(), "a", "claim", lease)), persist.ErrNewer)
}

// What is opened to be looked at makes no files, and refuses.
func TestReadOnlyAnswers(t *testing.T) {
	k := newKept(t)
	must.Do(t, k.store.Close())
	s := must.Get(OpenReadOnly(Options{Path: k.path, LockTimeout: time.Second, Now: time.Now}))(t)
	defer s.Close()
	must.Is(t, must.Err(s.Answers().Claim(t.Context(), "a", "claim", lease)), persist.ErrClosed)
	must.Is(t, must.Err(os.Stat(k.path+answersSuffix)), os.ErrNotExist)
}
