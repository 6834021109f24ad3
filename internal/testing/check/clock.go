package check

import (
	"sort"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// zone is a time zone, which determines when days begin.
type zone struct{ location *time.Location }

func loadZone(name string) (zone, error) {
	location, err := time.LoadLocation(name) // "" is UTC
	return zone{location}, err
}

// day returns the period of a daily reset at a time.
func (z zone) day(ms int64) string { return time.UnixMilli(ms).In(z.location).Format("20060102") }

// offsetRange returns the smallest and the largest offset within a span, from a list sorted by
// time.
func offsetRange(all []record.Offset, from, to int64) (low, high int64) {
	next := sort.Search(len(all), func(i int) bool { return all[i].At > from })
	if next > 0 {
		low = all[next-1].Nanoseconds // the offset at the beginning of the span
		high = low
	}
	for ; next < len(all) && all[next].At <= to; next++ {
		low, high = min(low, all[next].Nanoseconds), max(high, all[next].Nanoseconds)
	}
	return low, high
}

// nodeClock returns the lowest and the highest time that a node's clock may have shown from start
// to end, in ms since the Unix epoch. It includes offsets that changed just before or after, and
// the tolerance.
func (h *evidence) nodeClock(node string, start, end int64) (least, most int64) {
	pad := int64(h.options.OffsetDelay)
	low, high := offsetRange(h.offsets[node], start-pad, end+pad)
	wallLow, wallHigh := offsetRange(h.offsets[""], start-pad, end+pad)
	tolerance := int64(h.options.ClockTolerance)
	least = h.world.Began + start + low + wallLow - tolerance
	most = h.world.Began + end + high + wallHigh + tolerance
	return floorMilli(least), floorMilli(most)
}

// earliestEnd returns when a reservation expires at the earliest (docs/GAPLESS.md "If the store's
// clock is set"). If the store has the clock of the node, its end was told by what that showed. A
// node that began later goes by what it shows then.
func (h *evidence) earliestEnd(v *reservation) int64 {
	if v.expires == 0 || !h.world.OwnStore {
		return v.expires
	}
	clock, until := h.offsets[storeClock], v.end
	for i := range h.lives {
		if h.lives[i].Begin > v.start {
			until = forever
		}
	}
	_, high := offsetRange(clock, v.start-storeDoubt, until)
	return v.expires - high
}

func floorMilli(ns int64) int64 { return time.Unix(0, ns).UnixMilli() }
