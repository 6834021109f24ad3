package ledger

import (
	"errors"

	"github.com/seqd/seqd"
)

// due returns when a reservation may be reclaimed. One that is suspect gets no more time: if it was
// due, what the store has lost may have reclaimed it and handed its numbers out again.
func (r *Reservation) due(s *State, p *Policy) int64 {
	since := r.Made
	if !r.Suspect && !s.rules.Has(RuleAwake) {
		since = max(since, p.Awake)
	}
	return since + r.TTL + p.Forward
}

// toldEnd returns the end that callers are told: the reservation is not reclaimed before it. It may
// last longer, if all nodes were away. How long differs between nodes for some seconds, and a raise
// takes it back, so nobody is told.
func (r *Reservation) toldEnd(s *State, p *Policy) int64 {
	if s.rules.Has(RuleToldEnd) {
		return r.due(s, p)
	}
	return r.Made + r.TTL
}

// settle carries out Find, Confirm and Release.
func (s *State) settle(now int64, p *Policy, op *Op, looked *Looked, res *Result) error {
	if r := s.Reservation(op.ID); r != nil {
		return s.settleOpen(now, p, op, r, res)
	}
	e := s.ended[op.ID]
	if e == nil {
		var err error
		if e, err = s.lookedAt(looked); err != nil {
			return err
		}
	}
	if e == nil {
		return seqd.Errorf(seqd.CodeUnknownReservation, "there is no reservation %q of this counter; one that ended is known for 24 hours", op.ID)
	}
	return s.settleEnded(op, e, res)
}

func (s *State) settleOpen(now int64, p *Policy, op *Op, r *Reservation, res *Result) error {
	res.Runs, res.Made, res.ID, res.Due, res.Caller = r.Runs, r.Made, r.ID, r.toldEnd(s, p), r.Caller
	if op.Kind == Find {
		return nil
	}
	if op.Caller != r.Caller && !op.Admin {
		*res = Result{Changed: res.Changed, known: true}
		return errForbidden
	}
	if !s.hasRoom(roomToEnd, op, int64(len(r.Runs))) {
		*res = Result{Changed: res.Changed}
		return errFull
	}
	res.Changed = true
	if op.Kind == Release {
		res.End = Ungiven
		s.end(r, now, p, Ungiven)
		s.comeBack(r.Runs, now, p, r.Suspect, "released")
		return nil
	}
	if r.due(s, p) <= now && !s.rules.Has(RuleDue) {
		*res = Result{Changed: true, Expired: []*Entry{s.expire(r, now, p)}}
		return errExpired
	}
	res.End = Confirmed
	s.end(r, now, p, Confirmed)
	s.tellIssued(r.Runs, now)
	return nil
}

func (s *State) settleEnded(op *Op, e *Entry, res *Result) error {
	res.known = true
	if op.Kind != Find && op.Caller != e.Caller && !op.Admin {
		return errForbidden
	}
	switch {
	case s.rules.Has(RuleEndedOnce) && op.Kind == Confirm:
	case op.Kind == Confirm && e.End == Expired:
		return errExpired
	case op.Kind == Confirm && e.End == Ungiven:
		return errReleased
	case op.Kind == Release && e.End == Confirmed:
		return errConfirmed
	}
	res.Runs, res.Made, res.ID, res.Due, res.End, res.Caller = e.Runs, e.Made, e.ID, e.Made+e.TTL, e.End, e.Caller
	return nil
}

var (
	errForbidden = &seqd.Error{Code: seqd.CodeForbidden, Detail: "another caller made this reservation"}
	errExpired   = &seqd.Error{Code: seqd.CodeReservationExpired, Detail: "the reservation expired, and its numbers were reclaimed"}
)

// end removes a reservation and remembers how it ended. Its numbers are issued, until the caller of
// end says something else.
func (s *State) end(r *Reservation, now int64, p *Policy, how End) *Entry {
	s.removeReservation(r)
	e := &Entry{
		Kind: EndedEntry, ID: r.ID, Runs: r.Runs, End: how, Made: r.Made, TTL: r.TTL, Caller: r.Caller,
		At: now, Keep: now + p.Ahead + max(day, p.Keep),
	}
	if how == Expired && !s.rules.Has(RuleTold) {
		s.event(e)
	}
	s.add(e)
	return e
}

func (s *State) expire(r *Reservation, now int64, p *Policy) *Entry {
	e := s.end(r, now, p, Expired)
	s.comeBack(r.Runs, now, p, r.Suspect, "expired")
	return e
}

// mostExpired is how many reservations one Reclaim ends. Tests make it smaller.
var mostExpired = 500

// reclaim ends reservations that are due.
func (s *State) reclaim(now int64, p *Policy, res *Result) {
	var due []*Reservation
	for _, r := range s.Reserved {
		if len(due) < mostExpired && (r.due(s, p) <= now || s.rules.Has(RuleNotEarly)) {
			due = append(due, r)
		}
	}
	for _, r := range due {
		if !s.hasRoom(roomToEnd, nil, int64(len(r.Runs))) {
			return
		}
		res.Expired = append(res.Expired, s.expire(r, now, p))
		res.Changed = true
	}
}

