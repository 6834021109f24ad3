package segment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

const (
	// claimFor is for how long a refill is left to the node that was asked for it.
	claimFor = time.Second
	// claimPatience is how long waiting callers leave it to another node.
	claimPatience = 250 * time.Millisecond
	// redisPatience is how long Redis may fail before the node does without it.
	redisPatience = 250 * time.Millisecond
	// oldFailure is after how long a failed call to Redis says nothing about the next one. While
	// Redis is away there is one a second, or one that hangs.
	oldFailure = 5 * time.Second
	// slowStore is how long a refill may take before the reserve may be used.
	slowStore = 100 * time.Millisecond
	// soonPause is the pause before looking again where another node is at it.
	soonPause = 10 * time.Millisecond
	// failures in a row, although looking works, count as Redis being away.
	manyFailures = 3
)

// next is what mending does after a step.
type next int

const (
	mended next = iota // there are numbers: callers take again
	ended              // something else has taken over
	again              // look again at once
	soon               // look again after soonPause
	later              // look again after a pause that grows
)

// mender is one mending.
type mender struct {
	*Shared
	// look is what the take that led here saw, nil to look anew.
	look *rediscursor.Taken
	// claimed is since when another node has been at it, zero while none is.
	claimed time.Time
	// asked is the beginning of a cursor of another epoch that the store was asked about.
	asked string
	// slow is set when Redis answers, but takes longer than peekTimeout.
	slow bool
	// idle is how long the last wait for a range of this node's own was, at most.
	idle time.Duration
}

// startMending lets callers wait until the cursor has numbers. look is what the last take saw, nil
// after an error. No take is under way. While the node is on its own, comeBack starts the mending
// instead: two menders would each leave the cursor and return to it, and the second return would
// forget what the first buffer had issued. mu is held.
func (s *Shared) startMending(look *rediscursor.Taken) {
	if s.mending != nil || s.local.Load() != nil {
		return
	}
	s.mending, s.mendBegan, s.failure = make(chan struct{}), time.Now(), nil
	m := &mender{Shared: s, look: look}
	s.start(m.run)
}

// run looks at the cursor and does what it lacks, again and again until it has numbers above all
// that this node has issued, or the node has left it. What it does follows from what it sees, so it
// does not matter how things came to be so, nor who else is at it.
func (m *mender) run() {
	pause := firstPause
	m.mu.Lock()
	failed := m.failures > 0
	m.mu.Unlock()
	if failed && !m.pause(pause) {
		return
	}
	for {
		wait := time.Duration(0)
		switch m.step() {
		case mended:
			m.settle()
			return
		case ended:
			return
		case soon:
			wait = soonPause
		case later:
			wait, pause = pause, min(2*pause, lastPause)
		}
		if !m.pause(wait) {
			return
		}
	}
}

// settle ends a mending.
func (m *mender) settle() {
	m.mu.Lock()
	close(m.mending)
	m.mending, m.failure, m.outage.ahead = nil, nil, false
	m.refusal = nil
	back := m.outage.reason != nil
	if back {
		m.outage.reason, m.outage.returned = nil, time.Now()
	}
	m.mu.Unlock()
	if back {
		m.redisBack()
	}
}

// step looks and does one thing.
func (m *mender) step() next {
	look := m.look
	m.look = nil
	if look == nil {
		m.mu.Lock()
		refilling := m.refilling
		m.mu.Unlock()
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if !m.slow {
			ctx, cancel = context.WithTimeout(ctx, peekTimeout)
		}
		began := time.Now()
		// else the refill's own look would find it claimed
		seen, err := m.peek(ctx, refilling == nil)
		cancel()
		if err != nil {
			return m.redisFailed(began, err)
		}
		look = &seen
	}
	m.mu.Lock()
	if time.Since(m.failed) > oldFailure {
		m.failures = 0
	}
	if m.failures >= manyFailures && m.failure != nil && time.Since(m.failing) > redisPatience {
		failure := m.failure.Err
		m.mu.Unlock()
		return m.leave(failure) // it can be looked at, but takes fail
	}
	issued, floor, refilling, ahead := m.highest, m.floor, m.refilling, m.outage.ahead
	ready, awaits := m.spareFits(look, issued), m.awaitsSeed()
	if m.failures == 0 {
		m.failing = time.Time{} // what failed before this look is over
	}
	if m.refusal != nil && m.refusal.Code == seqd.CodeRedisUnavailable {
		m.refusal = nil // from here on it is worth waiting
	}
	m.mu.Unlock()
	if look.Low != rediscursor.Claimed {
		m.claimed = time.Time{}
	} else if m.claimed.IsZero() {
		m.claimed = time.Now()
	}
	patient := !m.claimed.IsZero() && time.Since(m.claimed) < claimPatience
	switch {
	case look.Stub && !ready && (patient || awaits): // if it is ready, the claim is this node's own
		return soon
	case look.Stub:
		return m.bring(rediscursor.Seed, look)
	case look.Other:
		return m.dispute(look)
	case look.Next > 0 && look.Next <= floor && issued == floor && look.Hand > floor-look.Next+1:
		return m.skip(floor - look.Next + 1)
	case look.Next <= issued && (look.Next > 0 || ahead):
		return m.bring(rediscursor.Advance, look)
	case look.Hand > 0:
		if look.Low == rediscursor.WantsRefill {
			m.mu.Lock()
			m.startRefill(look)
			m.mu.Unlock()
		}
		return mended
	case patient && refilling == nil:
		return soon
	}
	return m.awaitRefill(look)
}

