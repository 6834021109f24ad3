package figures

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/longtest"
	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/server/admin"
)

// endTime returns the time of the end of an interval.
func endTime(interval int64) time.Time { return time.UnixMilli(endOf(interval)) }

// world returns what a node knows just after an interval has ended, if it is alone and idle.
func world(interval int64, id string) known {
	here := &report{Version: version, ID: id, State: nodeReady, Last: interval}
	return known{
		at: endTime(interval), complete: true, here: here, reports: []*report{here},
		nodes: []admin.Node{{ID: id, Self: true, Addr: "127.0.0.1:1", Host: id}},
	}
}

func encoded(t *testing.T, o *overview) string {
	t.Helper()
	text := must.Get(json.Marshal(o))(t)
	return string(text)
}

// fate is what a test lets happen to a node, and what it counts, by interval.
type fate struct {
	begin, end int64 // it samples the intervals from begin to end
	left       bool
	ahead      int64 // intervals by which its clock is ahead, and it does not know that
	counts     map[int64]map[string]int64
	calls      map[int64][mostBuckets]int64
	awake      map[int64]bool
	report     *report
}

var testBounds = []float64{0.001, 0.01, 0.1, 1}

// live lets the node live, and writes and reads its report.
func (f *fate) live(t *testing.T, id string, rng *rand.Rand) {
	w, asleep := newWindow(), int64(0)
	begin := endOf(f.begin - 1)
	w.move(begin+f.ahead*intervalLength, 0)
	for interval := f.begin; interval <= f.end; interval++ {
		if asleep--; asleep < 0 && rng.IntN(30) == 0 {
			asleep = rng.Int64N(20)
		}
		late := rng.Int64N(400)
		if f.awake[interval] = asleep < 0; !f.awake[interval] {
			continue
		}
		took, due := w.move(endOf(interval)+late+f.ahead*intervalLength, endOf(interval)+late-begin)
		if !due {
			t.Fatalf("interval %d is not due", interval)
		}
		if took > intervalLength*11/10 { // it was asleep, and issued nothing
			continue
		}
		f.counts[interval] = make(map[string]int64)
		for i := range 6 {
			name, n := fmt.Sprint("b", i), rng.Int64N(1000)
			w.add(name, n, n/10)
			f.counts[interval][name] = n
		}
		calls := f.calls[interval]
		for i := range testBounds {
			calls[i] = rng.Int64N(16)
			w.calls[w.at][i] = uint32(calls[i])
		}
		f.calls[interval] = calls
	}
	r := &report{Version: version, Bounds: testBounds, Left: f.left, State: nodeReady, Host: id, Addr: "127.0.0.1:1"}
	r.fill(w)
	body, err := r.write()
	must.Do(t, err)
	if f.report, err = readReport(id, body); err != nil {
		t.Fatal(err)
	}
}

// TestMergeOfRandomWorlds compares the overview with sums that are made interval by interval.
func TestMergeOfRandomWorlds(t *testing.T) {
	for seed := range uint64(longtest.Or(60, 2000)) {
		rng := rand.New(rand.NewPCG(seed, 43))
		now := 300_000_000 + rng.Int64N(10_000)
		k := world(now, "here")
		k.at = k.at.Add(time.Duration(rng.IntN(intervalLength)) * time.Millisecond)
		var fates []*fate
		for i := range 1 + rng.IntN(5) {
			f := &fate{
				begin: now - rng.Int64N(2*intervals), counts: map[int64]map[string]int64{}, calls: map[int64][mostBuckets]int64{},
				awake: map[int64]bool{}, end: now - rng.Int64N(3),
			}
			switch rng.IntN(5) {
			case 0: // it died
				f.end = now - rng.Int64N(intervals)
			case 1:
				f.end, f.left = now-rng.Int64N(intervals), true
			case 2:
				f.ahead = 3 + rng.Int64N(1000)
			}
			f.end = max(f.end, f.begin)
			f.live(t, fmt.Sprint("n", i), rng)
			fates = append(fates, f)
			k.reports = append(k.reports, f.report)
		}
		k.reports = k.reports[1:] // this node does not count
		k.here.Last = 0
		compare(t, seed, now, merge(k), fates)
	}
}

