package cursor

import (
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// mend is the task of the mode Mending. It looks at the cursor and does one thing that the cursor
// lacks (see remedy), again and again, until the cursor has numbers above all that this node has
// issued, or the node leaves it. Each step depends only on the last look, not on how the cursor
// came to be in that state or on what other nodes do.
type mend struct {
	work
	// look is what was seen last, nil to look first.
	look *rediscursor.Taken
	// claimed is since when what is wanted has been claimed, usually by another node; zero if it is not.
	claimed instant
	// inquired is the gen of a cursor of another epoch that the store was asked about.
	inquired string
	inquiry  inquiry
	// in is the install under way.
	in rediscursor.Install
	// yielding is set while the task waits for another sequencer than the store.
	yielding bool
	// slow is set if Redis answers, but takes longer than PeekTimeout.
	slow bool
	// idle is the last wait for another task of this node.
	idle time.Duration
	// failures is how many calls to Redis had failed when the wait for the refill began.
	failures int32
}

// startMending lets callers wait until the cursor has numbers. look is what the last take saw, nil
// after an error. No take is under way.
//
// While the node is on its own, Comeback starts the mending instead: two menders would each leave
// the cursor and return to it, and the second return would forget what the first buffer had issued.
func (m *Machine) startMending(now instant, look *rediscursor.Taken) {
	if m.mode == Online {
		m.enterMending(now)
		m.beginMend(now, &mend{look: look})
	}
}

func (m *Machine) enterMending(now instant) {
	m.enter(Mending)
	m.mendBegan, m.failure = now, nil
}

// beginMend begins the task of a mending.
func (m *Machine) beginMend(now instant, t *mend) {
	t.pause = FirstPause
	switch {
	case !m.begin(Mend, t):
	case m.redis.failures > 0:
		t.pauses(now, pausing, FirstPause)
	default:
		t.tick(now)
	}
}

func (t *mend) tick(now instant) {
	switch {
	case t.yielding:
		t.question(now, FetchDeadline)
	case t.state == awaitingRefill:
		t.refilled(now)
	case t.look != nil:
		t.step(now)
	default:
		t.again(now)
	}
}

// ended continues after the end of a task that the mending waited for.
func (t *mend) ended(now instant, id Task) {
	switch {
	case t.state == awaitingRefill && id == Refill:
		t.refilled(now)
	case t.state == awaitingSpare && id == Spare && t.spare.First == 0:
		t.later(now) // the store did not give it
	case t.state == awaitingSpare && id == Spare:
		t.again(now)
	}
}

// again looks at once.
func (t *mend) again(now instant) {
	timeout := PeekTimeout
	if t.slow {
		timeout = 0
	}
	// The refill's own look must not find the cursor claimed.
	t.peek(now, !t.under(Refill), timeout)
}

// soon looks again after a short pause.
func (t *mend) soon(now instant) {
	t.look = nil
	t.pauses(now, pausing, soonPause)
}

// later looks again after a pause that grows.
func (t *mend) later(now instant) {
	t.look = nil
	t.work.later(now)
}

// awaits waits for another task of this node, longer each time.
func (t *mend) awaits(now instant, s state) {
	t.look = nil
	t.idle = min(max(2*t.idle, soonPause), LastPause)
	t.pauses(now, s, t.idle)
}

func (t *mend) looked(now instant, taken rediscursor.Taken, err error) {
	switch {
	case t.state == skipping && err != nil:
		t.callFailed(now, t.sent)
		t.failure = RedisError(err)
		t.later(now)
	case t.state == skipping:
		t.again(now)
	case err != nil:
		t.lookFailed(now, err)
	default:
		t.look = &taken
		t.step(now)
	}
}

// lookFailed handles a look that failed: it tries again, leaves Redis or refuses callers.
func (t *mend) lookFailed(now instant, err error) {
	t.failure = RedisError(err)
	t.redis.fails(now, t.sent, now)
	impatient := now.sub(t.redis.failing) > RedisPatience
	switch {
	case errors.Is(err, rediscursor.ErrForeign) || errors.Is(err, rediscursor.ErrNewer):
		t.refuse(&seqd.Error{Code: seqd.CodeConflict, Detail: err.Error()})
		t.later(now)
	case impatient:
		t.leave(now, err)
	default:
		t.later(now)
	}
}

// step does what the last look showed to be lacking.
func (t *mend) step(now instant) {
	look, r := t.look, &t.redis
	if now.sub(r.failed) > oldFailure {
		r.failures = 0
	}
	if r.failures >= manyFailures && t.failure != nil && now.sub(r.failing) > RedisPatience {
		t.leave(now, t.failure.Err) // it can be looked at, but takes fail
		return
	}
	if r.failures == 0 {
		r.failing = 0 // what failed before this look is over
	}
	if t.refusal != nil && t.refusal.Code == seqd.CodeRedisUnavailable {
		t.refusal = nil // from here on it is worth waiting
	}
	switch t.remedy(now, look, t.patient(now, look.Low)) {
	case waitForOther:
		t.soon(now)
	case seedIt:
		t.bring(now, rediscursor.Seed)
	case settleEpoch:
		t.dispute(now)
	case skipSome:
		t.skip(now, t.below(look))
	case advanceIt:
		t.bring(now, rediscursor.Advance)
	case useIt:
		if look.Low == rediscursor.WantsRefill {
			t.startRefill(now, look)
		}
		t.mended(now)
	case fillIt:
		t.awaitRefill(now)
	case yieldIt:
		t.yield(now)
	}
}

// yield refuses callers while the store itself sequences the counter, and asks now and then whether
// it still does.
func (t *mend) yield(now instant) {
	t.refuse(ErrYield)
	t.emit(Yield{})
	t.look, t.yielding = nil, true
	t.pauses(now, pausing, LastPause)
}

// patient reports whether what is wanted is left to whoever has claimed it, usually another node.
func (t *mend) patient(now instant, low rediscursor.Low) bool {
	switch {
	case low != rediscursor.Claimed:
		t.claimed = 0
		return false
	case t.claimed.never():
		t.claimed = now
	}
	return now.sub(t.claimed) < ClaimPatience
}

// skipShare is the part of what is to be skipped that a node skips at a time: several nodes may
// skip, and must not skip more together than there is.
const skipShare = 8

// skip takes some of the n numbers that this node may not issue out of the cursor, which holds
// higher numbers as well. If its ranges have a gap, a few of the higher ones may be lost too.
func (t *mend) skip(now instant, n int64) {
	if t.sends(now, skipping) {
		take := t.take(max(1, n/skipShare), false)
		take.Claim = 0
		t.emit(Take{Task: Mend, Take: take})
	}
}

// awaitRefill waits for this node's refill and starts it if it is not under way. Meanwhile the
// mending looks now and then whether another node was faster: the store may answer others.
func (t *mend) awaitRefill(now instant) {
	look := t.look
	t.failures = t.redis.failures
	t.awaits(now, awaitingRefill)
	t.startRefill(now, look)
}

// refilled continues after the wait for the refill.
func (t *mend) refilled(now instant) {
	if t.refusal != nil || t.redis.failures > t.failures {
		t.later(now) // the refill cannot succeed as things are
		return
	}
	t.again(now)
}

// dispute handles a cursor that has another epoch than this node believes in: it asks the store
// which one counts.
func (t *mend) dispute(now instant) {
	if t.inquired != t.look.Gen {
		t.inquiry = t.inquire(now, t, t.look)
		return
	}
	switch {
	case t.Yields(): // the store has said so just now
		t.yield(now)
	case t.belief.epoch == t.look.Epoch:
		t.again(now)
	case t.belief.awaitsSeed(now):
		t.soon(now)
	default:
		t.bring(now, rediscursor.Seed)
	}
}

func (t *mend) asked(now instant, err error) {
	if t.yielding {
		if t.yielding = false; !t.Yields() {
			t.refusal = nil
		}
		t.again(now)
		return
	}
	if err := t.belief.answered(t.inquiry, err); err != nil {
		t.failure = StoreError(err)
		t.later(now)
		return
	}
	t.inquired = t.look.Gen
	t.dispute(now)
}

// bring seeds or advances the cursor with the spare range. If there is none for the cursor's gen
// yet, the range is allocated in the background, and the mending looks at the cursor now and then
// meanwhile: another node may be faster.
func (t *mend) bring(now instant, mode rediscursor.Mode) {
	in, ok := t.spareFor(t.look)
	if !ok {
		look := t.look
		t.awaits(now, awaitingSpare)
		t.startSpare(now, look)
		return
	}
	in.Mode = mode
	t.in = in
	t.install(now, &t.in)
}

func (t *mend) installed(now instant, answer rediscursor.Answer, err error) {
	spoiled := t.redis.spoiled
	t.installResult(now, &t.in, answer, err)
	switch refused := answer.Verdict != rediscursor.Installed; {
	case err != nil || refused && spoiled:
		t.later(now) // whether the range is in the cursor, the next look will tell
		return
	case refused:
		t.again(now) // another node was faster
		return
	case t.in.Mode == rediscursor.Advance:
		t.skipped(t.look.Hand, ErrBelow) // what the range replaced
	case t.look.Other:
		t.contest(now)
	}
	t.mended(now)
}

// mended lets callers take again.
func (t *mend) mended(now instant) {
	t.end(now, &t.work)
	if t.mode == Closing {
		return
	}
	t.enter(Online)
	t.failure, t.refusal, t.outage.ahead = nil, nil, false
	if t.outage.reason != nil {
		t.outage.reason, t.outage.returned = nil, now
		t.redisBack()
	}
}
