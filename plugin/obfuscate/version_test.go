package obfuscate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/plugin"
)

// counting are the settings of a strategy that can count for each key and day.
type counting struct {
	keyed, daily     bool
	first, increment int64
}

func (c counting) Traits() seqd.Traits {
	t := seqd.Traits{Keyed: c.keyed, First: max(c.first, 1), Last: seqd.MaxNumber, Increment: c.increment}
	if c.daily {
		t.Calendar.Reset = seqd.ResetDaily
	}
	return t
}

// newCounting returns the plugin of a biz type whose shape in the store says known of it.
func newCounting(t testing.TB, s *Settings, of counting, known string) *Plugin {
	t.Helper()
	env := env()
	env.OnRecord = func(context.Context) (string, error) { return known, nil }
	return must.Get(New(env, seqd.BizType{Name: "ticket", Settings: of}, binding(s)))(t)
}

// shown returns the IDs of the numbers 1 to n of a counter.
func shown(p *Plugin, of seqd.Counter, n int) ([]string, error) {
	var call seqd.Call
	call.Sequence.For(of.Key)
	call.Sequence.In(of.Period)
	call.Sequence.Add(1, n, 1)
	err := p.After(context.Background(), &call)
	return call.Sequence.IDs(), err
}

// TestVersion has the rule for every biz type: what has issued goes on as before, and what says
// that its numbers continue others must name the version.
func TestVersion(t *testing.T) {
	keyed, daily := counting{keyed: true}, counting{daily: true}
	for _, test := range []struct {
		of    counting
		known string
		set   int
		want  string
	}{
		{counting{}, "", 0, "1"}, {counting{}, "1 digits=8 key=x)", 0, "1"}, {counting{}, "", 2, "2"},
		{keyed, "", 0, "2"}, {daily, "", 0, "2"}, {counting{keyed: true, daily: true}, "", 0, "2"},
		{keyed, "1 digits=8 key=x)", 0, "1"}, {daily, "1 digits=8 key=x) format(…)", 0, "1"}, {keyed, "1 digits=9 key=y)", 0, "1"},
		{keyed, "2 digits=8 key=x)", 0, "2"}, {counting{keyed: true, first: 100}, "2 digits=8 key=x)", 0, "2"},
		{keyed, "", 1, "1"}, {keyed, "2 digits=8 key=x)", 1, "1"}, {keyed, "1 digits=8 key=x)", 2, "2"}, {counting{keyed: true, first: 100}, "", 2, "2"},
	} {
		s := &Settings{Digits: 8, Key: someKey, Version: test.set}
		text, err := shape(seqd.BizType{Settings: test.of}, binding(s), test.known)
		if want := test.want + strings.TrimPrefix(goldenShape, "1"); err != nil || text != want {
			t.Errorf("%+v, known %q, version %d: %q, %v, want %q", test.of, test.known, test.set, text, err, want)
		}
		// The plugin decides as its shape says, whether the shape is on record by now or was before.
		for _, known := range []string{text + ")", test.known} {
			if got, err := newCounting(t, s, test.of, known).decide(t.Context(), nil); err != nil || fmt.Sprint(got) != test.want {
				t.Errorf("%+v, known %q, version %d: %d, %v, want %s", test.of, known, test.set, got, err, test.want)
			}
		}
	}
	for _, test := range []struct {
		of   counting
		set  int
		want bool
	}{
		{counting{keyed: true, first: 100}, 0, true}, {counting{daily: true, increment: 10}, 0, true},
		{counting{keyed: true, first: 100}, 1, false}, {counting{daily: true, increment: 10}, 2, false},
		{keyed, 0, false}, {daily, 0, false}, {counting{first: 100, increment: 10}, 0, false},
	} {
		problems := checkNew(seqd.BizType{Settings: test.of}, binding(&Settings{Digits: 8, Key: someKey, Version: test.set}), false, "")
		if asks := len(problems) == 1 && problems[0].Key == "version"; asks != test.want {
			t.Errorf("%+v, version %d: %v", test.of, test.set, problems)
		}
	}
}