// compare compares an overview with what happened to nodes.
func compare(t *testing.T, seed uint64, now int64, o *overview, fates []*fate) {
	t.Helper()
	until := now
	for _, f := range fates {
		if last := min(f.report.Last, now); last >= now-mostLag && !f.left {
			until = min(until, last)
		}
	}
	if want := admin.Time(endOf(until)); o.Until != want {
		t.Fatalf("seed %d: the overview ends at %s, want %s", seed, o.Until, want)
	}
	for i := range intervals {
		interval := until - intervals + 1 + int64(i)
		sum, calls, told := int64(0), [mostBuckets]int64{}, false
		for _, f := range fates {
			at := f.was(interval, now)
			if !f.told(at) {
				continue
			}
			told = true
			for _, n := range f.counts[at] {
				sum += n
			}
			for b, n := range f.calls[at] {
				calls[b] += n
			}
		}
		want := unknown
		if told {
			want = amount(float64(sum) / 5)
		}
		if got := o.Numbers[i]; !same(got, want) {
			t.Fatalf("seed %d: interval %d has %v numbers per second, want %v", seed, i, got, want)
		}
		checkQuantile(t, o.Latency.P50[i], 0.50, calls)
		checkQuantile(t, o.Latency.P99[i], 0.99, calls)
	}
	for _, b := range o.Busiest {
		compareWide(t, seed, now, until, b, fates)
	}
}

// told reports whether the node told anything about an interval.
func (f *fate) told(interval int64) bool {
	return interval >= f.begin && interval <= f.end && f.awake[interval] && interval > f.report.Last-f.ahead-intervals
}

// was returns which interval of the node is shown as an interval.
func (f *fate) was(interval, now int64) int64 {
	return interval - f.ahead + max(f.report.Last-now, 0)
}

func same(a, b amount) bool {
	return math.IsNaN(float64(a)) && math.IsNaN(float64(b)) || math.Abs(float64(a-b)) < 1e-6*max(1, float64(b))
}

// checkQuantile checks that a quantile is in the bucket of the call that it is about.
func checkQuantile(t *testing.T, got amount, share float64, calls [mostBuckets]int64) {
	t.Helper()
	total := int64(0)
	for _, n := range calls {
		total += n
	}
	if total == 0 {
		if !math.IsNaN(float64(got)) {
			t.Fatalf("without calls the quantile is %v", got)
		}
		return
	}
	below, low := int64(0), 0.0
	for i, bound := range testBounds {
		if below += calls[i]; float64(below) >= share*float64(total) {
			if float64(got) < 1000*low*(1-1e-9) || float64(got) > 1000*bound*(1+1e-9) {
				t.Fatalf("the quantile %v of %v is %v, want %v to %v", share, calls[:len(testBounds)], got, low, bound)
			}
			return
		}
		low = bound
	}
}

// compareWide compares the points of a biz type with what happened. Clocks that are ahead
// unknowingly are left out: their wide intervals are others.
func compareWide(t *testing.T, seed uint64, now, until int64, b busy, fates []*fate) {
	t.Helper()
	for _, f := range fates {
		if f.ahead > 0 {
			return
		}
	}
	for i, got := range b.Points {
		first := (wideBefore(until) - wideIntervals + 1 + int64(i)) * wide
		want, any, cut := 0.0, false, false
		for _, f := range fates {
			sum, told := 0.0, 0.0
			for interval := first; interval < first+wide; interval++ {
				if f.told(interval) {
					told++
					sum += float64(f.counts[interval][b.BizType])
				}
			}
			// The oldest and the newest wide interval of a window may be cut.
			if last := f.report.Last; first+wide-1 > last || first <= last-intervals+wide {
				cut = true
				continue
			}
			if told > 0 {
				any = true
				want += math.Floor(sum * wide / told)
			}
		}
		if cut {
			continue
		}
		if want /= 15; !any && math.IsNaN(float64(got)) {
			continue
		}
		if math.Abs(float64(got)-want) > 1e-6 {
			t.Fatalf("seed %d: wide interval %d of %s has %v per second, want %v (until %d)", seed, i, b.BizType, got, want, until)
		}
	}
}