// skipShare is the part of what is to be skipped that a node skips at a time: several may be at it,
// and must not skip more together than there is.
const skipShare = 8

// skip takes some of the n numbers below what this node may issue out of the cursor, which holds
// higher ones as well. Where its ranges have a gap, a few of the higher ones may be lost too.
func (m *mender) skip(n int64) next {
	m.mu.Lock()
	take := m.Shared.look(max(1, n/skipShare), false)
	m.mu.Unlock()
	take.Claim = 0
	began := time.Now()
	taken, err := m.cursor.Take(context.Background(), take)
	if err != nil {
		m.mu.Lock()
		m.callFailed(began)
		m.failure = redisAway(err)
		m.mu.Unlock()
		return later
	}
	for _, r := range taken.Runs {
		m.drop(r, errBelow)
	}
	return again
}

// awaitRefill waits for this node's refill, which it starts when there is none, and looks now and
// then whether another node was faster: the store may answer others.
func (m *mender) awaitRefill(look *rediscursor.Taken) next {
	m.mu.Lock()
	m.startRefill(look)
	refilling, failures := m.refilling, m.failures
	m.mu.Unlock()
	m.wait(refilling) // nil when the strategy is closing
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refusal != nil || m.failures > failures {
		return later // the refill cannot succeed as things are
	}
	return again
}

// wait waits for something under way, not for long the first time, and reports whether it ended.
func (m *mender) wait(done <-chan struct{}) bool {
	m.idle = min(max(2*m.idle, soonPause), lastPause)
	select {
	case <-done:
		return true
	case <-m.stopping:
	case <-time.After(m.idle):
	}
	return false
}

// peekTimeout bounds a look while callers wait. All others last as long as the client lets them: a
// slow Redis is better than none.
const peekTimeout = 250 * time.Millisecond

// peek looks at the cursor without taking. claim is whether this node would bring a range that is
// wanted.
func (s *Shared) peek(ctx context.Context, claim bool) (rediscursor.Taken, error) {
	s.mu.Lock()
	t := s.look(0, false)
	s.mu.Unlock()
	if !claim {
		t.Claim = 0
	}
	look, err := s.cursor.Take(ctx, t)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeCeil(look.Ceil)
	if err == nil {
		s.seeNext(look)
	}
	return look, err
}

// bring begins the cursor with a range that was allocated for this beginning of it. Where there is
// none yet it is allocated in the background, and the cursor is looked at now and then meanwhile:
// another node may be faster.
func (m *mender) bring(mode rediscursor.Mode, look *rediscursor.Taken) next {
	in, ok := m.spareFor(look)
	if !ok {
		return m.awaitSpare(look)
	}
	in.Mode = mode
	answer, err := m.put(in)
	switch {
	case err != nil:
		return later // whether the range is in the cursor, the next look will tell
	case answer.Verdict != rediscursor.Installed:
		return again
	case mode == rediscursor.Advance:
		m.skipped(look.Hand, errBelow) // what the range replaced
	case look.Other:
		m.contest()
	}
	return mended
}

// spareFor takes the range that was allocated for a beginning of the cursor, where there is one. A
// range that is older than the beginning must not begin it: others may have issued higher numbers
// in between.
func (s *Shared) spareFor(look *rediscursor.Taken) (in rediscursor.Install, ok bool) {
	s.mu.Lock()
	o := &s.outage
	ok = s.spareFits(look, s.highest)
	in = rediscursor.Install{Gen: look.Gen, Epoch: o.spareEpoch, Replaced: o.spareReplaced, Range: o.spare}
	o.spare = persist.Range{}
	s.mu.Unlock()
	if !ok {
		s.drop(in.Range, errBelow)
	}
	return in, ok
}