// TestKeysTellNothingOfOthers is the attack: who knows the numbers behind the IDs of one key, or of
// yesterday, looks up those of another.
func TestKeysTellNothingOfOthers(t *testing.T) {
	const n = 300
	all := counting{keyed: true, daily: true}
	p := newCounting(t, &Settings{Digits: 6, Key: someKey}, all, "2 …")
	mine := seqd.Counter{Period: 20261129, Key: "a"}
	known := must.Get(shown(p, mine, n))(t)
	for _, of := range []seqd.Counter{{Period: 20261129, Key: "b"}, {Period: 20261130, Key: "a"}, {Period: 20261129, Key: "aa"}} {
		ids := must.Get(shown(p, of, n))(t)
		told := 0
		for i, id := range ids {
			if slices.Index(known, id) == i {
				told++
			}
			must.Equal(t, must.Get(p.Read(t.Context(), id, of))(t).Shown, fmt.Sprint(i+1), "%s of %v reads as", id, of)
		}
		if told > 1 {
			t.Errorf("%d of %d IDs of %v tell their number to who knows %v", told, n, of, mine)
		}
	}
	if again, err := shown(p, mine, n); err != nil || !slices.Equal(again, known) {
		t.Errorf("the IDs are others the second time: %v", err)
	}
	old := newCounting(t, &Settings{Digits: 6, Key: someKey}, all, "1 …")
	plain, _ := after(newPlugin(t, &Settings{Digits: 6, Key: someKey}), 1, n, 1)
	if ids, err := shown(old, mine, n); err != nil || !slices.Equal(ids, plain) {
		t.Errorf("version 1 shows other IDs than before: %v", err)
	}
}

// TestEachCounterIsComplete: no ID comes twice in a counter, and none is left over.
func TestEachCounterIsComplete(t *testing.T) {
	for size := uint64(2); size <= 1100; size += 1 + size/50 {
		f := newFamily([]byte(someKey), size)
		for _, p := range []*permutation{f.of(0, "a"), f.of(20261129, "")} {
			seen := make(map[uint64]bool)
			for x := range size {
				y := p.forward(x)
				if y >= size || seen[y] || p.backward(y) != x {
					t.Fatalf("size %d: %d is shown as %d, which is taken, too large or another one backwards", size, x, y)
				}
				seen[y] = true
			}
		}
	}
}

// goldenFamily are values of a second implementation, which was written from the ADR in another
// language: no version of seqd may show others.
var goldenFamily = []struct {
	size   uint64
	rounds uint64
	period seqd.Period
	key    string
	number uint64
	want   uint64
}{
	{power(10, 1), 32, 0, "a", 3, 6}, {power(10, 1), 32, 20261129, "tenant-42", 3, 9},
	{power(10, 3), 30, 0, "a", 333, 988}, {power(10, 3), 30, 20261129, "tenant-42", 333, 356},
	{power(10, 4), 24, 0, "a", 3333, 2115}, {power(10, 4), 24, 20261129, "tenant-42", 3333, 2131},
	{power(10, 5), 20, 0, "a", 33333, 56948}, {power(10, 5), 20, 20261129, "tenant-42", 33333, 76388},
	{power(10, 8), 14, 0, "a", 33333333, 25767725}, {power(10, 8), 14, 20261129, "tenant-42", 33333333, 81727989},
	{power(10, 10), 12, 0, "a", 3333333333, 3669575952}, {power(10, 10), 12, 20261129, "tenant-42", 3333333333, 3917099261},
	{power(10, 13), 10, 0, "a", 3333333333333, 4372813327960},
	{power(10, 19), 10, 20261129, "tenant-42", 3333333333333333333, 1509359498383732537},
	{1 << 1, 32, 0, "a", 0, 0}, {1 << 10, 30, 20261129, "tenant-42", 341, 953},
	{1 << 16, 20, 0, "a", 21845, 19862}, {1 << 32, 12, 0, "a", 1431655765, 3922720180},
	{1 << 53, 10, 20261129, "tenant-42", 3002399751580330, 5735627410570268}, {1 << 63, 10, 0, "a", 3074457345618258602, 3515899063569619783},
}