func TestNodesOfOverview(t *testing.T) {
	const now = 300_000_000
	k := world(now, "here")
	alive := func(id string) { k.nodes = append(k.nodes, admin.Node{ID: id, Host: id, Addr: ":1"}) }
	tells := func(id, host string, last int64) *report {
		r := &report{Version: version, ID: id, Host: host, Addr: ":1", Last: last, State: nodeReady, Numbers: points{10}, Refused: points{0}}
		k.reports = append(k.reports, r)
		return r
	}
	alive("degraded")
	tells("degraded", "degraded", now).State = nodeDegraded
	alive("late") // the store was slow
	tells("late", "late", now-3)
	alive("mute") // it can tell that it is there, but no figures
	tells("mute", "mute", now-100)
	alive("old") // of a version without reports
	tells("dead", "dead", now-100)
	tells("before", "degraded", now-5) // it was started again
	tells("stopped", "stopped", now-1).Left = true
	got := make(map[string]string)
	for _, n := range merge(k).Nodes {
		got[n.ID] = string(n.State)
		if n.Figures != nil {
			got[n.ID] += fmt.Sprint(" ", n.Figures.NumbersPerSecond)
		}
	}
	want := map[string]string{"here": "ready", "degraded": "degraded 2", "late": "ready 2", "mute": "", "old": "", "dead": "gone"}
	must.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "the nodes")
}

// A node that stopped or died adds to the past, and not to the rates of the last minute. Durations
// in other buckets are left out.
func TestRatesOfTheSilent(t *testing.T) {
	const now = 300_000_000
	k := world(now, "here")
	k.here.Bounds, k.here.Calls = testBounds, intervals1(2)
	tells := func(id string, last int64) *report {
		r := &report{
			Version: version, ID: id, Last: last, Bounds: testBounds, Refusals: []refusal{{"exhausted", 2, 7}},
			Busiest: []busyHere{{"order", 3, 1, points{150}}},
		}
		k.reports = append(k.reports, r)
		return r
	}
	tells("alive", now)
	tells("stopped", now).Left = true
	tells("dead", now-silence)
	other := tells("newer", now)
	other.Bounds, other.Calls = []float64{7}, intervals1(0)
	o := merge(k)
	must.Equal(t, fmt.Sprint(o.Refusals, o.Busiest[0].NumbersPerSecond, o.Busiest[0].RefusedPerSecond), "[{exhausted 4 28}] 6 2", "the rates")
	if got := o.Latency.P50[intervals-1]; got < 10 || got > 100 {
		t.Errorf("the latency is %v", got)
	}
}

// Refusals are those of the last 15 minutes, also if a node wrote what it knows 10 minutes ago.
func TestRefusalsOfTheSilent(t *testing.T) {
	const now = 300_000_000
	for ago, want := range map[int64]int64{0: 12, 60: 8, 119: 4, 120: 4, intervals - 1: 4, intervals: 0} {
		k := world(now, "here")
		refused := make(points, intervals)
		refused[0], refused[100], refused[intervals-1] = 4, 4, 4
		if ago == 119 { // a report may say less than all intervals
			refused = refused[100:]
			refused[10] = 4
		}
		k.reports = append(k.reports, &report{
			Version: version, ID: "stopped", Last: now - ago, Left: true, Refused: refused, Refusals: []refusal{{"exhausted", 2, 12}},
		})
		got := int64(0)
		for _, r := range merge(k).Refusals {
			got += r.Total
		}
		must.Equal(t, got, want, "the refusals in the overview %d intervals after the stop", ago)
	}
}

// intervals1 returns a histogram with one call in each interval.
func intervals1(bucket int) (h histogram) {
	var counts [mostBuckets]uint32
	counts[bucket] = 1
	for range intervals {
		h.add(&counts)
	}
	return h
}

