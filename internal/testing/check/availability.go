package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// Availability describes how callers were served during faults of a class, alone or with others.
type Availability struct {
	// NoFault for times without faults, "a + b" for two classes at once
	Class  string `json:"class"`
	Faults int    `json:"faults"`
	// calls for numbers that started in that time, except those that the load itself prevents from
	// being answered
	Asked    int           `json:"asked"`
	Answered int           `json:"answered"` // with numbers
	Refused  int           `json:"refused"`  // with a problem document; the others got no answer
	Gap      time.Duration `json:"gap"`      // the longest time without an answer from any node
	NodeGap  time.Duration `json:"nodeGap"`  // the longest gap of one node that got calls, and its name
	GapNode  string        `json:"gapNode,omitempty"`
	// the longest time from the end of a fault until everything that failed was answered again
	Recovery time.Duration `json:"recovery"`
	Never    int           `json:"never"` // how many of them were never answered again
}

// NoFault is the class of times without faults.
const NoFault = "(none)"

// intended are the codes of calls that the load itself prevents from being answered: by its
// changes, its rate limit, and callers that disconnect.
var intended = map[string]bool{"disabled": true, "unknown_biz_type": true, "rate_limited": true, "canceled": true}

// share returns the percentage of calls that were answered.
func (a *Availability) share() float64 {
	if a.Asked == 0 {
		return 100
	}
	return 100 * float64(a.Answered) / float64(a.Asked)
}

// availability measures availability. It reports no violations.
func (h *evidence) availability(r *Report) {
	v := newView(h)
	byClass := make(map[string][]record.Fault)
	var on []window
	for i, f := range h.faults {
		byClass[f.Class] = append(byClass[f.Class], f)
		on = append(on, window{f.Begin, f.End})
		for _, other := range h.faults[:i] {
			if both := (window{max(f.Begin, other.Begin), min(f.End, other.End)}); both.from < both.to && f.Class != other.Class {
				name := min(f.Class, other.Class) + " + " + max(f.Class, other.Class)
				byClass[name] = append(byClass[name], record.Fault{Class: name, Begin: both.from, End: both.to})
			}
		}
	}
	none := h.end // the load starts once all nodes are ready
	if len(v.byStart) > 0 {
		none = v.byStart[0].start
	}
	for _, w := range append(merge(on), window{h.end, h.end}) {
		if w.from > none {
			byClass[NoFault] = append(byClass[NoFault], record.Fault{Class: NoFault, Begin: none, End: w.from})
		}
		none = max(none, w.to)
	}
	for class, faults := range byClass {
		r.ByClass = append(r.ByClass, v.measure(class, faults))
	}
	slices.SortFunc(r.ByClass, func(a, b Availability) int {
		return cmp.Or(cmp.Compare(strings.Count(a.Class, " + "), strings.Count(b.Class, " + ")), cmp.Compare(a.Class, b.Class))
	})
}

// view has the calls for numbers, sorted for the measurements.
type view struct {
	byStart []*call
	ends    []int64            // of answers, sorted
	byNode  map[string][]int64 // likewise
	asked   map[string][]int64 // starts by node, sorted
	pairs   map[[2]string][]*call
}

func newView(h *evidence) *view {
	v := &view{byNode: make(map[string][]int64), asked: make(map[string][]int64), pairs: make(map[[2]string][]*call)}
	for n := range h.calls {
		c := &h.calls[n]
		if c.kind == record.Job { // nobody waits for its answer
			continue
		}
		v.byStart = append(v.byStart, c)
		v.asked[c.node] = append(v.asked[c.node], c.start)
		pair := [2]string{c.node, c.bizType.Name}
		v.pairs[pair] = append(v.pairs[pair], c)
		if c.answered() {
			v.ends = append(v.ends, c.end)
			v.byNode[c.node] = append(v.byNode[c.node], c.end)
		}
	}
	slices.Sort(v.ends)
	for _, ends := range v.byNode {
		slices.Sort(ends)
	}
	return v
}

// measure measures the time of some faults.
func (v *view) measure(class string, faults []record.Fault) Availability {
	a := Availability{Class: class, Faults: len(faults)}
	var spans []window
	for _, f := range faults {
		spans = append(spans, window{f.Begin, f.End})
	}
	for _, w := range merge(spans) {
		from, _ := slices.BinarySearchFunc(v.byStart, w.from, func(c *call, at int64) int { return cmp.Compare(c.start, at) })
		for _, c := range v.byStart[from:] {
			if c.start >= w.to {
				break
			}
			if intended[c.code] {
				continue
			}
			a.Asked++
			switch {
			case c.answered():
				a.Answered++
			case c.status != 0:
				a.Refused++
			}
		}
		a.Gap = max(a.Gap, gap(v.ends, w))
		for node, starts := range v.asked {
			i, _ := slices.BinarySearch(starts, w.from)
			if i == len(starts) || starts[i] >= w.to {
				continue // it got no calls
			}
			if g := gap(v.byNode[node], w); g > a.NodeGap {
				a.NodeGap, a.GapNode = g, node
			}
		}
	}
	if class != NoFault && !strings.Contains(class, " + ") {
		for _, f := range faults {
			v.recover(f, &a)
		}
	}
	return a
}

// gap returns the longest interval in a window without any of the sorted moments.
func gap(moments []int64, w window) time.Duration {
	i, _ := slices.BinarySearch(moments, w.from)
	longest, last := int64(0), w.from
	for _, m := range moments[i:] {
		if m > w.to {
			break
		}
		longest, last = max(longest, m-last), m
	}
	return time.Duration(max(longest, w.to-last))
}

// recover measures how long after a fault it took until what had failed last was answered again.
func (v *view) recover(f record.Fault, a *Availability) {
	for _, calls := range v.pairs {
		failed := false
		i, _ := slices.BinarySearchFunc(calls, f.Begin, func(c *call, at int64) int { return cmp.Compare(c.start, at) })
		for ; i < len(calls) && calls[i].start <= f.End; i++ {
			if c := calls[i]; !c.cancelled() {
				failed = !c.answered()
			}
		}
		if !failed {
			continue
		}
		again := slices.IndexFunc(calls[i:], func(c *call) bool { return c.answered() })
		if again < 0 {
			a.Never++
			continue
		}
		a.Recovery = max(a.Recovery, time.Duration(calls[i+again].end-f.End))
	}
}

// cancelled reports whether the caller itself ended the call.
func (c *call) cancelled() bool { return c.code == "canceled" && c.status == 0 }

func (r *Report) showAvailability(b *strings.Builder) {
	if len(r.ByClass) == 0 {
		return
	}
	fmt.Fprintf(b, "%-40s %6s %9s %9s %9s %10s %12s %10s %6s\n", "fault", "times", "asked", "answered", "refused", "gap", "node's gap", "recovery", "never")
	for i := range r.ByClass {
		a := &r.ByClass[i]
		ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
		fmt.Fprintf(b, "%-40s %6d %9d %8.2f%% %9d %10s %12s %10s %6d\n", a.Class, a.Faults, a.Asked, a.share(), a.Refused, ms(a.Gap), strings.TrimSpace(ms(a.NodeGap)+" "+a.GapNode), ms(a.Recovery), a.Never)
	}
}
