package workers

import (
	"maps"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
)

// Figures are what a node measures of a pool.
type Figures struct {
	// Held and Free are as the registry was when this node last saw all of it. Seen is false if it did
	// not for so long that they say little.
	Held, Free int64
	Seen       bool
	StandingBy int64 // now
	// Leased, Renewed and Lost are totals of this process: leases that were granted, renewals, and
	// renewals and releases that were refused because the lease had ended.
	Leased, Renewed, Lost int64
}

// seen is how a registry was.
type seen struct {
	held, free int64
	at         time.Time
	lasts      time.Duration // for so long it says something
}

// lookAgain is how often renewals read the whole registry, so that the figures are recent.
const lookAgain = 30 * time.Second

// saw notes how many worker IDs of a pool are held. more of them were granted since t was read.
func (q *queue) saw(p admin.WorkerPool, t persist.SlotTable, more int64) {
	for _, s := range t.Slots {
		if isHeld(s, t.Now) {
			more++
		}
	}
	q.seen.Store(&seen{more, 1<<p.BitsMachine - more, time.Now(), max(time.Minute, p.TTL)})
}

// released notes that one worker ID less is held.
func (q *queue) released() {
	if s := q.seen.Load(); s != nil {
		q.seen.Store(&seen{max(0, s.held-1), s.free + min(1, s.held), s.at, s.lasts})
	}
}

// counted counts what became of a renewal.
func (w *Workers) counted(pool string, err error) {
	switch {
	case err == nil:
		w.queue(pool).renewed.Add(1)
	case seqd.CodeOf(err) == seqd.CodeLeaseLost:
		w.queue(pool).lost.Add(1)
	}
}

// Measure tells the figures of each pool that this node was asked about, in the order of their names.
// It waits for nothing.
func (w *Workers) Measure(tell func(pool string, f Figures)) {
	w.mu.Lock()
	all := make(map[string]Figures, len(w.queues))
	for name, q := range w.queues {
		f := Figures{StandingBy: q.waiting.Load(), Leased: q.leased.Load(), Renewed: q.renewed.Load(), Lost: q.lost.Load()}
		if s := q.seen.Load(); s != nil && time.Since(s.at) < s.lasts {
			f.Held, f.Free, f.Seen = s.held, s.free, true
		}
		all[name] = f
	}
	w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tell(name, all[name])
	}
}
