package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seqd/seqd/internal/testing/record"
)

// checkWorkers requires that no time of a worker ID is used under two leases (DESIGN §4, W1).
func (h *evidence) checkWorkers(r *Report) {
	r.WorkerUses = len(h.uses)
	slices.SortStableFunc(h.uses, func(a, b record.Use) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.First, b.First))
	})
	var furthest record.Use // the use with the latest end so far, of this worker ID
	for n, u := range h.uses {
		switch other := furthest.Program != u.Program || furthest.Lease != u.Lease; {
		case n == 0 || furthest.Pool != u.Pool || furthest.Worker != u.Worker:
			furthest = u
		case other && u.First <= furthest.Last:
			h.fail(r, RuleWorker, "", 1, max(u.At, furthest.At), fmt.Sprintf("%s used %s to %s of worker ID %d of %s in its lease %d at %s, and %s used %s to %s in its lease %d at %s",
				u.Program, at(u.First), at(u.Last), u.Worker, u.Pool, u.Lease, seconds(u.At),
				furthest.Program, at(furthest.First), at(furthest.Last), furthest.Lease, seconds(furthest.At)))
		}
		if u.Last > furthest.Last {
			furthest = u
		}
	}
}
