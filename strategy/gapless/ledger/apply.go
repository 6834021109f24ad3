package ledger

import (
	"errors"

	"github.com/seqd/seqd"
)

// ErrLook is returned by [State.Apply] if records must be looked up first: see [State.Needs].
var ErrLook = errors.New("records must be looked up")

// errFull is returned if the document has no room for what an operation would add.
var errFull = &seqd.Error{
	Code:       seqd.CodeTooManyReserved,
	Detail:     "the ledger has no room: it holds too many reservations, released numbers and entries that are not copied yet",
	RetryAfter: second,
}

// Apply carries out an operation at the time now of the store's clock, in ms since the Unix epoch,
// or refuses it with a [seqd.Error]. looked is what was found in the records, nil if nobody looked.
//
// An operation that is refused changes nothing, except what is due anyway: the end of a reservation
// and of a period, and what a new policy says. Then [Result.Changed] is true.
func (s *State) Apply(now int64, p *Policy, op *Op, looked *Looked) (res Result, err error) {
	if err := op.check(); err != nil {
		return Result{known: true}, err
	}
	if op.Kind == Raise {
		s.beginEra(now, op)
	}
	last := s.Last
	if op.Kind != Find {
		res.Changed = s.adopt(now, p)
	}
	switch op.Kind {
	case Issue, Reserve:
		err = s.handOut(now, p, op, looked, &res)
	case Find, Confirm, Release:
		err = s.settle(now, p, op, looked, &res)
	case Void:
		err = s.void(now, p, op, looked, &res)
	case Return:
		err = s.giveBack(now, p, op, looked, &res)
	case Reclaim:
		s.reclaim(now, p, &res)
	case Raise:
		s.raise(now, op, &res)
	case Reopen:
		s.open(now, &res)
	case Begin:
		res.Changed = res.Changed || s.Revision == 0
	}
	s.tellExhausting(last, now, p)
	res.Since = Since{Era: s.Era, Revision: s.Revision + 1}
	return res, err
}

// adopt applies what a policy and the time say about numbers that nobody has, and reports whether
// that changed anything.
func (s *State) adopt(now int64, p *Policy) (changed bool) {
	if s.Last < s.First {
		// never below where it was: an operator may have raised it to there
		first := max(p.Start, p.Floor+1, s.First, 1)
		if s.rules.Has(RuleAbove) {
			first = max(p.Start, 1)
		}
		s.First, s.Last = first, first-1
	}
	if s.Void != p.Void || s.Ends != p.Ends || s.Told != p.Told {
		s.Void, s.Ends, s.Told, changed = p.Void, p.Ends, p.Told, true
	}
	if above := min(p.Start-1, seqd.MaxNumber); above > s.Last {
		s.skip(above, now, "start was raised", "")
		changed = true
	}
	if above := min(p.Floor, seqd.MaxNumber); above > s.Last && !s.rules.Has(RuleAbove) {
		s.skip(above, now, "another strategy issued up to here", "")
		changed = true
	}
	if len(s.Released) > 0 {
		if why := s.notReleased(now, p, "released"); why != "" {
			s.voidReleased(now, why, "")
			changed = true
		}
	}
	return changed
}

// notReleased returns why numbers that come back become void, "" if they are released.
func (s *State) notReleased(now int64, p *Policy, why string) string {
	switch {
	case p.Ends > 0 && p.Ends <= now && !s.rules.Has(RulePeriodEnd):
		return "period ended"
	case p.Void && !s.rules.Has(RuleOnRelease):
		return why
	}
	return ""
}

// skip makes the numbers above Last void, up to last.
func (s *State) skip(last, now int64, reason, by string) {
	runs := []Run{{s.Last + 1, last}}
	s.Last = last
	s.addVoid(runs, now, reason, by)
}

func (s *State) voidReleased(now int64, reason, by string) {
	var runs []Run
	for _, r := range s.Released {
		runs = join(runs, r.Run)
	}
	s.Released, s.released = nil, 0
	s.addVoid(runs, now, reason, by)
}

// comeBack releases numbers, or makes them void.
func (s *State) comeBack(runs []Run, now int64, p *Policy, suspect bool, why string) {
	void := s.notReleased(now, p, why)
	if suspect && !s.rules.Has(RuleSuspect) {
		void = why + " after a failover"
	}
	if void != "" {
		s.addVoid(runs, now, void, "")
		return
	}
	s.release(runs, now)
}

// addVoid notes that numbers of First to Last became void.
func (s *State) addVoid(runs []Run, now int64, reason, by string) {
	if len(runs) == 0 {
		return
	}
	s.Voids += Count(runs)
	s.add(s.event(&Entry{Kind: VoidEntry, Runs: runs, At: now, Reason: reason, Caller: by}))
}

// add adds an entry to the outbox.
func (s *State) add(e *Entry) {
	e.Era, e.Rev = s.Era, s.Revision+1
	e.text = string(e.append(nil))
	s.Outbox = append(s.Outbox, e)
	s.index(e)
}

// index notes an entry that is in the outbox.
func (s *State) index(e *Entry) {
	s.size += len(e.text) + 1
	switch e.Kind {
	case EndedEntry:
		if s.ended == nil {
			s.ended = make(map[string]*Entry)
		}
		s.ended[e.ID] = e
	case AnswerEntry:
		if s.answers == nil {
			s.answers = make(map[string]*Entry)
		}
		s.answers[e.Once] = e
	}
}

// Drop removes the entries whose Rev drop accepts. They have been copied.
func (s *State) Drop(drop func(rev int64) bool) (dropped bool) {
	kept := s.Outbox[:0]
	for _, e := range s.Outbox {
		if !drop(e.Rev) {
			kept = append(kept, e)
			continue
		}
		dropped = true
		s.Dropped = max(s.Dropped, e.Rev)
		s.size -= len(e.text) + 1
		switch e.Kind {
		case EndedEntry:
			delete(s.ended, e.ID)
		case AnswerEntry:
			delete(s.answers, e.Once)
		}
	}
	clear(s.Outbox[len(kept):])
	s.Outbox = kept
	return dropped
}

// Fresh returns the state of a counter that has no document. born identifies the ledger, and fence
// is that of the store, "" for none.
func Fresh(p *Policy, born, fence string) *State {
	s := &State{Born: born, Fence: fence, First: 1}
	s.adopt(0, &Policy{Start: p.Start, Floor: p.Floor, Void: p.Void, Ends: p.Ends, Told: p.Told})
	return s
}

// Policy returns what the state knows of the policy: enough for Reclaim, but not for handing out.
func (s *State) Policy() Policy {
	return Policy{Start: s.First, Void: s.Void, Told: s.Told, Ends: s.Ends}
}
