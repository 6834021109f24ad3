package segment

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const (
	// standbyLasts is for how long, at the rate of the last while, the standby range is meant to
	// last.
	standbyLasts = 10 * time.Second
	// leastStandby is the smallest standby range, or a step where that is less.
	leastStandby = 100
	// standbyPause is the shortest time between two standby ranges.
	standbyPause = time.Second
	// firstReturn is the pause before the first look at a Redis that was away.
	firstReturn = 100 * time.Millisecond
	// steady is how long a node must have taken from the cursor for the next outage to count as a
	// new one. One that comes sooner is flapping: each time it stays on its own for longer, from
	// firstHold to lastHold, so that it does not burn a segment per flap.
	steady    = time.Minute
	firstHold = time.Second
	lastHold  = time.Minute
)

// outage is what a node keeps for the case that Redis goes away, and where it stands while it is.
// Guarded by Shared.mu.
type outage struct {
	// what the node would issue first on its own; the zero range while there is none
	standby  persist.Range
	spare    persist.Range // allocated to begin the cursor with; the zero range while there is none
	spareGen string        // the beginning of the cursor that had been seen before
	fetching bool          // a standby range is being allocated
	fetched  time.Time     // when the last one came, or issuing began
	issued   int64         // numbers taken since then
	reason   *seqd.Error   // why the node is on its own, nil while it is not
	left     time.Time     // when it left the cursor last
	returned time.Time     // when it came back to it last
	rejected bool          // requests have been refused for want of Redis since numbers last came from it
	// numbers were issued on its own that the cursor has not been seen above of
	ahead bool
	hold  time.Duration // how long it stays on its own at least

	// the epoch that the spare range was allocated for, and the one that the store held before
	spareEpoch, spareReplaced string
}

func (o *outage) count(n int64) { o.issued += n }

// hand returns the ranges in hand, once, the lower one first.
func (o *outage) hand() (rest []persist.Range) {
	for _, r := range []*persist.Range{&o.standby, &o.spare} {
		if r.First > 0 {
			rest = append(rest, *r)
			*r = persist.Range{}
		}
	}
	slices.SortFunc(rest, func(a, b persist.Range) int { return cmp.Compare(a.First, b.First) })
	return rest
}

// startStandby replaces the standby range when there is none, or the cursor has passed it. mu is
// held.
func (s *Shared) startStandby(now time.Time) {
	o := &s.outage
	if s.settings.OnRedisDown != Degrade || o.fetching || o.standby.First > max(s.ceil, s.highest) || now.Sub(o.fetched) < standbyPause {
		return
	}
	o.fetching = s.start(s.fetchStandby)
}

// fetchStandby allocates a standby range, trying until it has one.
func (s *Shared) fetchStandby() {
	for {
		// What this node has seen may be old by now; a store that was restored meanwhile must not
		// go below what others have.
		if _, err := s.peek(context.Background(), false); err != nil && s.pause(lastPause) {
			continue
		}
		s.mu.Lock()
		o := &s.outage
		size := min(leastStandby, s.settings.Step)
		if lasted := time.Since(o.fetched); !o.fetched.IsZero() && lasted > 0 {
			size = max(size, int64(float64(o.issued)*float64(standbyLasts)/float64(lasted)))
		}
		seen := s.seen
		s.mu.Unlock()
		r, err := s.allocateAbove(persist.Beside, min(size, s.settings.MaxStep), seen, standing)
		if err != nil && !isFinal(err) && s.pause(lastPause) {
			continue
		}
		s.mu.Lock()
		old, why := o.standby, errBelow
		o.standby, o.fetching, o.fetched, o.issued = r, false, time.Now(), 0
		if s.over { // Close has given back what there was
			old, why, o.standby = r, errStopping, persist.Range{}
		}
		s.mu.Unlock()
		s.drop(old, why)
		return
	}
}

// redisBack tells that the node takes from the cursor again.
func (s *Shared) redisBack() {
	s.env.Log.Info("Redis serves the cursor again; the node takes from it", "bizType", s.name)
	s.report(seqd.Event{Kind: seqd.EventRedisBack})
}

