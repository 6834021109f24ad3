package cursor

import (
	"errors"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// spareRange is a range that was allocated to seed or advance the cursor; the zero range if there
// is none.
type spareRange struct {
	persist.Range
	gen string // the gen of the cursor that was seen before it was allocated
	// epoch is what it was allocated for, replaced what the store held before.
	epoch, replaced string
}

// spareFits reports whether the spare range can seed or advance the cursor that a look saw, above
// issued. It must have been allocated for the cursor's present gen: since an older gen other nodes
// may have issued higher numbers (invariant U3, [RuleYoungSpare]). It must have been allocated for
// the epoch that the node believes in (invariant U3b, [RuleSpareEpoch]).
func (m *Machine) spareFits(look *rediscursor.Taken, issued int64) bool {
	s := &m.spare
	young := s.gen == look.Gen || m.without(RuleYoungSpare)
	seed := look.Stub || look.Other
	present := s.epoch == m.belief.epoch && seed == (s.epoch != look.Epoch) || m.without(RuleSpareEpoch)
	return s.First > issued && young && present
}

// spareFor takes out the spare range and returns its install. If the range does not fit the cursor,
// it is dropped.
func (m *Machine) spareFor(look *rediscursor.Taken) (in rediscursor.Install, ok bool) {
	s := m.spare
	ok = m.spareFits(look, m.highest)
	m.spare = spareRange{}
	if !ok {
		m.drop(s.Range, ErrBelow)
		return in, false
	}
	return rediscursor.Install{Gen: look.Gen, Epoch: m.belief.epoch, Replaced: s.replaced, Range: s.Range}, true
}

// keepSpare keeps a range that was allocated under a gen of the cursor. If there is one already,
// the higher one stays.
func (m *Machine) keepSpare(r persist.Range, gen string, to persist.Target) {
	switch {
	case m.over:
		m.drop(r, ErrStopping)
	case r.First > m.spare.First:
		m.drop(m.spare.Range, ErrBelow)
		replaced, _ := to.Cursor()
		m.spare = spareRange{Range: r, gen: gen, epoch: to.Epoch(), replaced: replaced}
	default:
		m.drop(r, ErrBelow)
	}
}

// sparing allocates a spare range that is large enough for all waiting callers.
type sparing struct {
	work
	gen string
}

// startSpare allocates the range that a cursor lacks according to look, unless that is under way.
func (m *Machine) startSpare(now instant, look *rediscursor.Taken) {
	t := &sparing{gen: look.Gen}
	if !m.begin(Spare, t) {
		return
	}
	why := Filling
	if m.redis.spoiled || m.belief.contested(now) != nil {
		why = Retrying
	}
	t.allocate(now, m.target(look), m.wanted, m.seen, why)
}

func (t *sparing) allocated(now instant, r persist.Range, err error) {
	switch {
	case err == nil:
		t.keepSpare(r, t.gen, t.to)
	case t.mode != Mending || errors.Is(err, persist.ErrEpoch):
	default:
		t.failure = StoreError(err)
		if IsFinal(err) {
			t.refuse(t.failure)
		}
	}
	t.end(now, &t.work)
}
