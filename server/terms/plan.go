package terms

import (
	"cmp"
	"maps"
	"slices"
)

// plan is K6: it returns the works that each session should do, in their order. Loads differ by one at
// most, and as few works as possible are with another session than now. now names the session that has
// each work, or should have it, "" for none. The same arguments give the same plan.
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
	// Those that have the most now may keep one more than the others: so fewer works move.
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
