package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/persist"
)

// TestDescribe checks that a new file is called one: numbers that had been issued would come again.
func TestDescribe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seqd.db")
	s := open(t, path)
	if got := s.Describe(); !strings.Contains(got, path+" was made just now") || s.Shared() {
		t.Errorf("%q, shared %v", got, s.Shared())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
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
		if err := k.store.Close(); err != nil {
			t.Fatal(err)
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
			if !errors.Is(err, persist.ErrClosed) {
				t.Errorf("used %v: %s: %v", used, what, err)
			}
		}
	}
}

// TestClaimsAreForgotten checks that the memory of a claim is freed: when it is answered or dropped,
// or by a purge after its lease.
func TestClaimsAreForgotten(t *testing.T) {
	k := newKept(t)
	held := func(want int) {
		t.Helper()
		if n := len(k.store.answers.entries); n != want {
			t.Errorf("%d claims are held, want %d", n, want)
		}
	}
	k.answers("a", ttl)
	held(0)
	k.claims("a", "claim", "answer a")
	held(0)
	k.claims("b", "claim", "")
	k.claims("c", "claim", "")
	held(2)
	for _, claim := range []string{"other", "claim"} {
		if err := k.store.Answers().Drop(t.Context(), "b", claim); err != nil {
			t.Fatal(err)
		}
	}
	held(1)
	k.pass(lease - time.Millisecond)
	k.purges(0)
	held(1)
	k.claims("c", "other", "claim")
	k.pass(time.Millisecond)
	k.purges(0)
	held(0)
}

// TestWindowBounds checks when a window is full, and how many there are at most.
func TestWindowBounds(t *testing.T) {
	k := newKept(t)
	k.answers("a", 8*time.Hour)
	k.pass(time.Hour - time.Millisecond)
	k.answers("b", 8*time.Hour)
	if n := len(k.files()); n != 1 {
		t.Errorf("%d windows before the first is full", n)
	}
	k.pass(time.Millisecond)
	k.answers("c", 8*time.Hour)
	if n := len(k.files()); n != 2 {
		t.Errorf("%d windows after an eighth of the time of an answer", n)
	}
	for i := range 20 {
		k.pass(time.Hour)
		k.answers(fmt.Sprint(i), 8*time.Hour)
		k.claims("b", "other", "answer b")
	}
	if n := len(k.files()); n != 16 {
		t.Errorf("%d windows, want 16", n)
	}
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
	if files := k.files(); len(files) != 0 {
		t.Errorf("left are %v", files)
	}
}

// TestClockSteps checks that the clock is written when it has advanced by half a minute, and not each
// time.
func TestClockSteps(t *testing.T) {
	k := newKept(t)
	k.answers("a", time.Hour)
	one := k.store.answers.windows.list[0]
	began := one.clock()
	for _, step := range []struct{ pass, want time.Duration }{{clockStep - time.Millisecond, 0}, {time.Millisecond, clockStep}, {time.Second, clockStep}, {clockStep, 2*clockStep + time.Second}} {
		k.pass(step.pass)
		k.purges(0)
		if got := time.Duration(one.clock()-began) * time.Millisecond; got != step.want {
			t.Errorf("%v later the clock has advanced by %v, want %v", step.pass, got, step.want)
		}
	}
}

// TestAnswersAreOpenedAgain checks that files that could not be opened are tried again after a
// second, and not for each caller.
func TestAnswersAreOpenedAgain(t *testing.T) {
	k := newKept(t)
	dir := k.path + answersSuffix
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fails := func(why string) {
		t.Helper()
		if held, err := k.store.Answers().Claim(t.Context(), "a", "claim", lease); held != "" || err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %q, %v", why, held, err)
		}
	}
	fails("the folder is a file")
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	fails("at once")
	k.pass(openPause - time.Millisecond)
	fails("before a second has passed")
	k.pass(time.Millisecond)
	k.answers("a", ttl)
}

// TestInspectAnswers checks how many files and answers an operator is told of.
func TestInspectAnswers(t *testing.T) {
	k := newKept(t)
	for i := range 5 {
		k.answers(fmt.Sprint(i), ttl)
		k.pass(2 * time.Hour)
	}
	if err := k.store.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := OpenReadOnly(Options{Path: k.path, LockTimeout: time.Second, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if files, answers, err := s.InspectAnswers(); files != 3 || answers != 5 || err != nil {
		t.Errorf("%d files with %d answers, %v", files, answers, err)
	}
	other := filepath.Join(k.path+answersSuffix, "1.db") // not a number of 8 digits
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if files, answers, err := s.InspectAnswers(); files != 3 || answers != 5 || err != nil {
		t.Errorf("beside another file: %d files with %d answers, %v", files, answers, err)
	}
}

// TestReadOnlyRefuses checks what is said of files that cannot be looked at.
func TestReadOnlyRefuses(t *testing.T) {
	dir := t.TempDir()
	empty, foreign := filepath.Join(dir, "empty.db"), filepath.Join(dir, "foreign.db")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(foreign, []byte(strings.Repeat("no database ", 5000)), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, why := range map[string]string{empty: "empty", foreign: "open store file"} {
		if _, err := OpenReadOnly(Options{Path: path, LockTimeout: time.Second, Now: time.Now}); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