// keepSpare keeps a range for a beginning of the cursor; of two the higher one stays.
func (s *Shared) keepSpare(r persist.Range, gen string, to persist.Target) {
	s.mu.Lock()
	o, why := &s.outage, errBelow
	switch {
	case s.over:
		why = errStopping
	case r.First > o.spare.First:
		r, o.spare, o.spareGen, o.spareEpoch = o.spare, r, gen, to.Epoch()
		o.spareReplaced, _ = to.Cursor()
	}
	s.mu.Unlock()
	s.drop(r, why)
}

// awaitSpare waits for the range that a beginning of the cursor needs, which it has allocated
// unless that is under way.
func (m *mender) awaitSpare(look *rediscursor.Taken) next {
	m.mu.Lock()
	if m.sparing == nil {
		done, gen, to := make(chan struct{}), look.Gen, m.target(look)
		if m.start(func() { m.fetchSpare(gen, to, done) }) {
			m.sparing = done
		}
	}
	done := m.sparing
	m.mu.Unlock()
	if m.wait(done) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.outage.spare.First == 0 {
			return later // the store did not give it
		}
	}
	return again
}

// fetchSpare allocates a range that lets all waiting callers go on.
func (s *Shared) fetchSpare(gen string, to persist.Target, done chan struct{}) {
	s.mu.Lock()
	wanted, seen, why := s.wanted, s.seen, filling
	if s.spoiled || s.contested() != nil {
		why = retrying
	}
	s.mu.Unlock()
	r, err := s.allocateAbove(to, wanted, seen, why)
	if err == nil {
		s.keepSpare(r, gen, to)
	}
	s.mu.Lock()
	if err != nil && s.mending != nil && !errors.Is(err, persist.ErrEpoch) {
		s.failure = seqd.AsError(refusal(err))
		if isFinal(err) {
			s.refuse(s.failure)
		}
	}
	s.sparing = nil
	s.mu.Unlock()
	close(done)
}

// allocateAbove fetches a range and notes that it exists. If the counter believes in another cursor
// than the range is for, it learns which.
func (s *Shared) allocateAbove(to persist.Target, want, floor int64, why reason) (persist.Range, error) {
	sent := time.Now()
	r, err := s.fetchFor(to, want, floor, why)
	if errors.Is(err, persist.ErrEpoch) {
		if unanswered := s.askWithin(fetchDeadline); unanswered != nil {
			return r, unanswered // not ErrEpoch: callers pause before they try again
		}
		return r, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.startWatch()
		return r, err
	}
	s.see(r.Last)
	if !to.Keeps() {
		s.drew(to.Epoch(), sent)
	}
	if why != standing {
		s.step = float32(r.Size())
	}
	return r, nil
}

// startWatch has the store looked at until it answers, unless that is under way. mu is held.
func (s *Shared) startWatch() {
	if !s.watching {
		s.watching = s.start(s.watchStore)
	}
}

// watchStore looks whether a store that was away answers again, while nothing else of this node
// would find out: else an idle node would call it away for ever.
func (s *Shared) watchStore() {
	for s.pause(lastPause) {
		local := s.local.Load()
		s.mu.Lock()
		busy := s.refilling != nil || s.mending != nil || s.outage.fetching || local != nil
		s.watching = s.storeAway() != nil
		over := !s.watching
		s.mu.Unlock()
		if over {
			return
		}
		if busy {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), fetchDeadline)
		if _, err := s.env.Store.Counters().Read(ctx, s.name); err == nil {
			s.storeUnknown()
		}
		cancel()
	}
}

// drop tells of a range that nobody will get; an empty one is nothing to tell of.
func (s *Shared) drop(r persist.Range, why error) {
	if r.First > 0 {
		s.skipped(r.Size(), why)
	}
}

