package model

import "github.com/seqd/seqd/persist"

// failover is what is known of the servers of the store, of which one takes the writes and another
// one, the standby, receives them later.
type failover struct {
	out without
	// lossless is what the operator states: the standby has every write that was acknowledged. Then
	// fences are not compared.
	lossless bool
	// current is the fence of the present server, and fence that of the server that wrote the
	// counter.
	current, fence int
	// unsent are the writes that the standby lacks, and standby is what it has.
	standby written
	unsent  []written
	drawn   int // fences so far
	// lost is whether the present server has no record of the counter, and confirmed is the fence
	// that an operator has confirmed.
	lost      bool
	confirmed int
}

// written is a record of the counter.
type written struct {
	counter persist.Counter
	fence   int
	missing bool // there is no record
}

// mostUnsent is how many writes the standby lacks at most.
const mostUnsent = 12

// begin begins with a counter that was created just now if created is set: the standby lacks it.
func (s *store) begin(out without, lossless, created bool) {
	s.out, s.lossless = out, lossless
	if s.copied(); created && (!lossless || out[standbyInSync]) {
		s.standby = written{counter: empty, missing: true}
		s.unsent = []written{{counter: s.counter}}
	}
}

// empty is a counter that is new.
var empty = persist.Counter{BizTag: counter, Max: start, Step: 1}

// read returns the counter as the present server sees it.
func (s *store) read() persist.Counter {
	counter := s.counter
	if s.fence != s.current && !s.lossless && !s.out[fenceCompared] {
		counter.FailedOver = true
		if !s.out[failoverEpoch] {
			counter.Epoch = ""
		}
	}
	return counter
}

// write replaces the record. The standby receives it later.
func (s *store) write(counter persist.Counter) {
	counter.FailedOver = false
	s.counter, s.fence, s.lost = counter, s.current, false
	s.unsent = append(s.unsent, written{counter: s.counter, fence: s.fence})
	if len(s.unsent) > mostUnsent || s.lossless && !s.out[standbyInSync] {
		s.replicate(1)
	}
}

// replicate sends the oldest n writes to the standby.
func (s *store) replicate(n int) {
	s.standby = s.unsent[n-1]
	s.unsent = append(s.unsent[:0], s.unsent[n:]...)
}

// copied gives the standby what the present server has: it was made anew.
func (s *store) copied() {
	s.standby, s.unsent = written{counter: s.counter, fence: s.fence, missing: s.lost}, nil
}

func (w *world) storeReplicates() bool {
	n := len(w.store.unsent)
	if n == 0 {
		return false
	}
	w.store.replicate(1 + w.dice.Below(n))
	return true
}

// storeFailsOver promotes the standby. The writes that it lacks are lost, also those that were
// acknowledged. What is on its way to the store or back is lost or arrives: a range whose request
// got no answer may be in the standby or not.
//
// No gap covers every loss. The design promises uniqueness if the numbers that were lost fit into
// the gap. This is that case.
func (w *world) storeFailsOver() bool {
	s := &w.store
	if w.fragile() || !s.standby.missing && s.highest > s.standby.counter.Max+restoreGap {
		return false
	}
	lost := len(s.unsent)
	s.counter, s.fence, s.lost = s.standby.counter, s.standby.fence, s.standby.missing
	s.copied()
	s.drawn++
	s.current = s.drawn
	if w.out[fenceNew] {
		s.current %= 2
	}
	for i := len(w.inFlight) - 1; i >= 0; i-- {
		if w.inFlight[i].op.question.atStore() && w.dice.OneIn(2) {
			w.remove(i)
		}
	}
	w.say("store: fails over; %d writes are lost; its maximum is %d, and up to %d were handed out", lost, s.counter.Max, s.highest)
	w.count("store failed over")
	switch {
	case s.lost:
		w.count("counter lost by a failover")
	case lost > 0:
		w.count("lost by a failover")
	default:
		w.count("failed over without a loss")
	}
	return true
}

// raisesAgain is an operator who raises the counter after a failover, above all that was handed
// out.
func (w *world) raisesAgain() bool {
	if w.store.lost || !w.store.read().FailedOver {
		return false
	}
	w.raise(w.store.highest)
	w.say("store: raised to %d after the failover", w.store.counter.Max)
	w.count("raised after a failover")
	return true
}

// creates is a node that opens a biz type that it takes for new, because the store has no counter.
func (w *world) creates() bool {
	s := &w.store
	if !s.lost {
		return false
	}
	if s.confirmed != s.current && !w.out[createFenced] {
		w.count("not created after a failover")
		return true
	}
	s.write(empty)
	w.say("store: a counter is created")
	w.count("created")
	return true
}

// recovers is an operator who finds that the counter was lost: every process is stopped, the
// counter is created above everything that was handed out, and the failover is confirmed.
func (w *world) recovers() bool {
	s := &w.store
	if !s.lost {
		return false
	}
	w.stopAll("stopped, because the counter was lost")
	found := empty
	found.Max = s.highest
	s.write(found)
	s.confirmed = s.current
	w.say("store: the counter is created again at %d, and the failover confirmed", found.Max)
	w.count("lost counter created again")
	return true
}

// confirms is an operator who finds that no counter was lost.
func (w *world) confirms() bool {
	s := &w.store
	if s.lost || s.confirmed == s.current {
		return false
	}
	s.confirmed = s.current
	return true
}
