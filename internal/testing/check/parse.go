package check

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/seqd/seqd/internal/testing/record"
)

// told is the number of an ID in an answer of a node.
type told struct {
	id, period string
	number     int64
	call       *call
}

// checkParse requires that parse returns what was issued (docs/API.md "Issue numbers", DESIGN §7):
// the number of the ID, its period, and for snowflake the parts of the layout. An ID that was
// issued must be valid and not rejected. If the ID hides its number, the same ID must always have
// the same number, and different IDs of a period must have different numbers (U6). The
// laboratory parses only IDs that were issued.
func (h *evidence) checkParse(r *Report, issues []issue) {
	byBizType := make(map[*bizType][]told)
	for n := range h.parses {
		p := &h.parses[n]
		if p.status == 0 {
			continue
		}
		if _, spaced := h.increments(p.bizType); p.code == "invalid_id" && p.end >= spaced {
			continue // it is not a number of the increment that was forced
		}
		if p.code == "invalid_id" {
			h.fail(r, RuleParse, p.bizType.Name, 1, p.end, fmt.Sprintf("%q is no ID, says %s", p.id, p.node), &p.call)
			continue
		}
		if !p.answered() {
			continue
		}
		if wrong := p.wrong(); wrong != "" {
			h.fail(r, RuleParse, p.bizType.Name, 1, p.end, wrong, &p.call)
			continue
		}
		byBizType[p.bizType] = append(byBizType[p.bizType], told{p.id, p.answer.Period, p.runs[0].First, &p.call})
	}
	for b, all := range byBizType {
		if b.opaque() {
			h.checkInjective(r, b, all)
		}
	}
}

// wrong returns what is wrong with an answer by itself.
func (p *parsed) wrong() string {
	b := p.bizType
	switch {
	case p.answer == nil || len(p.runs) != 1 || p.runs[0].Count != 1:
		return fmt.Sprintf("%q has no number", p.id)
	case !p.answer.Valid:
		return fmt.Sprintf("%q was issued and is said not to be valid", p.id)
	}
	number := p.runs[0].First
	want, period, err := number, p.answer.Period, error(nil)
	switch {
	case b.display == nil:
		want, err = strconv.ParseInt(p.id, 10, 64)
	case !b.opaque():
		m := b.display.FindStringSubmatchIndex(p.id)
		if m == nil {
			return fmt.Sprintf("%q does not look like an ID of %s", p.id, b.Name)
		}
		period, want, err = b.take(p.id, m)
	}
	if err != nil || number != want || digits(p.answer.Period) != digits(period) {
		return fmt.Sprintf("%q is said to be %d of %q", p.id, number, p.answer.Period)
	}
	if b.Strategy != record.Snowflake {
		return ""
	}
	if a := p.answer; a.Time != b.layoutTime(number) || a.Machine != b.layoutMachine(number) || a.Sequence != b.layoutSequence(number) {
		return fmt.Sprintf("%q is said to be of %s, machine %d, sequence %d", p.id, at(a.Time), a.Machine, a.Sequence)
	}
	return ""
}

// checkInjective compares the numbers of different IDs.
func (h *evidence) checkInjective(r *Report, b *bizType, all []told) {
	compare := func(key func(told) string, differ func(a, b told) bool, text string) {
		slices.SortStableFunc(all, func(a, b told) int { return cmp.Compare(key(a), key(b)) })
		for n := 1; n < len(all); n++ {
			if one, two := all[n-1], all[n]; key(one) == key(two) && differ(one, two) {
				h.fail(r, RuleParse, b.Name, 1, two.call.end, fmt.Sprintf("%q is said to be %d and %q %d: %s", one.id, one.number, two.id, two.number, text), one.call, two.call)
			}
		}
	}
	number := func(t told) string { return t.period + "@" + strconv.FormatInt(t.number, 10) }
	compare(func(t told) string { return t.id }, func(a, b told) bool { return number(a) != number(b) }, "one ID, two numbers")
	compare(number, func(a, b told) bool { return a.id != b.id }, "two IDs, one number")
}
