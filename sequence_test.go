package seqd_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
)

// plainly is what AppendIDs must give, written the slow way.
func plainly(numbers []int64, open, end, sep string) string {
	var parts []string
	for _, n := range numbers {
		parts = append(parts, open+strconv.FormatInt(n, 10)+end)
	}
	return strings.Join(parts, sep)
}

func TestRunsJoin(t *testing.T) {
	var s seqd.Sequence
	s.Add(5, 3, 1)
	s.Add(8, 2, 1)
	s.Add(100, 2, 10)
	s.Add(120, 1, 10)
	s.Add(121, 1, 1)
	s.Add(122, 2, 2) // follows, but in other steps
	if got, want := slices.Collect(s.Numbers()), []int64{5, 6, 7, 8, 9, 100, 110, 120, 121, 122, 124}; !slices.Equal(got, want) {
		t.Errorf("numbers %v, want %v", got, want)
	}
	if len(s.Runs()) != 4 || s.Len() != 11 || s.First() != 5 {
		t.Errorf("runs %v, length %d, first %d", s.Runs(), s.Len(), s.First())
	}
	s.For("de")
	s.In(2026)
	s.MadeAt(time.Now())
	s.Stamp(1, 2)
	s.Reset()
	if s.Len() != 0 || s.First() != 0 || s.Shown() || len(s.AppendIDs(nil, "x", "y", "z")) != 0 {
		t.Error("not empty after Reset")
	}
	if a, b := s.Stamped(); s.Key() != "" || s.Period() != 0 || !s.Made().IsZero() || a != 0 || b != 0 {
		t.Errorf("Reset leaves the key %q, the period %s, the time %s and the stamp %d, %d", s.Key(), s.Period(), s.Made(), a, b)
	}
}

func TestAppendIDs(t *testing.T) {
	starts := []int64{1, 7, 9, 10, 98, 99, 100, 101, 995, 999, 1000, 9_999_950, 1<<53 - 1}
	for _, first := range starts {
		for _, count := range []int{1, 2, 3, 4, 5, 99, 100, 101, 250, 1000} {
			for _, stride := range []int64{1, 2, 1024} {
				var s seqd.Sequence
				s.Add(first, count, stride)
				numbers := slices.Collect(s.Numbers())
				for _, form := range [][3]string{{`"`, `"`, ","}, {"", "\n", ""}, {"", "", ""}} {
					got := string(s.AppendIDs([]byte("before"), form[0], form[1], form[2]))
					if want := "before" + plainly(numbers, form[0], form[1], form[2]); got != want {
						t.Fatalf("%d numbers from %d by %d with %q: got %.80s…, want %.80s…", count, first, stride, form, got, want)
					}
				}
			}
		}
	}
}

func FuzzAppendIDs(f *testing.F) {
	f.Add(int64(95), 12, int64(1), int64(200), 150)
	f.Add(int64(1), 1, int64(1024), int64(7), 3)
	f.Fuzz(func(t *testing.T, first int64, count int, stride, second int64, more int) {
		bound := func(n int64) int64 { return max(1, min(n, seqd.MaxNumber)) }
		var s seqd.Sequence
		s.Add(bound(first), 1+count&1023, 1+stride&4095)
		s.Add(bound(second), 1+more&1023, 1)
		want := plainly(slices.Collect(s.Numbers()), `"`, `"`, ",")
		must.Equal(t, string(s.AppendIDs(nil, `"`, `"`, ",")), want)
		must.Equal(t, `"`+strings.Join(s.IDs(), `","`)+`"`, want, "the IDs")
	})
}