func TestGoldenFamily(t *testing.T) {
	for _, g := range goldenFamily {
		p := newFamily([]byte("correct horse battery staple"), g.size).of(g.period, g.key)
		if got := p.forward(g.number); got != g.want || p.rounds != g.rounds {
			t.Errorf("size %d, period %d, key %s: %d is shown as %d by %d rounds, want %d by %d", g.size, g.period, g.key, g.number, got, p.rounds, g.want, g.rounds)
		}
	}
}

// TestNothingIsGuessed: without what decides the permutation there is no ID, and no number.
func TestNothingIsGuessed(t *testing.T) {
	keyed, both := counting{keyed: true}, counting{keyed: true, daily: true}
	away := errors.New("away")
	s := &Settings{Digits: 6, Key: someKey}
	// A program that embeds an issuer may ask no store: it goes on as before there were versions.
	for set, want := range []string{"1", "1", "2"} {
		s := &Settings{Digits: 8, Key: someKey, Version: set}
		b := seqd.BizType{Name: "ticket", Settings: keyed}
		p, err := New(env(), b, binding(s))
		factory, lost := plugin.Lookup(Name)
		must.Do(t, errors.Join(err, lost))
		text, err := factory.Shape(b, binding(s))
		if v, _ := p.decide(t.Context(), nil); err != nil || fmt.Sprint(v) != want || !strings.HasPrefix(text, want+" ") {
			t.Errorf("version %d, nobody tells what is on record: %d, %q, %v, want %s", set, v, text, err, want)
		}
	}
	p := newCounting(t, s, keyed, "")
	if ids, err := shown(p, seqd.Counter{Key: "a"}, 1); !errors.Is(err, errNoRecord) {
		t.Errorf("without a record it shows %v, %v", ids, err)
	}
	p.env.OnRecord = func(context.Context) (string, error) { return "", away }
	must.Is(t, must.Err(shown(p, seqd.Counter{Key: "a"}, 1)), away)
	must.Is(t, must.Err(p.Read(t.Context(), "000001", seqd.Counter{Key: "a"})), away)
	for _, of := range []seqd.Counter{{}, {Key: "a"}, {Period: 20261129}} {
		if ids, err := shown(newCounting(t, s, both, "2 …"), of, 1); !errors.Is(err, errCounter) {
			t.Errorf("%+v: %v, %v", of, ids, err)
		}
	}
	for _, test := range []struct {
		of   seqd.Counter
		code seqd.Code
		says string
	}{{seqd.Counter{}, seqd.CodeInvalidKey, "name it with key"}, {seqd.Counter{Key: "a"}, seqd.CodeInvalidID, "period"}} {
		_, err := newCounting(t, s, both, "2 …").Read(t.Context(), "000001", test.of)
		if seqd.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test.of, err)
		}
	}
}

// BenchmarkCounters measures version 2: one key, which is the usual burst, and another one each
// time.
func BenchmarkCounters(b *testing.B) {
	for _, digits := range []int{4, 8, 12} {
		for _, keys := range []int{1, 2} {
			b.Run(fmt.Sprintf("digits=%d/keys=%d", digits, keys), func(b *testing.B) {
				p := newCounting(b, &Settings{Digits: digits, Key: someKey}, counting{keyed: true}, "2 …")
				names, call := []string{"tenant-1", "tenant-2"}, &seqd.Call{}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					call.Sequence.Reset()
					call.Sequence.For(names[i%keys])
					call.Sequence.Add(int64(i%5000)+1, 1, 1)
					must.Do(b, p.After(b.Context(), call))
				}
			})
		}
	}
}
