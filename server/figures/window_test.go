package figures

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/seqd/seqd/internal/testing/must"
)

// clocks are those of a node in a test: its time, and one that nobody can set.
type clocks struct{ now, elapsed int64 }

func (c *clocks) pass(ms int64) { c.now, c.elapsed = c.now+ms, c.elapsed+ms }

// begun returns a window of which an interval begins now.
func begun() (*window, *clocks) {
	w, c := newWindow(), &clocks{now: 1_000_000 * intervalLength, elapsed: 77}
	w.move(c.now, c.elapsed)
	return w, c
}

// sample ends an interval in which n numbers were issued.
func (w *window) sample(c *clocks, n int64) {
	if took, due := w.move(c.now, c.elapsed); due && took > 0 {
		w.add("order", scaled(n, took), 0)
	}
}

func (w *window) newestPoints(n int) points { return w.points(&w.numbers)[intervals-n:] }

func TestWindow(t *testing.T) {
	const x = missing
	for _, tt := range []struct {
		name string
		do   func(w *window, c *clocks)
		want points
		last int64 // beyond the interval that was complete at the begin
	}{
		{"nothing yet", func(*window, *clocks) {}, points{x, x, x}, 0},
		{"three intervals", func(w *window, c *clocks) {
			for n := range int64(3) {
				c.pass(intervalLength)
				w.sample(c, n+7)
			}
		}, points{x, 7, 8, 9}, 3},
		{"timers that are late", func(w *window, c *clocks) {
			for n, late := range []int64{300, 10, 400} {
				c.now, c.elapsed = c.now/intervalLength*intervalLength+intervalLength+late, c.elapsed/intervalLength*intervalLength+intervalLength+late
				w.sample(c, int64(n)+7)
			}
		}, points{x, 7, 8, 9}, 3},
		{"a pause", func(w *window, c *clocks) {
			c.pass(intervalLength)
			w.sample(c, 500)
			c.pass(10 * intervalLength)
			w.sample(c, 1000)
			c.pass(intervalLength)
			w.sample(c, 500)
		}, points{500, x, x, x, x, x, x, x, x, x, 100, 500}, 12},
		{"a pause that ends amid an interval", func(w *window, c *clocks) {
			c.pass(intervalLength)
			w.sample(c, 500)
			c.pass(2*intervalLength + 3000)
			w.sample(c, 1300) // of 13 s
			c.pass(2000)
			w.sample(c, 200) // too short for a rate
			c.pass(intervalLength)
			w.sample(c, 700) // of 7 s
		}, points{500, x, 500, x, 500}, 5},
		{"a pause longer than the window", func(w *window, c *clocks) {
			c.pass(intervalLength)
			w.sample(c, 500)
			c.pass(1000 * intervalLength)
			w.sample(c, 1000)
		}, append(slices.Repeat(points{x}, intervals-1), 1), 1001},
		{"the clock is set back", func(w *window, c *clocks) {
			c.pass(intervalLength)
			w.sample(c, 7)
			c.pass(intervalLength)
			c.now -= 100 * intervalLength
			w.sample(c, 8)
		}, points{x, 7, 8}, 2 - 100},
		{"the clock is set on", func(w *window, c *clocks) {
			c.pass(intervalLength)
			w.sample(c, 7)
			c.pass(intervalLength)
			c.now += 100 * intervalLength
			w.sample(c, 8)
		}, points{x, 7, 8}, 102},
		{"two samples in an interval", func(w *window, c *clocks) {
			c.pass(intervalLength)
			w.sample(c, 7)
			c.pass(100)
			w.sample(c, 8)
		}, points{x, x, 7}, 1},
	} {
		w, c := begun()
		first := w.last
		tt.do(w, c)
		if got := w.newestPoints(len(tt.want)); !slices.Equal(got, tt.want) || w.last-first != tt.last {
			t.Errorf("%s: the points are %v and end %d intervals later; want %v and %d", tt.name, got, w.last-first, tt.want, tt.last)
		}
	}
}

// Of very many biz types the busiest have points, and old ones are forgotten.
func TestTracked(t *testing.T) {
	w, c := begun()
	const many = 1000
	for range minute + 2 { // the first interval of the busiest may be missing
		c.pass(intervalLength)
		if _, due := w.move(c.now, c.elapsed); !due {
			t.Fatal("no interval has ended")
		}
		for i := range many {
			w.add("b"+strconv.Itoa((i*389)%many), int64((i*389)%many)+1, 0)
		}
	}
	list := w.busiest()
	if len(w.bizTypes) != mostTracked || len(list) != mostBusyReported {
		t.Fatalf("%d biz types have points, and %d are told", len(w.bizTypes), len(list))
	}
	for i, b := range list {
		must.Equal(t, b.BizType, "b"+strconv.Itoa(many-1-i), "place %d, at %v,", i+1, b.NumbersPerSecond)
	}
	w.forget(func(bizType string) bool { return bizType == "b999" })
	if list = w.busiest(); list[0].BizType != "b998" {
		t.Errorf("a biz type that is gone is followed by %s", list[0].BizType)
	}
	for range intervals {
		c.pass(intervalLength)
		w.move(c.now, c.elapsed)
	}
	must.Equal(t, len(w.bizTypes), 0, "the biz types that have points after 15 idle minutes")
}

// A biz type that becomes busy while many others are gets points soon, even if in an interval it
// has fewer events than each of them in a minute. If all are about as busy, they keep their points.
func TestNewcomer(t *testing.T) {
	w, c := begun()
	rng := rand.New(rand.NewPCG(1, 2))
	pass := func(n int, newcomer int64) {
		for range n {
			c.pass(intervalLength)
			w.move(c.now, c.elapsed)
			for i := range 10 * mostTracked {
				w.add("steady"+strconv.Itoa(i), 300+rng.Int64N(200), 0)
			}
			w.add("newcomer", newcomer, 0)
		}
	}
	pass(3*minute, 0)
	before := maps.Clone(w.bizTypes)
	pass(minute, 0)
	if !maps.Equal(w.bizTypes, before) {
		t.Error("others got points although they are as busy")
	}
	pass(minute+4, 3000)
	if first := w.busiest()[0]; first.BizType != "newcomer" || first.NumbersPerSecond != 600 {
		t.Errorf("the busiest is %s at %v", first.BizType, first.NumbersPerSecond)
	}
}

// A wide interval holds three intervals that begin at a multiple of 15 s, whichever the newest one
// is.
func TestWidePoints(t *testing.T) {
	for begin := range int64(wide) {
		w, c := newWindow(), &clocks{now: (3_000_000 + begin) * intervalLength}
		w.move(c.now, c.elapsed)
		for range 40 {
			c.pass(intervalLength)
			w.move(c.now, c.elapsed)
			w.add("order", intervalBefore(c.now), 0)
			want := missing + int64(0)
			if end := wideBefore(w.last); end*wide >= 3_000_000+begin {
				want = 3 * (end*wide + 1) // the sum of three numbers in a row
			}
			p := w.widePoints(&w.numbers)
			if got := p[len(p)-1]; want != missing && got != want {
				t.Fatalf("the wide interval before %d has %d, want %d", w.last, got, want)
			}
		}
	}
}