// leave does without Redis: on numbers of the node's own, or by refusing. Mending is under way, so
// no take is.
func (m *mender) leave(cause error) next {
	reason := redisAway(cause)
	if m.settings.OnRedisDown == Reject {
		m.mu.Lock()
		known := m.outage.rejected
		m.outage.rejected, m.refusal = true, reason
		m.wake()
		m.failing, m.failures = time.Time{}, 0 // else it would never take again
		m.mu.Unlock()
		if !known {
			m.redisGone("Redis does not serve the cursor; requests are rejected", cause)
		}
		return later
	}
	reason.Detail += "; this node issues on its own, and order over the nodes is suspended"
	local := &buffer{}
	var dropped []persist.Range
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return ended
	}
	local.init(&m.ranges, m.settings.Threshold, m.settings.AcquireTimeout, m.seen)
	for _, r := range m.outage.hand() {
		// Not below what has been in the cursor either: should the store have been restored in
		// between, others may have issued that.
		if r.First > max(m.highest, m.ceil) {
			local.adopt(r)
		} else {
			dropped = append(dropped, r)
		}
	}
	o := &m.outage
	now := time.Now()
	if o.hold = min(max(2*o.hold, firstHold), lastHold); o.reason == nil && now.Sub(o.returned) > steady {
		o.hold = 0
	}
	o.reason, o.left = reason, now
	m.start(func() { m.comeBack(local) })
	m.local.Store(local)
	close(m.mending)
	m.mending, m.refusal = nil, nil
	m.mu.Unlock()
	// Unlocked: whoever is told may ask back.
	for _, r := range dropped {
		m.drop(r, errBelow)
	}
	m.redisGone("Redis does not serve the cursor; the node issues on its own", cause)
	return ended
}

// redisGone tells that the node does without Redis.
func (s *Shared) redisGone(text string, cause error) {
	s.env.Log.Error(text, "bizType", s.name, "error", cause)
	s.report(seqd.Event{Kind: seqd.EventRedisAway, Err: cause})
}

// comeBack waits until the cursor can be used again and goes back to it.
func (s *Shared) comeBack(local *buffer) {
	for pause := firstReturn; s.pause(pause); pause = min(2*pause, lastPause) {
		s.mu.Lock()
		early := time.Since(s.outage.left) < s.outage.hold
		s.mu.Unlock()
		if early {
			continue
		}
		if ok, slow := s.reachable(local); ok {
			s.goBack(local, slow)
			return
		}
	}
}

// reachable reports whether the cursor answers and, where it will have to be moved, the store has
// given the range for that: a node that cannot go back for want of it goes on with what it has.
// slow is whether looks have to be waited for.
func (s *Shared) reachable(local *buffer) (ok, slow bool) {
	began := time.Now()
	look, err := s.peekAsked()
	if err != nil {
		return false, false
	}
	slow = time.Since(began) > peekTimeout
	s.mu.Lock()
	issued, seen, why := max(s.highest, local.issued()), s.seen, filling
	if s.spoiled {
		why = retrying
	}
	live := !look.Stub && !look.Other
	ready, early, to := s.spareFits(&look, issued), !live && s.awaitsSeed(), s.target(&look)
	s.mu.Unlock()
	switch {
	case live && look.Next > issued || ready:
		return true, slow
	case early:
		return false, false
	}
	r, err := s.allocateAbove(to, 0, max(seen, local.top()), why)
	if err != nil {
		return false, false
	}
	s.keepSpare(r, look.Gen, to)
	return true, slow
}

// peekAsked looks at the cursor. If it is live under another epoch than this node believes in, the
// store is asked, and the cursor is looked at once more if that is the one that counts.
func (s *Shared) peekAsked() (rediscursor.Taken, error) {
	look, err := s.peek(context.Background(), false)
	if err != nil || !look.Other {
		return look, err
	}
	if err := s.inquire(&look); err != nil {
		return look, err
	}
	s.mu.Lock()
	counts := s.belief.epoch == look.Epoch
	s.mu.Unlock()
	if counts {
		return s.peek(context.Background(), false)
	}
	return look, nil
}

// goBack closes the local buffer and lets callers wait until the cursor is above every number that
// was taken out of it. What is left in it is dropped.
func (s *Shared) goBack(local *buffer, slow bool) {
	m := &mender{Shared: s, slow: slow}
	s.mu.Lock()
	s.mending, s.mendBegan, s.failure = make(chan struct{}), time.Now(), nil
	s.failing, s.failures = time.Time{}, 0
	s.local.Store(nil)
	s.mu.Unlock()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, r := range local.close(now, errLeft) {
		s.drop(r, errLeft)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	issued := local.issued()
	s.outage.ahead = s.outage.ahead || issued > 0
	s.highest = max(s.highest, issued)
	s.see(local.top())
	if s.storeAway() != nil {
		s.startWatch() // so the local buffer found, and it asks no more
	}
	s.start(m.run)
}
