package obfuscate

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/issuer"
	"github.com/seqd/seqd/plugin"
)

func env() plugin.Env {
	return plugin.Env{Now: time.Now, Log: slog.New(slog.DiscardHandler), Observer: seqd.NopObserver{}}
}

func newPlugin(t testing.TB, s *Settings) *Plugin {
	t.Helper()
	return newPluginIn(t, env(), s)
}

func newPluginIn(t testing.TB, env plugin.Env, s *Settings) *Plugin {
	t.Helper()
	if problems := s.Validate(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return must.Get(New(env, bizTypeWith(binding(s)), binding(s)))(t)
}

// after returns the display forms of numbers.
func after(p *Plugin, first int64, count int, stride int64) ([]string, error) {
	call := seqd.Call{BizType: "order", Count: count}
	call.Sequence.Add(first, count, stride)
	err := p.After(context.Background(), &call)
	return call.Sequence.IDs(), err
}

func TestIDsAreReadBack(t *testing.T) {
	for _, s := range everySetting() {
		p := newPlugin(t, s)
		size := s.size()
		for _, number := range []uint64{1, 2, size / 3, size - 2, size - 1} {
			if number < 1 || number >= size || number > math.MaxInt64 {
				continue
			}
			ids := must.Get(after(p, int64(number), 1, 1))(t)
			if s.Digits > 0 && len(ids[0]) != s.Digits {
				t.Errorf("%d digits: %d is shown as %s", s.Digits, number, ids[0])
			}
			reading, err := p.Read(t.Context(), ids[0], seqd.Counter{})
			if err != nil || reading != (seqd.Reading{Shown: fmt.Sprint(number)}) {
				t.Errorf("%d %d: %d is shown as %s, which reads as %+v, error %v", s.Digits, s.Bits, number, ids[0], reading, err)
			}
		}
	}
}

func everySetting() (list []*Settings) {
	for digits := 1; digits <= mostDigits; digits++ {
		list = append(list, &Settings{Digits: digits, Key: someKey})
	}
	for n := 1; n <= mostBits; n++ {
		list = append(list, &Settings{Bits: n, Key: someKey})
	}
	return list
}

func TestTextsThatAreNoIDs(t *testing.T) {
	digits, bits, most := newPlugin(t, &Settings{Digits: 8, Key: someKey}), newPlugin(t, &Settings{Bits: 10, Key: someKey}), newPlugin(t, &Settings{Digits: 19, Key: someKey})
	never := func(p *Plugin, number uint64) string {
		y := p.all.permutation.forward(number)
		if p.digits == 0 {
			return strconv.FormatUint(y, 10)
		}
		return string(appendPadded(nil, y, p.digits))
	}
	for _, test := range []struct {
		p          *Plugin
		shown, why string
	}{
		{digits, "", "exactly 8 digits"}, {digits, "1234567", "exactly 8 digits"}, {digits, "123456789", "exactly 8 digits"},
		{digits, "1234567x", "exactly 8 digits"}, {digits, "+1234567", "exactly 8 digits"}, {digits, "１２３４", "exactly 8 digits"},
		{digits, "1234567 ", "exactly 8 digits"}, {digits, strings.Repeat("1", 10_000), "exactly 8 digits"},
		{digits, never(digits, 0), "never issued"}, {bits, never(bits, 0), "never issued"},
		{bits, "", "from 0 to 1023"}, {bits, "1024", "from 0 to 1023"}, {bits, "07", "from 0 to 1023"}, {bits, "00", "from 0 to 1023"},
		{bits, "-1", "from 0 to 1023"}, {bits, "18446744073709551617", "from 0 to 1023"},
		{most, never(most, 1<<63), "never issued"}, {most, never(most, 9_999_999_999_999_999_999), "never issued"},
	} {
		reading, err := test.p.Read(t.Context(), test.shown, seqd.Counter{})
		if seqd.CodeOf(err) != seqd.CodeInvalidID || !strings.Contains(err.Error(), test.why) || reading != (seqd.Reading{}) {
			t.Errorf("%.30q: %+v, error %v, want %s", test.shown, reading, err, test.why)
		}
	}
}

func TestNumbersThereIsNoRoomFor(t *testing.T) {
	p := newPlugin(t, &Settings{Digits: 2, Key: someKey})
	for _, test := range []struct {
		first, stride int64
		count         int
		ok            bool
	}{{99, 1, 1, true}, {100, 1, 1, false}, {98, 1, 3, false}, {1, 33, 3, true}, {1, 33, 4, false}, {math.MaxInt64, 1, 1, false}, {-5, 1, 1, false}} {
		ids, err := after(p, test.first, test.count, test.stride)
		if test.ok && (err != nil || len(ids[0]) != 2) {
			t.Errorf("%+v: error %v", test, err)
		}
		if !test.ok && (seqd.CodeOf(err) != seqd.CodeExhausted || !strings.Contains(err.Error(), "above 99, the largest that IDs of 2 digits have room for")) {
			t.Errorf("%+v: error %v", test, err)
		}
	}
	if _, err := after(newPlugin(t, &Settings{Bits: 4, Key: someKey}), 16, 1, 1); seqd.CodeOf(err) != seqd.CodeExhausted || !strings.Contains(err.Error(), "below 16") {
		t.Error(err)
	}
}

func TestNumbersThatAreRewritten(t *testing.T) {
	p := newPlugin(t, &Settings{Digits: 8, Key: someKey})
	var call seqd.Call
	call.Sequence.Add(1, 1, 1)
	for i, want := range []seqd.Code{"", seqd.CodeInternal} {
		must.Code(t, p.After(context.Background(), &call), want, "call %d: error", i)
	}
}

// recorder counts events and log lines.
type recorder struct {
	seqd.NopObserver
	mu     sync.Mutex
	events []seqd.Event
	log    strings.Builder
}

func (r *recorder) Event(e seqd.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(line)
}

func TestWarnsBeforeTheEnd(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &recorder{}
	p := newPluginIn(t, plugin.Env{Now: func() time.Time { return now }, Observer: r, Log: slog.New(slog.NewTextHandler(r, nil))}, &Settings{Digits: 4, Key: someKey})
	for _, step := range []struct {
		number int64
		later  time.Duration
		left   int64 // of the event, -1 for none
	}{
		{9899, 0, -1}, {9900, 0, 99}, {9901, 0, -1}, {9902, 59 * time.Second, -1}, {9903, time.Second, 96}, {9904, 0, -1},
		{9905, -24 * time.Hour, 94}, {9999, time.Minute, 0}, {5, time.Hour, -1},
	} {
		now = now.Add(step.later)
		r.events = nil
		r.log.Reset()
		must.Get(after(p, step.number, 1, 1))(t)
		want := []seqd.Event{{BizType: "order", Kind: seqd.EventNearlyExhausted, Numbers: step.left}}
		if step.left < 0 {
			want = nil
		}
		if fmt.Sprint(r.events) != fmt.Sprint(want) || strings.Count(r.log.String(), "left=") != len(want) {
			t.Errorf("%d: events %v, want %v, log %s", step.number, r.events, want, r.log.String())
		}
	}
}

// source is a strategy that counts.
type source struct {
	mu   sync.Mutex
	last int64
}

func (s *source) Init(context.Context, bool) error { return nil }
func (s *source) Close(context.Context) error      { return nil }

func (s *source) Generate(_ context.Context, n int, seq *seqd.Sequence) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq.Add(s.last+1, n, 1)
	s.last += int64(n)
	return nil
}