func TestReadReport(t *testing.T) {
	for body, good := range map[string]bool{
		`{"v":1,"last":5}`: true, `{"v":2,"last":5,"new":[{}]}`: true, `{"v":0,"last":5}`: false, `{"v":1,"last":-5}`: false, `{"v":1,"last":9223372036854775807}`: false,
		`{"v":1,"last":5,"busiest":[{"bizType":"order"},{"bizType":"_other"}]}`: true, `{"v":1,"last":5,"busiest":[{"bizType":"<b>"}]}`: false,
		`{"v":1,"last":5,"numbers":"gA"}`: false, `{"v":1,"last":5,"calls":"BQ"}`: false, `{"v":1,"last":5,"state":7}`: false, `[]`: false, ``: false,
		`{"v":1,"last":5,"inHand":[` + strings.Repeat("{},", 10*mostListed) + `{}]}`: false, `{"v":1,"last":5,"addr":"` + strings.Repeat("x", longestReport) + `"}`: false,
	} {
		if _, err := readReport("a", body); (err == nil) != good {
			t.Errorf("%.80s: %v", body, err)
		}
	}
}

// Whatever lasts shortest on any node is shown, once.
func TestMergeOfLists(t *testing.T) {
	k := world(300_000_000, "here")
	other := &report{Version: version, ID: "other", Last: 300_000_000}
	k.reports = append(k.reports, other)
	inf := amount(math.Inf(1))
	k.here.InHand = []inHand{{"a", 10, 5, 1}, {"idle", 7, inf, 1}}
	other.InHand = []inHand{{"a", 8, 4, 1}, {"b", 100, 50, 1}}
	k.here.RunsOut = []runsOut{
		{BizType: "flake", What: machineIDsEnd, Registry: "r", LastsMS: inf, Share: 0.9},
		{BizType: "a", What: numbersEnd, LastsMS: 100, Share: 0.1}, {BizType: "for ever", What: numbersEnd, LastsMS: inf, Share: 0},
	}
	other.RunsOut = []runsOut{
		{BizType: "other-flake", What: machineIDsEnd, Registry: "r", LastsMS: inf, Share: 0.95},
		{BizType: "a", What: numbersEnd, LastsMS: 90, Share: 0.1}, {BizType: "a", What: displayEnds, Plugin: "format", LastsMS: 80, Share: 0.2},
		{BizType: "reset", What: numbersEnd, LastsMS: inf, Share: 0.99, Resets: true},
	}
	k.here.BizTypes, other.BizTypes = census{Total: 2, Ready: 2}, census{Total: 12, Degraded: 3, Unready: 9, Disabled: 1}
	o := merge(k)
	text := encoded(t, o)
	for _, want := range []string{
		`"inHand":[{"bizType":"a","numbers":8,"lastsMs":4,"step":1},{"bizType":"b","numbers":100,"lastsMs":50,"step":1},{"bizType":"idle","numbers":7,"lastsMs":null,"step":1}]`,
		`"runsOut":[{"bizType":"a","plugin":"format","what":"display","lastsMs":80,"share":0.2},` +
			`{"bizType":"a","plugin":"","what":"numbers","lastsMs":90,"share":0.1},` +
			`{"bizType":"other-flake","plugin":"","what":"machineIds","registry":"r","lastsMs":null,"share":0.95}]`,
		`"bizTypes":{"total":12,"ready":0,"degraded":2,"unready":9,"disabled":1}`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the overview has no %s: %s", want, text)
		}
	}
}

func TestAmounts(t *testing.T) {
	for v, want := range map[amount]string{
		0: "0", 1: "1", 1234567: "1234567", 1234567.89: "1234567.9", 0.4: "0.4", 12.3456: "12.35", 3.1415926e-6: "3.142e-06",
		amount(math.Inf(1)): "null", 999.96: "1000", 31536000.4: "31536000.4",
	} {
		must.Equal(t, string(must.Get(json.Marshal(v))(t)), want, "%v as JSON", float64(v))
	}
	must.Equal(t, string(must.Get(json.Marshal(curve{1, unknown, 0.5}))(t)), "[1,null,0.5]", "a curve as JSON")
}
