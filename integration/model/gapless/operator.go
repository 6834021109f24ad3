package gapless

import (
	"context"
	"fmt"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

func (w *world) backsUp() bool {
	w.store.backup = w.store.docs.clone()
	return true
}

// restoresStopped is the documented way to restore a backup: every process is stopped, the copy is
// put back, and raised above what callers were told.
func (w *world) restoresStopped() bool {
	if len(w.store.backup) == 0 || w.fragile {
		return false
	}
	for _, n := range w.nodes {
		if n.up {
			n.die("is stopped for a restore")
		}
	}
	w.inFlight = nil
	w.restore()
	w.count("restored while stopped")
	w.fragile = true
	w.raiseNow()
	return true
}

// restoresBare puts an older copy back while all processes run, and every one of them has seen more
// than the copy has. Until an operator has raised it, nobody must get a number.
func (w *world) restoresBare() bool {
	if len(w.store.backup) == 0 || w.fragile {
		return false
	}
	copied := ledger.Since{}
	if d, there := w.store.backup[persist.LedgerKind][counter]; there {
		state, err := ledger.Decode(&d)
		if err != nil {
			w.check.fail("state: %v", err)
			return true
		}
		copied = ledger.Since{Era: state.Era, Revision: state.Revision}
	}
	for _, n := range w.nodes {
		if !n.up || n.stopping {
			return false
		}
		if seen := n.m.Seen(); seen.Era < copied.Era || seen.Era == copied.Era && seen.Revision <= copied.Revision {
			return false
		}
	}
	w.dropToStore()
	w.restore()
	w.count("restored bare")
	w.fragile = true
	return true
}

// dropToStore ends all connections to the store.
func (w *world) dropToStore() {
	for i := len(w.inFlight) - 1; i >= 0; i-- {
		if !w.inFlight[i].answered {
			w.remove(i)
		}
	}
}

// restore puts the copy back.
func (w *world) restore() {
	w.store.docs = w.store.backup.clone()
	w.store.copied()
	if w.store.kind == lossy && w.dice.OneIn(2) {
		w.newFence() // the copy was put into a new server
	}
	d, _ := w.store.ledgerDoc()
	w.say("the store is restored: revision %d; callers were told up to %d", d.Revision, w.check.heard)
	w.check.wentBack()
}

func (w *world) newFence() {
	w.fences++
	w.store.fence = w.fences
}

// failsOver promotes the standby. The writes that it lacks are lost, also those that were
// acknowledged. What is on its way to the store arrives there or not, before or after.
func (w *world) failsOver() bool {
	s := w.store
	if s.kind == lone || w.fragile {
		return false
	}
	lost := len(s.unsent)
	if s.kind == lossy {
		s.docs = s.standby.clone()
		s.unsent = nil
		w.newFence()
	}
	for i := len(w.inFlight) - 1; i >= 0; i-- {
		if !w.inFlight[i].answered && w.dice.OneIn(2) {
			w.remove(i)
		}
	}
	d, there := s.ledgerDoc()
	w.say("the store fails over; %d writes are lost; revision %d (%t)", lost, d.Revision, there)
	w.count("failed over")
	if lost > 0 {
		w.count("lost by a failover")
		w.check.wentBack()
	}
	if !there && w.check.highest > 0 {
		w.count("lost the document")
	}
	return true
}

// confirms is an operator who has found that the store went back, and says how far it had come.
func (w *world) confirms() bool {
	if !w.fragile && w.store.fence == w.store.confirmed {
		return false
	}
	return w.raiseNow()
}

// raiseNow raises the counter above everything that may have been told, and confirms the failover.
func (w *world) raiseNow() bool {
	s := w.store
	if !w.fragile && s.fence == s.confirmed {
		return false
	}
	if w.fragile && s.fence == s.confirmed {
		// Nothing but the revision tells the copy from what a process remembers, and it will come
		// to the same revision again.
		for _, n := range w.nodes {
			if n.up {
				n.die("is stopped for the raise")
			}
		}
		w.inFlight = nil
	}
	w.fragile = false
	s.confirmed = s.fence
	if w.out[raises] {
		return true
	}
	to := w.check.highest
	if w.allStopped() {
		to = w.check.heard
	}
	if w.out[raiseAbove] {
		to -= 3
	}
	policy := w.newPolicy()
	d, there := s.ledgerDoc()
	fence := ""
	if s.kind == lossy {
		fence = fenceName(s.fence)
	}
	w.drawn++
	state := ledger.Fresh(&policy, fmt.Sprintf("%016x", w.drawn), fence)
	if there {
		var err error
		if state, err = ledger.Decode(&d); err != nil {
			w.check.fail("state: %v", err)
			return true
		}
	} else if w.check.highest == 0 {
		return true
	}
	op := ledger.Op{Kind: ledger.Raise, To: to, Reason: "the store was restored", Caller: "root", Fence: fence}
	if _, err := state.Apply(w.now, &policy, &op, nil); err != nil {
		w.check.fail("raise: %v", err)
		return true
	}
	next, err := state.Document(counter, w.now)
	if err != nil {
		w.check.fail("raise: %v", err)
		return true
	}
	if err := persist.Put(context.Background(), s, next); err != nil {
		w.check.fail("raise: %v", err)
		return true
	}
	w.say("an operator raises to %d: revision %d %s", to, next.Revision, next.Body)
	w.count("raised")
	w.check.raised(&next)
	return true
}

// allStopped reports whether no process runs and nothing is on its way.
func (w *world) allStopped() bool {
	for _, n := range w.nodes {
		if n.up {
			return false
		}
	}
	return len(w.inFlight) == 0
}
