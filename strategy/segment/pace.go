package segment

import "time"

// pace is how fast numbers leave the store for all nodes, as far as the allocations of this node
// tell. Only those count that consumption triggered: each says that what had been allocated before
// is being used up, so the numbers between two of them are what was used between them. The first
// fill of buffers, the standby range and whatever else is fetched ahead of need says nothing. There
// may be very many of them: it holds 24 bytes.
type pace struct {
	// when the last allocation that counts was, since paceEpoch; 0 before the first
	at      time.Duration
	before  int64   // what the maximum of the store was ahead of it
	numbers float32 // how many numbers left the store between that and the one before it
	over    float32 // in how many seconds; 0 while there was one only
}

// paceEpoch is where the time of all paces begins. It is read by the monotonic clock: setting the
// time of day changes nothing.
var paceEpoch = time.Now()

func paceNow() time.Duration { return time.Since(paceEpoch) }

// paceWindow is the least time between two allocations that count. What comes in between is a
// burst, such as one large batch, and counts with the next one.
const paceWindow = 10 * time.Second

// allocated notes an allocation ahead of which the maximum was before. jump is how many numbers
// below that nobody used: the counter was raised, or restored.
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

// rate is numbers a second: those between the last two allocations, over the time between them or
// since then, where that is more, so that a biz type that is no longer used comes to 0. top is the
// highest number that is known to have left the store and newest the size of the last range, which
// is hardly used yet: what lies between them was fetched by others, or in a burst, since the last
// allocation. It is 0 before there were two allocations.
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
