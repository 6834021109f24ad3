package terms

import (
	"cmp"
	"maps"
	"slices"
)

// plan is K6: it returns the works that each session should do, in alphabetical order. The numbers
// of works of two sessions differ by one at most, and as few works as possible move to another
// session. now names the session that has each work, or should have it. A work of "", or of a
// session that is not in sessions, is free. The same arguments give the same plan.
func plan(now map[string]string, sessions []string) (next map[string][]string) {
	if len(sessions) == 0 {
		return nil
	}
	has := make(map[string][]string, len(sessions))
	for _, s := range sessions {
		has[s] = nil
	}
	var free []string
	for _, work := range slices.Sorted(maps.Keys(now)) {
		if list, there := has[now[work]]; there {
			has[now[work]] = append(list, work)
		} else {
			free = append(free, work)
		}
	}
	// Sessions that have the most works now may keep one more than the others, so that fewer works
	// move.
	order := slices.SortedFunc(maps.Keys(has), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(has[b]), len(has[a])), cmp.Compare(a, b))
	})
	least, more := len(now)/len(order), len(now)%len(order)
	may := func(i int) int {
		if i < more {
			return least + 1
		}
		return least
	}
	for i, s := range order {
		keeps := min(len(has[s]), may(i))
		free = append(free, has[s][keeps:]...)
		has[s] = has[s][:keeps]
	}
	for i, s := range order {
		takes := may(i) - len(has[s])
		has[s] = slices.Concat(has[s], free[:takes])
		slices.Sort(has[s])
		free = free[takes:]
	}
	return has
}
