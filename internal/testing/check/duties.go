package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/seqd/seqd/internal/testing/record"
)

// checkDuties requires that no more sessions work on something at a time than may (DESIGN §2, K1 to K3
// and K7), and that each number is written once into the document of a work (K4). If the store lost
// writes or was put back meanwhile, a number may be written again.
func (h *evidence) checkDuties(r *Report) {
	works := make(map[string][]record.Duty)
	for _, d := range h.duties {
		works[d.Work] = append(works[d.Work], d)
	}
	for _, work := range slices.Sorted(maps.Keys(works)) {
		all := works[work]
		slices.SortStableFunc(all, func(a, b record.Duty) int { return cmp.Compare(a.From, b.From) })
		for i, d := range all {
			at := map[string]bool{d.Session: true} // who works when d begins
			for _, other := range all[:i] {
				if other.Until > d.From {
					at[other.Session] = true
				}
				if d.First > 0 && other.First > 0 && d.First <= other.Last && other.First <= d.Last && !h.wentBackIn(other.From, d.Until) {
					h.fail(r, RuleTerm, "", 1, d.Until, fmt.Sprintf("%s wrote %d to %d in term %d of %s until %s, and %s wrote %d to %d in term %d until %s",
						d.Session, d.First, d.Last, d.Term, work, seconds(d.Until), other.Session, other.First, other.Last, other.Term, seconds(other.Until)))
				}
			}
			if len(at) > d.Most {
				h.fail(r, RuleTerm, "", 1, d.From, fmt.Sprintf("%d sessions worked on %s at %s, of which %d may: %v", len(at), work, seconds(d.From), d.Most, slices.Sorted(maps.Keys(at))))
			}
		}
	}
}

// wentBackIn reports whether the store lost writes, or was put back, in some time.
func (h *evidence) wentBackIn(from, to int64) bool {
	return slices.ContainsFunc(h.faults, func(f record.Fault) bool {
		return (f.StoreLost || f.StoreBack) && f.Begin <= to && (f.End == 0 || f.End >= from)
	})
}
