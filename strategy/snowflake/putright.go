package snowflake

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/snowflake/machineid"
)

// A clock that is far ahead for a moment takes the times of a machine ID with it: nothing can be
// issued with that ID until the clock has come there again, perhaps in years. Once the clock is
// right, another machine ID has times that nobody has used, as it would after a restart.

// longestWait is how long callers wait at most for a clock that was set back, if this node cannot
// tell whether it was wrong before or is wrong now.
const longestWait = time.Hour

// steady compares the node's clock with one that nobody sets. Only the run goroutine uses it.
type steady struct {
	wall int64 // the node's time, in ms since the Unix epoch
	at   time.Time
}

// agrees reports whether now, the node's time, is at most so many ms off what it was when it last
// agreed.
func (s *steady) agrees(now, most int64) bool {
	if !s.at.IsZero() {
		if off := now - s.wall - time.Since(s.at).Milliseconds(); off > most || -off > most {
			return false
		}
	}
	*s = steady{now, time.Now()}
	return true
}

// putRight reports whether the clock was ahead, in this process or in the one that left its
// reservation, and was put right by more than horizon, and another machine ID can be used sooner.
// It is called after a renewal, so a registry that is shared has just agreed with the clock.
func (h *holder) putRight(ctx context.Context) bool {
	now := h.env.ms()
	agrees := h.registry.Floored || h.steady.agrees(now, h.registry.MaxSkew)
	_, l, _ := h.tenure.now()
	last := h.tenure.gen.lastUsed()
	behind := max(last, l.Lower) - now
	wait := h.registry.Horizon
	if h.registry.Doubtful { // another machine ID begins that much later
		wait = 2 * h.registry.Ahead()
	}
	if l.Floored && last <= l.Lower || behind <= wait || !agrees && behind <= longestWait.Milliseconds() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	t, err := h.registry.prepared(ctx)
	if err != nil {
		return false
	}
	lower, free := h.registry.Begin(t, now)
	return free && lower <= now+wait
}

// moveOn gives up the machine ID and its times. The next one may have numbers below those that were
// issued.
func (h *holder) moveOn() {
	_, l, _ := h.tenure.now()
	last := h.tenure.gen.stop(errSeeking)
	h.env.Log.Warn("the clock was ahead, and is not any more: this node takes another machine ID, and issues lower numbers than before",
		"machineId", l.ID, "used", at(last))
	err := h.giveUp(l, last)
	if errors.Is(err, machineid.ErrLost) {
		h.debt.owed = l
	}
	if err != nil {
		h.env.Log.Warn("the machine ID could not be released; it stays taken until its lease ends", "machineId", l.ID, "until", at(max(l.Until, l.Reserved)), "error", err)
	}
	h.tenure.gen.forget()
	h.tenure.clear()
	h.steady = steady{}
}

// beforeEpoch is the error while the clock has not reached the epoch.
func beforeEpoch(ms int64) *seqd.Error {
	return &seqd.Error{Code: seqd.CodeClockRollback, RetryAfter: time.Second, Detail: "the clock says " + at(ms) + ", which is before the epoch"}
}
