package stats

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

const (
	// intervalLength is how often the totals are saved. A rate over a window covers at least the
	// window, and at most intervalLength more.
	intervalLength = 15 * time.Second
	// mostIntervals is how many notes are kept: those of 15 minutes and of the current interval.
	mostIntervals = int64(15*time.Minute/intervalLength) + 1
	// mostCodes limits the number of codes that are counted separately. seqd has fewer, but a
	// user's plugin might invent more.
	mostCodes = 64
)

// counter counts, and remembers its totals at the start of each interval in which something
// happened. Totals only grow and a rate is a difference of totals, so no rate is negative. Issuing
// uses atomics only, except for the first request of an interval.
type counter struct {
	now   func() time.Time
	start time.Time // the start of interval 0, with a monotonic clock if the time has one

	issued, requests, rejected atomic.Int64
	// when numbers were last issued, as the time since start; 0 for never
	last atomic.Int64
	// the latest interval with a note, -1 at first; written with mu held
	interval atomic.Int64

	mu      sync.Mutex // guards what follows
	begin   int64      // the first interval that rates can use
	notes   *[mostIntervals]note
	byCodes map[seqd.Code]int64
}

// note is the totals before anything happened in an interval.
type note struct {
	interval                   int64
	issued, requests, rejected int64
}

// never is the interval of an empty note.
const never = -1

func (c *counter) init(now func() time.Time) {
	c.now, c.start = now, now()
	c.interval.Store(never)
}

// issue counts one request that got n numbers.
func (c *counter) issue(n int) {
	passed := c.enter()
	c.issued.Add(int64(n))
	c.requests.Add(1)
	c.last.Store(max(passed, 1))
}

// reject counts one request that got none.
func (c *counter) reject(code seqd.Code) {
	c.enter()
	c.rejected.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.byCodes[code]; !known && len(c.byCodes) >= mostCodes {
		code = seqd.CodeInternal
	}
	if c.byCodes == nil {
		c.byCodes = make(map[seqd.Code]int64)
	}
	c.byCodes[code]++
}

// enter saves the totals if an interval begins, and returns the time since the start. Call it
// before the totals change.
func (c *counter) enter() (passed int64) {
	passed = c.passed()
	if interval := passed / int64(intervalLength); interval != c.interval.Load() {
		c.mu.Lock()
		c.note(interval)
		c.mu.Unlock()
	}
	return passed
}

// passed returns the time since the start, in ns and at least 0.
func (c *counter) passed() int64 { return max(0, int64(c.now().Sub(c.start))) }

// note saves the totals for an interval, once. If the clock was set back by more than an interval,
// it drops the notes of later intervals, and rates restart. mu is held.
func (c *counter) note(interval int64) {
	last := c.interval.Load()
	// last-1: the request read the clock before another one did
	if interval == last || interval == last-1 {
		return
	}
	switch {
	case c.notes == nil:
		c.notes = new([mostIntervals]note)
		c.forget()
	case interval < last:
		c.forget()
		c.begin = interval
	}
	c.notes[interval%mostIntervals] = note{interval, c.issued.Load(), c.requests.Load(), c.rejected.Load()}
	c.interval.Store(interval)
}

// forget drops all notes. mu is held.
func (c *counter) forget() {
	for i := range c.notes {
		c.notes[i].interval = never
	}
}

// report returns everything but the name.
func (c *counter) report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := c.passed()
	if c.notes != nil {
		// detects a clock that was set back since the last request
		c.note(passed / int64(intervalLength))
	}
	r := Report{
		Since: c.start.UTC(), Issued: c.issued.Load(), Requests: c.requests.Load(), Refused: make(map[seqd.Code]int64, len(c.byCodes)),
		Rates: Rates{
			OneMinute:      c.rate(passed, time.Minute),
			FiveMinutes:    c.rate(passed, 5*time.Minute),
			FifteenMinutes: c.rate(passed, 15*time.Minute),
		},
	}
	for code, n := range c.byCodes {
		r.Refused[code] = n
	}
	if last := c.last.Load(); last > 0 {
		at := c.start.Add(time.Duration(last)).UTC()
		r.LastAt = &at
	}
	return r
}

// quiet reports whether nothing was counted within the longest window.
func (c *counter) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := c.passed()
	if c.notes == nil {
		return true
	}
	c.note(passed / int64(intervalLength))
	return c.rate(passed, 15*time.Minute) == Rate{}
}

// rate returns the rate from the start of the interval in which the window begins, or from where
// counting begins if that is later, until now. mu is held.
func (c *counter) rate(passed int64, window time.Duration) Rate {
	length := int64(intervalLength)
	first := max(c.begin, passed/length-int64(window)/length)
	base, found := c.noteFrom(first)
	if !found {
		return Rate{} // nothing happened since
	}
	// In the first second the rate would exceed the total.
	seconds := max(time.Duration(passed-first*length).Seconds(), 1)
	return Rate{
		Issued:   float64(c.issued.Load()-base.issued) / seconds,
		Requests: float64(c.requests.Load()-base.requests) / seconds,
		Refused:  float64(c.rejected.Load()-base.rejected) / seconds,
	}
}

// noteFrom returns the totals at the start of an interval, which are those of the first note from
// there on. mu is held.
func (c *counter) noteFrom(first int64) (base note, found bool) {
	if c.notes == nil {
		return note{}, false
	}
	for _, n := range c.notes {
		if n.interval >= first && (!found || n.interval < base.interval) {
			base, found = n, true
		}
	}
	return base, found
}
