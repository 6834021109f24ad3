package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// staysAway is how long in total a node may stay on its own while nothing is broken. A node that
// left the cursor repeatedly stays away for up to a minute (docs/CLUSTER.md), and what was broken
// just before may take half as long to recover.
const staysAway = 90 * time.Second

// checkBack requires that a node that is on its own returns to the cursor (docs/CLUSTER.md "until
// the node is back on the cursor"). Otherwise order over nodes would be suspended forever, which
// checkOverNodes excuses.
func (h *evidence) checkBack(r *Report) {
	broken, counters := h.broken(), make(map[string]*bizType)
	for _, l := range h.lines {
		if b := h.bizTypes[base(l.BizType)]; l.What == record.OnItsOwn && b.Ordering == record.Strict {
			counters[l.BizType] = b
		}
	}
	for counter, b := range counters {
		for _, o := range h.owns(b, counter) {
			to := min(o.to, h.end)
			if away := time.Duration(to - o.from - covered(broken, o.from, to)); away > staysAway {
				text := fmt.Sprintf("%s.%d was on its own with %s for %v in which nothing was broken, from %s", o.node, o.life, counter, away.Round(time.Second), seconds(o.from))
				h.fail(r, RuleBack, b.Name, 1, to, text)
			}
		}
	}
}

// broken returns when Redis or the store may have been away for nodes, or nodes were paused.
func (h *evidence) broken() (all []window) {
	for _, f := range h.faults {
		if f.Redis || f.Store || f.Paused {
			all = append(all, window{f.Begin, f.End})
		}
	}
	return merge(all)
}

// covered returns how much of a span is in windows, which are merged.
func covered(windows []window, from, to int64) (sum int64) {
	at, _ := slices.BinarySearchFunc(windows, from, func(w window, from int64) int {
		if w.to < from {
			return -1
		}
		return 1
	})
	for _, w := range windows[at:] {
		if w.from >= to {
			break
		}
		sum += min(w.to, to) - max(w.from, from)
	}
	return sum
}
