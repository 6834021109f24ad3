package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seqd/seqd/internal/testing/record"
)

// interval is a gapless sequence of numbers of a counter or a machine ID, divided by their
// distance.
type interval struct {
	first, last int64
	issue       int32
}

// pool is a set of numbers that must all be different.
type pool struct {
	bizType string // or the group of several biz types
	of      string // the key, if the biz type is keyed
	period  string
	machine int64 // of snowflake, else 0
}

// checkDuplicates requires that no number is issued twice, over all nodes, processes, faults and
// changes of a biz type, even after it was deleted and created again. The same holds for display
// forms, and for answers that were cut off (U1, U2, U5, U6; docs/PROMISES.md). Nothing
// excuses a duplicate. If a counter resets with each period, equal numbers of two periods are
// different. Biz types that share machine IDs share numbers.
func (h *evidence) checkDuplicates(r *Report, issues []issue) {
	issues = slices.Concat(issues, h.halves)
	for p, all := range h.intervals(issues) {
		h.sweepDuplicates(r, issues, p, all)
	}
	h.checkOpaque(r, issues)
}

// intervals sorts the numbers of all answers into pools.
func (h *evidence) intervals(issues []issue) map[pool][]interval {
	pools := make(map[pool][]interval)
	for i := range issues {
		b := issues[i].bizType
		unit, p := int64(1), pool{bizType: b.Name, of: issues[i].of, period: issues[i].period}
		if b.Strategy == record.Snowflake {
			unit, p = int64(1)<<b.BitsMachine, pool{bizType: b.Group}
		}
		add := func(first, count int64) {
			p.machine = first % unit
			pools[p] = append(pools[p], interval{first / unit, first/unit + count - 1, int32(i)})
		}
		for _, run := range issues[i].runs {
			if run.Step == unit || run.Count == 1 {
				add(run.First, run.Count)
				continue
			}
			for n := range run.Count {
				add(run.First+n*run.Step, 1)
			}
		}
	}
	return pools
}

// sweepDuplicates finds numbers that are in several intervals.
func (h *evidence) sweepDuplicates(r *Report, issues []issue, p pool, all []interval) {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last)) })
	var highest interval // the one with the highest end so far
	for n, i := range all {
		if n > 0 && i.first <= highest.last {
			last := min(i.last, highest.last)
			r.Duplicates += last - i.first + 1
			one, two := &issues[highest.issue], &issues[i.issue]
			number := i.first
			if b := two.bizType; b.Strategy == record.Snowflake {
				number = i.first<<b.BitsMachine + p.machine
			}
			text := fmt.Sprintf("%d was issued twice", number)
			if more := last - i.first; more > 0 {
				text = fmt.Sprintf("%d and %d more were issued twice", number, more)
			}
			h.fail(r, RuleDuplicate, two.bizType.Name, last-i.first+1, max(one.end, two.end), text, one.call, two.call)
		}
		if n == 0 || i.last > highest.last {
			highest = i
		}
	}
}

// shown is a display form that hides its number.
type shown struct {
	hash  uint64
	issue int32
}

// checkOpaque finds duplicates of display forms that hide their numbers. It compares hashes: among
// 10^7 forms, two different ones have the same hash with a probability of about 10^-6.
func (h *evidence) checkOpaque(r *Report, issues []issue) {
	all := make(map[*bizType][]shown)
	for i := range issues {
		for _, hash := range issues[i].texts {
			all[issues[i].bizType] = append(all[issues[i].bizType], shown{hash, int32(i)})
		}
	}
	for b, forms := range all {
		slices.SortFunc(forms, func(a, b shown) int { return cmp.Compare(a.hash, b.hash) })
		for n := 1; n < len(forms); n++ {
			if forms[n].hash == forms[n-1].hash {
				one, two := &issues[forms[n-1].issue], &issues[forms[n].issue]
				r.Duplicates++
				h.fail(r, RuleDuplicate, b.Name, 1, max(one.end, two.end), "an ID was issued twice", one.call, two.call)
			}
		}
	}
}
