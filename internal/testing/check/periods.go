package check

import (
	"fmt"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// storeClock stands for the clock of the store, which gapless biz types go by. No fault turns it,
// unless it is the clock of a node.
const storeClock = "the store"

// storeDoubt bounds how wrong a node may be about the store's clock, in ns: an answer that took long
// tells the time at either end of the call.
const storeDoubt = int64(10 * time.Second)

// checkPeriods requires that the node's clock showed the day of a number during the call, in the
// biz type's time zone (DESIGN §3 "Periods": it is "fixed when the take is sent", and "date and
// number always belong together"; docs/PLUGINS.md "a wrong clock only decides which day's number a
// caller gets").
func (h *evidence) checkPeriods(r *Report, issues []issue) {
	for n := range issues {
		i := &issues[n]
		if i.bizType.Reset != record.Daily || i.period == "" {
			continue
		}
		nodes, start, end := []string{i.node}, i.start, i.end
		switch {
		case i.bizType.Strategy == record.Gapless:
			nodes, start, end = []string{storeClock}, start-storeDoubt, end+storeDoubt
		case !i.alone:
			nodes = h.world.Nodes
		}
		fits := false
		var first, last string
		for _, node := range nodes {
			least, most := h.nodeClock(node, start, end)
			first, last = i.bizType.zone.day(least), i.bizType.zone.day(most)
			fits = fits || first <= i.period && i.period <= last
		}
		if !fits {
			h.fail(r, RulePeriod, i.bizType.Name, 1, i.end, fmt.Sprintf("a number of %s, while the node's clock went from %s to %s", i.period, first, last), i.call)
		}
	}
}