// TestInTheChain uses up the whole domain with concurrent requests through the issuer: every ID
// must be issued exactly once, then the biz type is exhausted.
func TestInTheChain(t *testing.T) {
	settings := &Settings{Digits: 4, Key: someKey}
	bizType := bizTypeWith(binding(settings))
	p := newPlugin(t, settings)
	issuer := must.Get(issuer.New([]issuer.Definition{{BizType: bizType, Strategy: &source{}, Plugins: []seqd.BoundPlugin{
		{Name: Name, Order: order, Quick: true, Rewrites: true, Plugin: p}}}}, issuer.Options{Log: slog.New(slog.DiscardHandler)}))(t)
	var mu sync.Mutex
	seen := make(map[string]bool)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := 1; ; n = n%7 + 1 {
				seq, err := issuer.Next(t.Context(), "order", n)
				if seqd.CodeOf(err) == seqd.CodeExhausted {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, id := range seq.IDs() {
					if seen[id] || len(id) != 4 {
						t.Errorf("%s came twice, or is too short", id)
					}
					seen[id] = true
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) < 9999-8*7 {
		t.Errorf("%d IDs", len(seen))
	}
}

func FuzzRead(f *testing.F) {
	plugins := []*Plugin{
		newPlugin(f, &Settings{Digits: 1, Key: someKey}), newPlugin(f, &Settings{Digits: 8, Key: someKey}), newPlugin(f, &Settings{Digits: 19, Key: someKey}),
		newPlugin(f, &Settings{Bits: 1, Key: someKey}), newPlugin(f, &Settings{Bits: 63, Key: someKey}),
	}
	for _, text := range []string{"", "0", "7", "00000001", "9999999999999999999", "9223372036854775807", "9223372036854775808", "01", "-1", "1e5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range plugins {
			reading, err := p.Read(t.Context(), text, seqd.Counter{})
			if err != nil {
				if seqd.CodeOf(err) != seqd.CodeInvalidID {
					t.Fatal(err)
				}
				continue
			}
			number := must.Get(strconv.ParseInt(reading.Shown, 10, 64))(t)
			if ids, err := after(p, number, 1, 1); err != nil || ids[0] != text {
				t.Fatalf("%q reads as %d, which is shown as %q, error %v", text, number, ids, err)
			}
		}
	})
}