// Due returns when Reclaim has something to do, in ms since the Unix epoch, 0 for never. It may be
// in the past.
func (s *State) Due(p *Policy) (due int64) {
	for _, r := range s.Reserved {
		due = earliest(due, r.due(s, p))
	}
	if len(s.Released) > 0 && p.Ends > 0 {
		due = earliest(due, p.Ends)
	}
	return due
}

func earliest(a, b int64) int64 {
	if a == 0 {
		return max(b, 1)
	}
	return min(a, max(b, 1))
}

// void carries out Void.
func (s *State) void(now int64, p *Policy, op *Op, looked *Looked, res *Result) error {
	n := op.Number
	if n < s.First || n > s.Last {
		return seqd.Errorf(seqd.CodeInvalidID, "the number %d was never issued", n)
	}
	r := s.reservationOf(n)
	isReleased := r == nil && s.isReleased(n)
	if r == nil && !isReleased {
		if has(s.outboxVoids(), n) {
			res.known = true
			return nil
		}
		voids, err := s.lookedVoids(looked)
		if err != nil {
			return err
		}
		if has(voids, n) {
			res.known = true
			return nil
		}
	}
	if !s.hasRoom(roomToEnd, op, 2) {
		return errFull
	}
	res.Changed = true
	switch {
	case isReleased:
		s.unrelease(n)
	case r != nil:
		s.unreserve(r, n, now, p)
	}
	s.addVoid([]Run{{n, n}}, now, op.Reason, op.Caller)
	return nil
}

// unreserve removes a number from a reservation, which ends if that was its last one.
func (s *State) unreserve(r *Reservation, n, now int64, p *Policy) {
	left := without(r.Runs, []Run{{n, n}})
	if len(left) == 0 {
		s.end(r, now, p, Ungiven)
		return
	}
	changed := *r
	changed.Runs = left
	s.replaceReservation(r, &changed)
}

func (s *State) reservationOf(n int64) *Reservation {
	for _, r := range s.Reserved {
		if has(r.Runs, n) {
			return r
		}
	}
	return nil
}

func (s *State) isReleased(n int64) bool {
	for _, r := range s.Released {
		if r.From <= n && n <= r.To {
			return true
		}
	}
	return false
}

// giveBack carries out Return.
func (s *State) giveBack(now int64, p *Policy, op *Op, looked *Looked, res *Result) error {
	if op.Since.Era != s.Era && !s.rules.Has(RuleReturnIssued) {
		return &seqd.Error{Code: seqd.CodeStoreFailedOver, Detail: "the numbers were issued before a failover, and stay issued"}
	}
	voids, err := s.voidsSince(op, looked)
	if err != nil {
		return err
	}
	runs := op.Runs
	if !s.rules.Has(RuleReturnIssued) {
		runs = without(runs, voids)
	}
	for _, r := range runs {
		if r.From < s.First || r.To > s.Last || r.From > r.To || s.isTaken(r) {
			return errors.New("numbers were given back that are not issued")
		}
	}
	if !s.hasRoom(roomToEnd, op, int64(len(runs))) {
		return errFull
	}
	if len(runs) > 0 {
		s.comeBack(runs, now, p, false, "released")
		res.Changed = true
	}
	return nil
}

// isTaken reports whether a number of a run is reserved or released.
func (s *State) isTaken(run Run) bool {
	for _, r := range s.Released {
		if r.overlaps(run) {
			return true
		}
	}
	for _, r := range s.Reserved {
		for _, part := range r.Runs {
			if part.overlaps(run) {
				return true
			}
		}
	}
	return false
}

// voidsSince returns the void numbers among those of Return.
func (s *State) voidsSince(op *Op, looked *Looked) (voids []Run, err error) {
	if s.Dropped >= op.Since.Revision {
		if voids, err = s.lookedVoids(looked); err != nil {
			return nil, err
		}
	}
	return append(voids, s.outboxVoids()...), nil
}

// beginEra is the first part of Raise: what else this write changes belongs to the new era.
func (s *State) beginEra(now int64, op *Op) {
	s.Era, s.Fence = max(s.Era+1, now), op.Fence
	s.Eras = append(s.Eras, Since{s.Era, s.Revision + 1})
	s.Events = 0 // nobody knows how far those of the era before had come
}

// open opens a period that was closed, unless it has ended.
func (s *State) open(now int64, res *Result) {
	if s.Closed && (s.Ends == 0 || now < s.Ends) {
		s.Closed, res.Changed = false, true
	}
}

// raise carries out the rest of Raise. It opens a period that was closed and has not ended: the
// store's clock was ahead. Only an operator does that, because a request that got a number of the
// wrong period meanwhile gets another one if it is repeated.
func (s *State) raise(now int64, op *Op, res *Result) {
	res.Changed = true
	s.open(now, res)
	if !s.rules.Has(RuleSuspect) {
		s.voidReleased(now, op.Reason, op.Caller)
	}
	if to := min(op.To, seqd.MaxNumber); to > s.Last {
		s.skip(to, now, op.Reason, op.Caller)
	}
	for i, r := range s.Reserved {
		suspect := *r
		suspect.Suspect = true
		suspect.text = string(suspect.append(nil))
		s.size += len(suspect.text) - len(r.text)
		s.Reserved[i] = &suspect
	}
}
