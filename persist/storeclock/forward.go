package storeclock

import "time"

// forward knows how far the store's clock ran ahead of the monotonic clock of this node, because
// somebody set it or this machine was suspended. It keeps the reading that predicts the earliest
// time of the store, for the present 24 hours and for those before: a reservation lasts a day at
// most.
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

// forget begins the comparison anew with the last reading: the clock was not set forward since.
func (c *Clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set = forward{c.last, c.last, c.last.answer}
}
