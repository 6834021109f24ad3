package model

import (
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/cursor"
)

func (w *world) backsUp() bool {
	if w.store.lost {
		return false
	}
	w.store.backup = w.store.counter
	return true
}

// restoresStopped is the documented way to restore a backup: every process is stopped, the copy is
// put back and raised above everything that was issued or handed out, and by seqd raise itself above
// the ceil of the cursor, which stays as it is.
func (w *world) restoresStopped() bool {
	primary := w.onlyPrimary()
	if primary == nil || w.store.counter == w.store.backup || w.fragile() {
		return false
	}
	w.stopAll("stopped for a restore")
	w.inFlight = nil
	w.restore()
	w.raise(max(w.check.taken, w.check.handed, primary.ceil()))
	w.say("store: restored and raised to %d, where the cursor of %s ends or what was issued", w.store.counter.Max, primary.name)
	w.count("restored while stopped")
	return true
}

// restoresRaised does more than the documentation asks for, but while nodes run: the copy is put
// back and raised above everything that ever left the store. Redis may have been lost too.
func (w *world) restoresRaised() bool {
	if w.store.counter == w.store.backup || w.fragile() {
		return false
	}
	if w.store.backup.Epoch == persist.StoreEpoch && w.store.counter.Epoch != persist.StoreEpoch {
		w.check.regimes(true) // processes may believe in the cursor for a while
	}
	w.restore()
	w.raise(w.store.highest)
	w.say("store: restored and raised to %d", w.store.counter.Max)
	w.count("restored and raised")
	if primary := w.onlyPrimary(); primary != nil && w.dice.OneIn(2) {
		primary.remove(key)
		w.say("%s: empty", primary.name)
	}
	return true
}

// restore puts an older copy back. Every connection to the store ends.
func (w *world) restore() {
	w.store.counter, w.store.lost = w.store.backup, false
	w.store.copied()
	for i := len(w.inFlight) - 1; i >= 0; i-- {
		if w.inFlight[i].op.question.atStore() {
			w.remove(i)
		}
	}
}

// restoresBare restores an older copy without the documented step. No protocol can handle every
// such case (docs/PROMISES.md): a node that has not seen higher numbers and cannot reach Redis
// cannot know. What ceil, floor and restoreGap do promise is: if all that was issued since the copy
// was made is below the ceil of an intact cursor, if no node holds younger ranges of its own, if
// Redis stays until every process has seen a ceil above all that ever left the store, and if no
// process has to do without it or hands out a range before, then no number is issued twice. And no
// cursor may count again with the epoch that comes back, see wakes; nor may the store, which knows
// of no ceil. This is that case.
func (w *world) restoresBare() bool {
	primary, backup := w.onlyPrimary(), w.store.backup.Max
	if w.store.lost || w.by == byStore || w.store.backup.Epoch == persist.StoreEpoch || w.wakes(w.store.backup.Epoch) {
		return false
	}
	if primary == nil || w.check.suspended || w.fragile() || backup == w.store.counter.Max || primary.ceil() < w.check.taken {
		return false
	}
	if w.check.handed > max(primary.ceil(), backup) {
		return false
	}
	for _, n := range w.nodes {
		if n.next != w.even() {
			return false
		}
		if !n.up {
			continue
		}
		if n.m == nil || n.m.Mode() != cursor.Online || n.cut || n.target != primary || max(n.spare.Last, n.standby.Last) > backup {
			return false
		}
	}
	for _, m := range w.inFlight {
		if m.err != nil {
			return false // somebody is about to find something away
		}
	}
	w.restore()
	w.restoredTo = w.store.highest
	w.say("store: restored to %d, not raised to %d", backup, w.store.highest)
	w.count("restored bare")
	return true
}

// restoresTaken is restoresBare where no cursor must say what was issued. Every process has taken or
// handed out a number that the copy does not know of, and knows nearly all that left the store. So
// whichever allocates first moves the counter above them, unless it ends before. The copy has the
// present epoch.
func (w *world) restoresTaken() bool {
	backup := w.store.backup
	if w.fragile() || w.store.lost || backup.Max == w.store.counter.Max || backup.Epoch != w.store.counter.Epoch {
		return false
	}
	handed := false
	for _, n := range w.nodes {
		most := n.handed.truly
		if n.m == nil { // otherwise it need not have taken what it has seen
			most = n.knows()
		}
		if n.next != n.regime || !n.up || n.stopping || most <= backup.Max || most+restoreGap < w.store.highest {
			return false
		}
		handed = handed || n.seen() <= backup.Max
	}
	w.restore()
	w.restoredTo, w.restoredTaken = w.store.highest, true
	w.say("store: restored to %d, not raised to %d", backup.Max, w.store.highest)
	w.count("restored while taking")
	if handed {
		w.count("restored below what was handed out")
	}
	return true
}

// stopAll ends every process. Connections to the store end too if it is being restored; what was
// sent to Redis may still arrive.
func (w *world) stopAll(why string) {
	for _, n := range w.nodes {
		if n.up {
			n.die(why)
		}
	}
}

// restoresIssued is the documented way without a look at Redis: every process is stopped, and the
// copy is put back and raised above what callers got, and no further. So what still waits in the
// old cursor is above the store's maximum.
func (w *world) restoresIssued() bool {
	if w.store.counter == w.store.backup || w.fragile() {
		return false
	}
	w.stopAll("stopped for a restore")
	w.restore()
	w.raise(max(w.check.ended, w.check.handed))
	w.say("store: restored and raised to %d, what callers got", w.store.counter.Max)
	w.count("restored, raised above what was issued")
	if w.dice.OneIn(2) {
		w.startAll()
	}
	return true
}

// recreates is a restored copy without the counter: an administrator creates it again, above what
// callers got, and every node opens it anew. One of them cannot reach Redis.
func (w *world) recreates() bool {
	if w.fragile() {
		return false
	}
	w.stopAll("does not find the counter")
	w.restore()
	w.store.counter.Max = max(w.check.ended, w.check.handed)
	w.store.copied()
	w.raise(0)
	w.say("store: the counter is created again, at %d", w.store.counter.Max)
	w.count("created again")
	w.startAll()
	return true
}

// startAll starts every node, one of them cut off from Redis.
func (w *world) startAll() {
	for _, n := range w.nodes {
		n.start(w.newSettings())
		n.say("starts")
	}
	w.someNode().cut = true
}
