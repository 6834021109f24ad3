package storeclock

import "time"

// forward knows how far the store's clock was set forward, compared with the monotonic clock of
// this node. It keeps the readings by which the store's clock is the furthest behind, of this day
// and of the one before: a reservation lasts a day at most.
type forward struct {
	lowest, older reading
	since         time.Duration // when this day began
}

// note notes a reading, which is later than the others.
func (f *forward) note(r reading) {
	switch at := r.answer; {
	case f.lowest == reading{}:
		*f = forward{r, r, at}
	case at-f.since >= 24*time.Hour:
		*f = forward{r, f.lowest, at}
	case r.bound(at) < f.lowest.bound(at):
		f.lowest = r
	}
}

// by returns by how many ms the store's time is ahead of all that the readings allow.
func (f *forward) by(store int64, elapsed time.Duration) int64 {
	return max(0, store-min(f.lowest.bound(elapsed), f.older.bound(elapsed)))
}

// bound returns the latest time that the store's clock shows if nobody has set it since.
func (r reading) bound(elapsed time.Duration) int64 { return r.after(elapsed) + r.doubt() }

// forget makes the clock forget that it was set forward.
func (c *Clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set = forward{c.last, c.last, c.last.answer}
}