// put installs a range, once (invariant U2), and tells what came of it. A Redis that can be looked
// at but takes no range counts as away all the same.
func (s *Shared) put(in rediscursor.Install) (rediscursor.Answer, error) {
	began, r, mode := time.Now(), in.Range, in.Mode
	in.Reserve = s.settings.ReserveSegments
	answer, err := s.cursor.Install(context.Background(), in)
	s.mu.Lock()
	if s.spoiled = err != nil; s.spoiled {
		s.callFailed(began)
		if s.mending != nil {
			s.failure = redisAway(err)
		}
		s.mu.Unlock()
		s.drop(r, err)
		return answer, err
	}
	s.seeCeil(answer.Ceil)
	if answer.Verdict == rediscursor.Installed {
		s.seeCeil(r.Last)
	}
	s.mu.Unlock()
	switch {
	case answer.Verdict != rediscursor.Installed:
		err := fmt.Errorf("the cursor refused a range: %s", answer.Verdict)
		s.env.Log.Debug("range refused", "bizType", s.name, "first", r.First, "last", r.Last, "verdict", answer.Verdict)
		s.report(seqd.Event{Kind: seqd.EventFenced, Numbers: r.Size(), Err: err})
		s.drop(r, err)
	case mode == rediscursor.Seed:
		s.env.Log.Info("the cursor was begun", "bizType", s.name, "first", r.First, "last", r.Last)
		s.report(seqd.Event{Kind: seqd.EventSeeded, Numbers: r.Size()})
	case mode == rediscursor.Advance:
		s.env.Log.Info("the cursor was moved up", "bizType", s.name, "first", r.First, "last", r.Last)
		s.report(seqd.Event{Kind: seqd.EventAdvanced, Numbers: r.Size()})
	}
	return answer, nil
}

// refuse makes every caller get reason at once. A reason is logged once. mu is held.
func (s *Shared) refuse(reason *seqd.Error) {
	if s.refusal == nil || s.refusal.Code != reason.Code || s.refusal.Detail != reason.Detail {
		s.env.Log.Error("no numbers", "bizType", s.name, "error", reason)
	}
	s.refusal = reason
	s.wake()
}

// redisFailed decides what a look that failed means.
func (m *mender) redisFailed(began time.Time, err error) next {
	m.mu.Lock()
	m.failure = redisAway(err)
	m.redisFailing(began, time.Now())
	impatient := time.Since(m.failing) > redisPatience
	if errors.Is(err, rediscursor.ErrForeign) || errors.Is(err, rediscursor.ErrNewer) {
		m.refuse(&seqd.Error{Code: seqd.CodeConflict, Detail: err.Error()})
		m.mu.Unlock()
		return later
	}
	m.mu.Unlock()
	if impatient {
		return m.leave(err)
	}
	return later
}

// storeSlow reports whether the store is away or slow enough that the reserve may be used. mu is
// held.
func (s *Shared) storeSlow(now time.Time) bool {
	return s.refilling != nil && now.Sub(s.refillAt) > slowStore || s.storeAway() != nil
}

// startRefill fills the queue of the cursor that a look saw in the background, unless that is under
// way. mu is held.
func (s *Shared) startRefill(look *rediscursor.Taken) {
	if s.refilling != nil {
		return
	}
	done, to, in, free := make(chan struct{}), persist.ToCursor(look.Epoch), rediscursor.Install{Mode: rediscursor.Append, Gen: look.Gen, Epoch: look.Epoch}, look.Free
	if s.start(func() { s.refill(in, to, free, done) }) {
		s.refilling, s.refillAt = done, time.Now()
	}
}

// refill brings ranges until the queue is full or another node sees to it. It goes on trying while
// the store is away.
func (s *Shared) refill(in rediscursor.Install, to persist.Target, free int, done chan struct{}) {
	defer func() {
		s.mu.Lock()
		s.refilling = nil
		s.mu.Unlock()
		close(done)
	}()
	failed := false
	for pause := firstPause; free > 0; {
		s.mu.Lock()
		wanted, seen, spoiled := s.wanted, s.seen, s.spoiled
		s.mu.Unlock()
		why := filling
		switch {
		case failed, spoiled:
			why = retrying
		case free == 1: // the others fill the queue for the first time, or after an outage
			why = consumed
		}
		r, err := s.allocateAbove(to, wanted, seen, why)
		switch {
		case err == nil:
			in.Range = r
			answer, err := s.put(in)
			if err != nil || answer.Verdict == rediscursor.Moved || answer.Verdict == rediscursor.Full {
				return
			}
			if failed = false; answer.Verdict == rediscursor.Installed {
				free = answer.Free
			}
			continue
		case errors.Is(err, persist.ErrEpoch):
			return // the next take finds the cursor that counts
		case isFinal(err):
			s.mu.Lock()
			if s.mending != nil {
				s.refuse(seqd.AsError(refusal(err)))
			}
			s.mu.Unlock()
			return
		}
		failed = true
		for {
			if !s.pause(pause) {
				return
			}
			pause = min(2*pause, lastPause)
			look, err := s.peek(context.Background(), true)
			if err != nil || look.Stub || look.Other || look.Gen != in.Gen {
				return
			}
			if look.Free == 0 {
				s.storeUnknown()
				return
			}
			if look.Low != rediscursor.Claimed {
				free = look.Free
				break
			}
		}
	}
}
