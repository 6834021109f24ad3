package cursor

import (
	"errors"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// refill is the task that appends ranges until the queue of the cursor is full or another node has
// claimed the refill. It continues to try while the store is away.
type refill struct {
	work
	began   instant
	in      rediscursor.Install // that is under way, or the next
	free    int                 // for how many ranges there is room
	brought bool                // a range was installed
	failed  bool                // the last allocation failed
}

// startRefill fills the queue of the cursor that a look saw, unless that is under way.
func (m *Machine) startRefill(now instant, look *rediscursor.Taken) {
	t := &refill{work: work{pause: FirstPause}, began: now, free: look.Free}
	t.in = rediscursor.Install{Mode: rediscursor.Append, Gen: look.Gen, Epoch: look.Epoch}
	if m.begin(Refill, t) {
		t.bring(now)
	}
}

// bring allocates the next range.
func (t *refill) bring(now instant) {
	if t.free <= 0 {
		t.end(now, &t.work)
		return
	}
	why := Filling
	switch {
	case t.failed, t.redis.spoiled:
		why = Retrying
	case t.free == 1: // the others fill the queue for the first time, or after an outage
		why = Consumed
	}
	t.allocate(now, persist.ToCursor(t.in.Epoch), t.wanted, t.seen, why)
}

func (t *refill) allocated(now instant, r persist.Range, err error) {
	switch {
	case err == nil && t.over:
		t.drop(r, ErrStopping)
		t.end(now, &t.work)
	case err == nil:
		t.in.Range = r
		t.install(now, &t.in)
	case errors.Is(err, persist.ErrEpoch):
		t.end(now, &t.work) // the next take finds the cursor that counts
	case IsFinal(err):
		if t.mode == Mending && !t.brought { // otherwise the mending finds what was brought
			t.refuse(StoreError(err))
		}
		t.end(now, &t.work)
	default:
		t.failed = true
		t.later(now)
	}
}

func (t *refill) installed(now instant, answer rediscursor.Answer, err error) {
	t.installResult(now, &t.in, answer, err)
	switch {
	case err != nil || answer.Verdict == rediscursor.Full:
		t.end(now, &t.work)
	case answer.Verdict == rediscursor.Moved:
		t.later(now) // a look tells whether the cursor is another one now
	default:
		if t.failed = false; answer.Verdict == rediscursor.Installed {
			t.brought, t.free = true, answer.Free
		}
		t.bring(now)
	}
}

// tick looks whether a range is still wanted.
func (t *refill) tick(now instant) { t.peek(now, true, 0) }

func (t *refill) looked(now instant, look rediscursor.Taken, err error) {
	switch {
	case err != nil || look.Stub || look.Other || look.Gen != t.in.Gen:
		t.end(now, &t.work)
	case look.Free == 0: // another node got ranges from the store
		t.storeAnswers()
		t.end(now, &t.work)
	case look.Low == rediscursor.Claimed:
		t.later(now)
	default:
		t.bring(now)
	}
}