func TestShow(t *testing.T) {
	var s seqd.Sequence
	must.Equal(t, s.First(), 0, "the first of none")
	for range 3 { // its memory is reused
		s.Reset()
		s.Add(7, 3, 1)
		s.Add(1000, 1, 1)
		s.Show(func(dst []byte, number int64, shown []byte) []byte {
			must.Equal(t, string(shown), strconv.FormatInt(number, 10), "%d was shown as", number)
			return append(append(dst, 'a'), shown...)
		})
		s.Show(func(dst []byte, number int64, shown []byte) []byte {
			return fmt.Appendf(dst, "<%s|%d>", shown, number)
		})
		want := []string{"<a7|7>", "<a8|8>", "<a9|9>", "<a1000|1000>"}
		if got := s.IDs(); !slices.Equal(got, want) {
			t.Errorf("IDs %v, want %v", got, want)
		}
		must.Equal(t, string(s.AppendIDs(nil, "[", "]", ";")), "["+strings.Join(want, "];[")+"]", "appended")
		if got := slices.Collect(s.Numbers()); !slices.Equal(got, []int64{7, 8, 9, 1000}) {
			t.Errorf("the numbers changed to %v", got)
		}
		for range s.Numbers() { // a caller need not look at all
			break
		}
		for range s.Displays() {
			break
		}
	}
}

func TestPace(t *testing.T) {
	var s seqd.Sequence
	paused, shown := 0, 0
	s.Pace(func() { paused++ })
	for _, count := range []int{1, 1000} {
		s.Reset()
		s.Add(1, count, 1)
		s.Show(func(dst []byte, _ int64, digits []byte) []byte { shown++; return append(dst, digits...) })
	}
	must.Equal(t, shown, 1001, "shown")
	if paused < 10 || paused > 100 {
		t.Errorf("paused %d times", paused)
	}
}

// Show takes the memory for many numbers at once.
func TestShowAllocations(t *testing.T) {
	if n := must.Allocs(10, func() {
		var s seqd.Sequence
		s.Add(1, 10_000, 1)
		s.Show(func(dst []byte, _ int64, shown []byte) []byte { return append(append(dst, 'x'), shown...) })
	}); n > 12 {
		t.Errorf("%v allocations", n)
	}
}

func TestShowMayMakeNothing(t *testing.T) {
	var s seqd.Sequence
	s.Add(1, 2, 1)
	s.Show(func(dst []byte, _ int64, _ []byte) []byte { return dst })
	if got := s.IDs(); !slices.Equal(got, []string{"", ""}) {
		t.Errorf("IDs %q", got)
	}
}

func TestCheckName(t *testing.T) {
	good := []string{"a", "Z", "order", "order.eu-1_x", strings.Repeat("a", 64)}
	bad := []string{"", "1a", "-a", ".a", "_a", "a b", "a/b", "a\x00", "ä", "order€", strings.Repeat("a", 65), "a\n", "a%", "a:"}
	for _, name := range good {
		if err := seqd.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range bad {
		must.Equal(t, seqd.CodeOf(seqd.CheckName(name)), seqd.CodeInvalidBizType, "%q: code", name)
	}
	// Every single byte, first and inside, against the rule written as a set.
	const letters, digits = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
	for first, check := range map[string]func(string) error{letters: seqd.CheckName, letters + digits: seqd.CheckKey} {
		for c := range 256 {
			text := string([]byte{byte(c)})
			must.Equal(t, check(text) == nil, strings.Contains(first, text), "byte %d alone is allowed", c)
			must.Equal(t, check("a"+text) == nil, strings.Contains(letters+digits+"._-", text), "byte %d inside is allowed", c)
		}
	}
}

func BenchmarkAppendIDs10000(b *testing.B) {
	var s seqd.Sequence
	s.Add(rand.Int64N(1<<40), 10_000, 1)
	var dst []byte
	for b.Loop() {
		dst = s.AppendIDs(dst[:0], "", "\n", "")
	}
	b.SetBytes(int64(len(dst)))
}

func BenchmarkFormatInt10000(b *testing.B) {
	first := rand.Int64N(1 << 40)
	var dst []byte
	for b.Loop() {
		dst = dst[:0]
		for i := range int64(10_000) {
			dst = append(strconv.AppendInt(dst, first+i, 10), '\n')
		}
	}
	b.SetBytes(int64(len(dst)))
}
