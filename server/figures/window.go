package figures

import (
	"math"
	"slices"

	"github.com/seqd/seqd"
)

const (
	// intervals is how many intervals are kept, intervalLength the length of one in ms.
	intervals      = 180
	intervalLength = 5000
	// wide is how many intervals are together in a point of a biz type: a wide interval.
	wide          = 3
	wideIntervals = intervals / wide
	// minute is how many intervals a minute has.
	minute = 12
	// mostTracked is how many biz types have points; as many of the busiest as a document holds are
	// among them.
	mostTracked = 32
	// excess is the ratio of the events of a biz type to those of one that has points for it to get
	// them instead. If many are about as busy, they would take turns, and none would have a past.
	// In the first minute there is no past to lose.
	excess = 1.5
)

// An interval has a number: how many intervals there were between the Unix epoch and its begin.

// intervalBefore returns the interval that was complete at a time, in ms since the Unix epoch.
func intervalBefore(ms int64) int64 { return ms/intervalLength - 1 }

// endOf returns when an interval ends, in ms since the Unix epoch.
func endOf(interval int64) int64 { return (interval + 1) * intervalLength }

// wideBefore returns the wide interval that is complete at the end of an interval.
func wideBefore(interval int64) int64 { return (interval+1)/wide - 1 }

// series are counts by interval, as a ring.
type series [intervals]int64

// window holds what happened on this node in the latest intervals. Its rings begin wherever at
// says. Memory: some 25 KB, 3 KB for each biz type tracked, and 100 bytes for each that was busy
// lately.
type window struct {
	begun bool
	last  int64 // the newest interval
	at    int   // its index in the rings
	ahead int64 // what the clock said more than elapsed, at the last sample
	seen  int64 // elapsed at the last sample
	age   int   // how many intervals there were so far

	known            [intervals]bool
	numbers, refused series
	calls            [intervals][mostBuckets]uint32
	codes            map[seqd.Code]*series
	bizTypes         map[string]*tracked
	// busy has roughly the events of the last minute, also of biz types that are not tracked: each
	// interval takes a twelfth away.
	busy map[string]int64
}

// tracked are the points of a biz type.
type tracked struct{ numbers, refused series }

func newWindow() *window {
	return &window{codes: make(map[seqd.Code]*series), bizTypes: make(map[string]*tracked), busy: make(map[string]int64)}
}

// move ends an interval. now is the time that nodes have in common and elapsed a clock that nobody
// can set, both in ms. If due is true, what was counted since the last sample is to be added now:
// took is for how long. It is 0 for the first sample, whose counts belong to no interval.
//
// If now was set, the points are taken to be as old as elapsed says. Intervals that nobody counted,
// such as during a pause of the process, stay unknown.
func (w *window) move(now, elapsed int64) (took int64, due bool) {
	interval, ahead := intervalBefore(now), now-elapsed
	if !w.begun {
		w.begun, w.last, w.ahead, w.seen = true, interval, ahead, elapsed
		return 0, true
	}
	w.last += int64(math.Round(float64(ahead-w.ahead) / intervalLength))
	w.ahead = ahead
	steps := interval - w.last
	if steps <= 0 {
		return 0, false
	}
	for range min(steps, intervals) {
		w.advance()
	}
	w.last, took = interval, elapsed-w.seen
	if took < intervalLength/2 { // too short for a rate: it counts with the next interval
		return 0, false
	}
	w.seen = elapsed
	w.known[w.at] = true
	return took, true
}

// advance begins an interval of which nothing is known.
func (w *window) advance() {
	w.at = (w.at + 1) % intervals
	w.known[w.at], w.numbers[w.at], w.refused[w.at] = false, 0, 0
	clear(w.calls[w.at][:])
	for code, s := range w.codes {
		if s[w.at] = 0; *s == (series{}) {
			delete(w.codes, code)
		}
	}
	for name, t := range w.bizTypes {
		t.numbers[w.at], t.refused[w.at] = 0, 0
		if *t == (tracked{}) {
			delete(w.bizTypes, name)
		}
	}
	w.choose()
}