func TestNoAllocations(t *testing.T) {
	p := newPlugin(t, &Settings{Digits: 10, Key: someKey})
	call := &seqd.Call{}
	ctx := context.Background()
	one := func() {
		call.Sequence.Reset()
		call.Sequence.Add(7, 3, 1)
		must.Do(t, p.After(ctx, call))
	}
	one() // the buffers grow
	one()
	must.Equal(t, must.Allocs(100, one), 0, "allocations")
}

// BenchmarkAfter measures what the plugin adds to a request for one number.
func BenchmarkAfter(b *testing.B) {
	for digits := 1; digits <= mostDigits; digits++ {
		b.Run(fmt.Sprintf("digits=%d", digits), func(b *testing.B) {
			benchmarkAfter(b, &Settings{Digits: digits, Key: someKey})
		})
	}
	for _, n := range []int{16, 32, 53, 63} {
		b.Run(fmt.Sprintf("bits=%d", n), func(b *testing.B) { benchmarkAfter(b, &Settings{Bits: n, Key: someKey}) })
	}
}

func benchmarkAfter(b *testing.B, s *Settings) {
	p := newPlugin(b, s)
	ctx, call := context.Background(), &seqd.Call{BizType: "order", Count: 1}
	most := min(s.size()-s.size()/50, math.MaxInt64) - 1 // before the numbers that cause a warning
	b.ReportAllocs()
	for number := uint64(0); b.Loop(); {
		number = (number+most/3)%most + 1
		call.Sequence.Reset()
		call.Sequence.Add(int64(number), 1, 1)
		must.Do(b, p.After(ctx, call))
	}
}

func BenchmarkRead(b *testing.B) {
	p := newPlugin(b, &Settings{Digits: 10, Key: someKey})
	b.ReportAllocs()
	for b.Loop() {
		must.Get(p.Read(b.Context(), "0123456789", seqd.Counter{}))(b)
	}
}

func TestMeasure(t *testing.T) {
	for want, settings := range map[float64]*Settings{99: {Digits: 2, Key: someKey}, 15: {Bits: 4, Key: someKey}} {
		newPlugin(t, settings).Measure(func(m seqd.Measurement) {
			must.Equal(t, m, seqd.Measurement{Gauge: seqd.GaugeLimit, Value: want})
		})
	}
}
