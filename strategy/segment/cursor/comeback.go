package cursor

import (
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// comeback is the task of a node on its own that returns to the cursor. It looks until Redis
// answers. If the cursor must be moved up, it also allocates the range for that before the node
// gives up its local buffer: if the store gives none, the node continues on its own.
type comeback struct {
	work
	began   instant // when the present attempt did
	look    rediscursor.Taken
	inquiry inquiry
	second  bool // the store was asked in this attempt
	slow    bool // the attempt took longer than PeekTimeout
	// issued and top are of the local buffer, see Local.
	issued, top int64
}

func (m *Machine) startComeback(now instant) {
	if t := (&comeback{work: work{pause: firstReturn}}); m.begin(Comeback, t) {
		t.later(now)
	}
}

func (t *comeback) tick(now instant) {
	if now.sub(t.outage.left) < t.outage.hold {
		t.later(now)
		return
	}
	t.began, t.second = now, false
	t.peek(now, false, 0)
}

// Local notes the highest number that callers took out of the local buffer, 0 for none, and the
// highest that it ever held. In the mode Alone it is called before each result of Comeback.
func (m *Machine) Local(issued, top int64) {
	if t, ok := m.find(Comeback).(*comeback); ok {
		t.issued, t.top = issued, top
	}
}

func (t *comeback) looked(now instant, look rediscursor.Taken, err error) {
	switch {
	case err != nil:
		t.later(now)
	case look.Other && !t.second:
		t.second, t.look = true, look
		t.inquiry = t.inquire(now, t, &t.look)
	default:
		t.look = look
		t.decide(now)
	}
}

// asked looks once more if the store says that this cursor counts.
func (t *comeback) asked(now instant, err error) {
	switch err := t.belief.answered(t.inquiry, err); {
	case err != nil:
		t.later(now)
	case t.belief.epoch == t.look.Epoch:
		t.peek(now, false, 0)
	default:
		t.decide(now)
	}
}

// decide goes back if the cursor's next number is above all that this node has issued, or if the
// range for a seed or advance is in hand. Otherwise it allocates that range.
func (t *comeback) decide(now instant) {
	look, issued := &t.look, max(t.highest, t.issued)
	live := !look.Stub && !look.Other
	t.slow = now.sub(t.began) > PeekTimeout
	switch {
	case t.Yields(), live && look.Next > issued, t.spareFits(look, issued):
		t.goBack(now)
	case !live && t.belief.awaitsSeed(now):
		t.later(now)
	default:
		why := Filling
		if t.redis.spoiled {
			why = Retrying
		}
		t.allocate(now, t.target(look), 0, max(t.seen, t.top), why)
	}
}

func (t *comeback) allocated(now instant, r persist.Range, err error) {
	if err != nil {
		t.later(now)
		return
	}
	t.keepSpare(r, t.look.Gen, t.to)
	t.goBack(now)
}

// goBack closes the local buffer and lets callers wait.
func (t *comeback) goBack(now instant) {
	if t.mode == Closing {
		t.end(now, &t.work)
		return
	}
	t.enterMending(now)
	t.redis.failing, t.redis.failures = 0, 0
	t.sends(now, closing)
	t.emit(CloseLocal{})
}

// Closed passes on the result of [CloseLocal]; issued and top are as in Local. Then the node mends
// until the cursor is above every number that was taken out of the local buffer
// ([RuleAdvanceFirst]), also if an earlier return failed half-way ([RuleAheadKept]).
func (m *Machine) Closed(when time.Time, issued, top int64) {
	now := at(when)
	t, ok := m.expects(Comeback, closing).(*comeback)
	if !ok {
		return
	}
	o := &m.outage
	o.ahead = issued > 0 || o.ahead && !m.without(RuleAheadKept)
	m.highest = max(m.highest, issued)
	m.see(top)
	m.end(now, &t.work)
	m.beginMend(now, &mend{slow: t.slow})
}