// scaled returns what a count over took would be over an interval. The timer of an interval is a
// little late now and then; that is not worth a fraction.
func scaled(n, took int64) int64 {
	if took > intervalLength*9/10 && took < intervalLength*11/10 {
		return n
	}
	return int64(math.Round(float64(n) * intervalLength / float64(took)))
}

// add adds what was counted for a biz type to the newest interval.
func (w *window) add(bizType string, issued, refused int64) {
	w.numbers[w.at] += issued
	w.refused[w.at] += refused
	w.busy[bizType] += issued + refused
	t := w.bizTypes[bizType]
	if t == nil {
		if len(w.bizTypes) == mostTracked {
			return // for this interval; see choose
		}
		t = new(tracked)
		w.bizTypes[bizType] = t
	}
	t.numbers[w.at] += issued
	t.refused[w.at] += refused
}

// choose begins to keep points of biz types that are busier than others that have points.
func (w *window) choose() {
	w.age++
	if len(w.bizTypes) == mostTracked {
		weakest := w.weakest()
		for name, events := range w.busy {
			if w.bizTypes[name] == nil && w.exceeds(events, w.busy[weakest]) {
				delete(w.bizTypes, weakest)
				w.bizTypes[name] = new(tracked)
				weakest = w.weakest()
			}
		}
	}
	for name, events := range w.busy {
		if w.busy[name] -= (events + minute - 1) / minute; w.busy[name] <= 0 {
			delete(w.busy, name)
		}
	}
}

// weakest returns the biz type tracked that is the least busy.
func (w *window) weakest() (name string) {
	least := int64(math.MaxInt64)
	for other := range w.bizTypes {
		if events := w.busy[other]; events < least {
			name, least = other, events
		}
	}
	return name
}

// exceeds reports whether so many events are enough to take the place of a biz type with others.
func (w *window) exceeds(events, others int64) bool {
	if w.age <= minute {
		return events > others
	}
	return float64(events) > excess*float64(others)
}

// forget leaves out the biz types that are gone.
func (w *window) forget(gone func(bizType string) bool) {
	for name := range w.bizTypes {
		if gone(name) {
			delete(w.bizTypes, name)
			delete(w.busy, name)
		}
	}
}

// addCode adds refusals with a code to the newest interval.
func (w *window) addCode(code seqd.Code, n int64) {
	s := w.codes[code]
	if s == nil {
		s = new(series)
		w.codes[code] = s
	}
	s[w.at] += n
}

// lately returns the sums of the last minute, and how many of its intervals are known.
func (w *window) lately(t *tracked) (numbers, refused int64, known int) {
	for i := range w.newest(minute) {
		if w.known[i] {
			known++
		}
		numbers += t.numbers[i]
		refused += t.refused[i]
	}
	return numbers, refused, known
}

// newest yields the indexes of the newest n intervals, the newest first.
func (w *window) newest(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for back := range n {
			if !yield((w.at - back + intervals) % intervals) {
				return
			}
		}
	}
}

// points returns a ring as points.
func (w *window) points(s *series) points {
	list := make(points, 0, intervals)
	for i := range w.newest(intervals) {
		if w.known[i] {
			list = append(list, s[i])
		} else {
			list = append(list, missing)
		}
	}
	slices.Reverse(list)
	return list
}

// widePoints returns a ring as points of wide intervals, of which the newest one is [wideBefore]
// the last interval.
func (w *window) widePoints(s *series) points {
	newest := w.points(s)
	newest = newest[:intervals-int((w.last+1)%wide)] // of a wide interval that is not complete
	list := make(points, 0, wideIntervals)
	for end := len(newest); end >= wide; end -= wide {
		sum, known := int64(0), int64(0)
		for _, v := range newest[end-wide : end] {
			if v != missing {
				sum, known = sum+v, known+1
			}
		}
		if known == 0 {
			sum = missing
		} else {
			sum = sum * wide / known
		}
		list = append(list, sum)
	}
	slices.Reverse(list)
	return list
}

// histogram returns the calls of all intervals, packed.
func (w *window) histogram() histogram {
	var h histogram
	for back := range intervals {
		h.add(&w.calls[(w.at+1+back)%intervals])
	}
	return h
}
