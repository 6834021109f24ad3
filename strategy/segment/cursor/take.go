package cursor

import (
	"log/slog"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// Send returns the take for callers who want want numbers together. If wait is true the take must
// not be sent yet ([RuleBeliefsAge]): the command [Resume] follows, and then Send is called again.
func (m *Machine) Send(when time.Time, want int64) (take rediscursor.Take, wait bool) {
	now := at(when)
	if m.belief.outdated(now, m.away != nil) && m.awaitAnswer(now) {
		return take, true
	}
	take = m.take(want, m.storeSlow(now))
	if m.under(Refill) {
		take.Claim = 0 // it would keep the claim from the refill's own look, and from other nodes
	}
	return take, false
}

// take is a take of n numbers, 0 only to look.
func (m *Machine) take(n int64, useReserve bool) rediscursor.Take {
	return rediscursor.Take{
		Count: n, Threshold: m.cfg.Threshold, Reserve: m.cfg.Reserve, UseReserve: useReserve,
		Claim: claimFor, Epoch: m.belief.epoch,
	}
}

// Outcome is the result of a take.
type Outcome struct {
	// Runs may be issued, in this order. They share memory with those that were taken.
	Runs []persist.Range
	// Brought is how many numbers these are.
	Brought int64
	// Below is how many numbers were taken and are skipped. Wrong is how many of them should not
	// have been in the cursor: they cause an alarm. The commands report both.
	Below, Wrong int64
}

// Took notes the result of a take of want numbers that was sent at since. If a take succeeds and
// nothing else is to be done, Took allocates no memory and causes no command.
func (m *Machine) Took(when, since time.Time, want int64, taken rediscursor.Taken, err error) Outcome {
	now, sent := at(when), at(since)
	if err == nil {
		m.seeNext(&taken)
	}
	if m.over { // nothing is issued any more
		m.dropAll(taken.Runs, ErrStopping)
		taken.Runs = nil
	}
	out := m.guard(taken.Runs, m.cfg.Without)
	m.outage.issued += out.Brought
	m.seeCeil(taken.Ceil)
	lacking := want - out.Brought
	m.wanted += lacking // whose callers are about to wait
	back := false
	switch {
	case err != nil:
		m.callFailed(now, sent)
	case out.Brought > 0:
		m.redis.servedAt(sent)
		back, m.outage.rejected = m.outage.rejected, false
		m.startStandby(now)
	}
	if taken.Low == rediscursor.WantsRefill && !taken.Stub {
		m.startRefill(now, &taken)
	}
	m.startRecheck(now)
	if lacking > 0 {
		m.lacks(now, taken, out, err)
	}
	m.wanted -= lacking
	m.tellBelow(out)
	if back {
		m.redisBack()
	}
	return out
}

// lacks mends the cursor after a take that brought too few numbers.
func (m *Machine) lacks(now instant, taken rediscursor.Taken, out Outcome, err error) {
	look := &taken
	if err != nil || out.Below > 0 { // a take that got all it wanted does not look further
		look = nil
	}
	m.startMending(now, look)
	if err != nil {
		m.failure = RedisError(err)
	}
}

// tellBelow reports numbers that the guard skipped, if there are any.
func (m *Machine) tellBelow(out Outcome) {
	if explained := out.Below - out.Wrong; explained > 0 {
		m.skipped(explained, ErrBelow)
		if !m.belowFloor {
			m.belowFloor = true
			m.log(slog.LevelInfo, "numbers in the cursor are skipped: start is above them, or this node has issued higher ones on its own", "above", m.floor)
		}
	}
	if out.Wrong > 0 {
		m.log(slog.LevelError, "the cursor offered numbers that are not above all this node has issued; they are skipped", "numbers", out.Wrong)
		m.event(seqd.EventGuard, out.Wrong, nil)
	}
}

// storeSlow reports whether the store is away or slow enough that the reserve may be used.
func (m *Machine) storeSlow(now instant) bool {
	r, ok := m.find(Refill).(*refill)
	return ok && now.sub(r.began) > slowStore || m.away != nil
}
