package segment

import "time"

// pace estimates how fast all nodes together use numbers, from the allocations of this node. Only
// allocations that consumption triggered count: each shows that the previous range is being used
// up, so the numbers between two of them were used between them. The first fill of a buffer, the
// standby range and other ranges that are fetched in advance do not count. It is 24 bytes, because
// there may be very many.
type pace struct {
	// when the last allocation that counts was, since paceEpoch; 0 before the first
	at      time.Duration
	before  int64   // the maximum of the store before it
	numbers float32 // how many numbers left the store between the previous one and it
	over    float32 // in how many seconds; 0 before the second one
}

// paceEpoch is the zero of the time of all paces. It has a monotonic clock reading, so that setting
// the time of day changes nothing.
var paceEpoch = time.Now()

func paceNow() time.Duration { return time.Since(paceEpoch) }

// paceWindow is the least time between two allocations that count. Allocations in between are a
// burst, such as for one large batch, and count with the next one.
const paceWindow = 10 * time.Second

// allocated notes an allocation before which the maximum was before. jump is how many numbers below
// that nobody used, because the counter was raised or restored.
func (p *pace) allocated(now time.Duration, before, jump int64) {
	p.before += jump
	switch passed := now - p.at; {
	case p.at == 0:
		p.at, p.before = now, before
	case passed >= paceWindow:
		p.numbers, p.over = float32(max(0, before-p.before)), float32(passed.Seconds())
		p.at, p.before = now, before
	}
}

// rate returns numbers a second: those between the last two allocations, divided by the time
// between them, or since then if that is longer, so that the rate of an unused biz type approaches
// 0. top is the highest number that is known to have left the store. newest is the size of the last
// range, which is hardly used yet. What is between them was fetched by others, or in a burst, since
// the last allocation. The rate is 0 before the second allocation.
func (p *pace) rate(now time.Duration, top, newest int64) float64 {
	if p.over == 0 {
		return 0
	}
	numbers, over, since := float64(p.numbers), float64(p.over), (now - p.at).Seconds()
	if more := top - newest - p.before; more > 0 {
		return (numbers + float64(more)) / (over + since)
	}
	return numbers / max(over, since)
}
