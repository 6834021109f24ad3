package figures

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

func TestPointsSurvive(t *testing.T) {
	for _, p := range []points{{}, {0}, {missing}, {missing, 0, 1, 127, 128, 1 << 40, mostInPoint}} {
		text := must.Get(p.MarshalText())(t)
		var got points
		if err := got.UnmarshalText(text); err != nil || !slices.Equal(got, p) {
			t.Errorf("%v becomes %v, %v", p, got, err)
		}
	}
	var p points
	for _, damaged := range []string{"!", "gA", "////////////////", string(slices.Repeat([]byte("AAAA"), intervals/3+1))} {
		if err := p.UnmarshalText([]byte(damaged)); err == nil {
			t.Errorf("%.20q becomes %v", damaged, p)
		}
	}
}

// A rough number is exact up to 16, and off by a sixteenth at most.
func TestRough(t *testing.T) {
	check := func(n uint32) {
		t.Helper()
		got := smooth(rough(n))
		if off := math.Abs(float64(got) - float64(n)); off > float64(n)/16 || n <= 16 && off > 0 {
			t.Errorf("%d becomes %d", n, got)
		}
	}
	for n := range uint32(100_000) {
		check(n)
	}
	for range 100_000 {
		check(rand.Uint32() >> rand.IntN(32))
	}
	check(math.MaxUint32)
}

func TestHistogramsSurvive(t *testing.T) {
	var h histogram
	want := make([][mostBuckets]int64, intervals)
	for interval := range want {
		var counts [mostBuckets]uint32
		for i := range counts {
			if rand.IntN(4) == 0 {
				counts[i] = uint32(rand.IntN(16))
				want[interval][i] = int64(counts[i])
			}
		}
		h.add(&counts)
	}
	text, _ := h.MarshalText()
	var got histogram
	must.Do(t, got.UnmarshalText(text))
	interval := 0
	for counts, err := range got.each() {
		if err != nil || *counts != want[interval] {
			t.Fatalf("interval %d is %v, %v; want %v", interval, counts, err, want[interval])
		}
		interval++
	}
	must.Equal(t, interval, intervals, "the intervals")
}

// FuzzReport checks that nothing in a document makes a node fail, whoever wrote it.
func FuzzReport(f *testing.F) {
	w := newWindow()
	w.move(1_000_000_000, 0)
	for i := range int64(7) {
		w.move(1_000_000_000+(i+1)*intervalLength, (i+1)*intervalLength)
		w.add("order", 5*i, i)
		w.addCode("exhausted", i)
		w.calls[w.at][3] = 700
	}
	r := &report{Version: version, Bounds: []float64{1, 2, 3}, InHand: []inHand{{"order", 1, unknown, 2}}, RunsOut: []runsOut{{BizType: "order", LastsMS: unknown, Share: unknown}}}
	r.fill(w)
	body := must.Get(r.write())(f)
	f.Add(body)
	f.Add(`{"v":1}`)
	f.Add(`{"v":2,"last":5,"numbers":"AQEB","calls":"AQE","new":{}}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := readReport("a", body)
		if err != nil {
			return
		}
		k := world(1_000_000_100, "b")
		k.reports = append(k.reports, r)
		if text := encoded(t, merge(k)); len(text) > 100_000 {
			t.Errorf("the answer has %d bytes", len(text))
		}
	})
}
