package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seqd/seqd"
)

const (
	second = time.Second
	// day is how long reservations that ended are remembered, in ms.
	day = 24 * 60 * 60 * 1000
	// The bounds of Reserve's TTL, in ms.
	shortestTTL, longestTTL = 1000, day
	// idLength is the length of the ID of a reservation.
	idLength = 20
	// longestOnce, longestReason and longestCaller are in bytes, characters and bytes.
	longestOnce, longestReason, longestCaller = 64, 200, 256
)

// check returns why an operation can be carried out on no state.
func (op *Op) check() error {
	switch {
	case (op.Kind == Issue || op.Kind == Reserve) && (op.Count < 1 || op.Count > seqd.MaxCount):
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d and must be from 1 to %d", op.Count, seqd.MaxCount)
	case op.Kind == Reserve && op.TTL != 0 && (op.TTL < shortestTTL || op.TTL > longestTTL):
		return seqd.Errorf(seqd.CodeInvalidTTL, "the ttl is %s and must be from 1s to 24h", time.Duration(op.TTL)*time.Millisecond)
	case op.Kind >= Reserve && op.Kind <= Release && !isID(op.ID):
		return seqd.Errorf(seqd.CodeUnknownReservation, "%.40q is not the ID of a reservation", op.ID)
	case len(op.Once) > longestOnce || strings.ContainsFunc(op.Once, func(r rune) bool { return r <= ' ' || r > '~' }):
		return seqd.Errorf(seqd.CodeInvalidRequest, "what identifies a request is more than %d visible ASCII characters", longestOnce)
	case len(op.Caller) > longestCaller || !utf8.ValidString(op.Caller):
		return seqd.Errorf(seqd.CodeInvalidRequest, "the caller's name is not UTF-8 of at most %d bytes", longestCaller)
	case op.Kind == Void || op.Kind == Raise:
		return checkReason(op.Reason)
	case op.Kind > Begin:
		return fmt.Errorf("there is no operation %d", op.Kind)
	}
	return nil
}

func checkReason(reason string) error {
	n := utf8.RuneCountInString(reason)
	if n < 1 || n > longestReason || !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl) {
		return seqd.Errorf(seqd.CodeInvalidRequest, "the reason must have 1 to %d characters without control characters", longestReason)
	}
	return nil
}

func isID(id string) bool {
	return len(id) == idLength && !strings.ContainsFunc(id, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') })
}

// handOut carries out Issue and Reserve.
func (s *State) handOut(now int64, p *Policy, op *Op, looked *Looked, res *Result) error {
	if op.Once != "" {
		if answered, err := s.answered(now, p, op, looked, res); answered || err != nil {
			return err
		}
		switch {
		case op.Recall && !op.Close:
			return nil
		case op.Recall:
			res.known = s.Closed
			res.Changed = res.Changed || !s.Closed
			s.Closed = true
			return nil
		case s.Closed && now < s.Ends:
			return errShut
		case s.Closed:
			return errClosed
		case op.NoAnswer != nil:
			return op.NoAnswer
		}
	}
	if op.Kind == Reserve {
		if done, err := s.mayReserve(p, op, res); done || err != nil {
			return err
		}
	}
	limit := p.limit()
	available := s.available(limit, op.Count)
	if op.Count-available > limit-s.Last {
		return seqd.Errorf(seqd.CodeExhausted, "fewer than %d numbers are left up to %d", op.Count, limit)
	}
	bound := roomToBegin
	if op.Once == "" && op.Kind == Issue { // its event leaves soon, so it needs no more than an end
		bound = roomToEnd
	}
	if (op.Once != "" || op.Kind == Reserve || s.Told) && !s.hasRoom(bound, op, min(available, int64(len(s.Released))+1)) {
		return errFull
	}
	res.Runs, res.Made, res.Changed = s.take(op.Count, available), now, true
	ttl := int64(0)
	if op.Kind == Reserve {
		ttl = cmp.Or(op.TTL, p.TTL) + p.Doubt
		res.ID, res.Due = op.ID, now+ttl
		s.addReservation(&Reservation{ID: op.ID, Runs: res.Runs, Made: now, TTL: ttl, Caller: op.Caller})
	}
	if op.Once != "" {
		s.add(&Entry{
			Kind: AnswerEntry, Once: op.Once, ID: res.ID, Runs: res.Runs, Made: now, TTL: ttl,
			Asked: op.TTL, At: now, Keep: now + p.Ahead + p.Keep,
		})
	}
	if op.Kind == Issue {
		s.tellIssued(res.Runs, now)
	}
	return nil
}

// limit returns the largest number that may be handed out.
func (p *Policy) limit() int64 {
	if p.Limit > 0 {
		return min(seqd.MaxNumber, p.Limit)
	}
	return seqd.MaxNumber
}

// errClosed is why a request that was under way when its period ended is not carried out: the same
// request may have been given a number of the next period.
var errClosed = &seqd.Error{Code: seqd.CodeStarting, Detail: "the period has just ended", RetryAfter: second}

// errShut is errClosed if the period has not ended by the present time: it ends in a moment, or a
// clock was ahead.
var errShut = &seqd.Error{
	Code: seqd.CodeStarting, RetryAfter: second,
	Detail: "the period is closed to new requests with an Idempotency-Key, as if it had ended: if this lasts, the store's clock " +
		"was ahead, and an operator has to set it right and to open the period with seqd raise --by 0",
}

// mayReserve returns why a reservation cannot be made. done is true if this operation has made it.
func (s *State) mayReserve(p *Policy, op *Op, res *Result) (done bool, err error) {
	if r := s.Reservation(op.ID); r != nil && r.Caller == op.Caller && Count(r.Runs) == op.Count {
		*res = Result{Runs: r.Runs, Made: r.Made, ID: r.ID, Due: r.toldEnd(s, p), Changed: res.Changed}
		return true, nil
	}
	if err := s.checkShare(p, op); err != nil {
		return false, err
	}
	switch {
	case op.Count > p.MaxReserved:
		return false, seqd.Errorf(seqd.CodeInvalidCount, "count is %d, and at most maxReserved, %d, can be reserved", op.Count, p.MaxReserved)
	case s.reserved+op.Count > p.MaxReserved:
		return false, &seqd.Error{
			Code: seqd.CodeTooManyReserved, RetryAfter: second,
			Detail: fmt.Sprintf("%d numbers are reserved, and %d more would exceed maxReserved, %d", s.reserved, op.Count, p.MaxReserved),
		}
	}
	return false, nil
}

// checkShare returns an error if a reservation would make its caller have more than a share.
func (s *State) checkShare(p *Policy, op *Op) error {
	if p.MaxReservedPerCaller == 0 {
		return nil
	}
	if op.Count > p.MaxReservedPerCaller {
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d, and one caller can reserve at most maxReservedPerCaller, %d", op.Count, p.MaxReservedPerCaller)
	}
	has := int64(0)
	for _, r := range s.Reserved {
		if r.Caller == op.Caller {
			has += Count(r.Runs)
		}
	}
	if has+op.Count <= p.MaxReservedPerCaller {
		return nil
	}
	return &seqd.Error{
		Code: seqd.CodeTooManyReserved, RetryAfter: second,
		Detail: fmt.Sprintf("the caller has reserved %d numbers, and %d more would exceed maxReservedPerCaller, %d: confirm or release some",
			has, op.Count, p.MaxReservedPerCaller),
	}
}

// answered adds the numbers that a request with the same Once was given, if they still are what it
// was told: reserved or issued.
func (s *State) answered(now int64, p *Policy, op *Op, looked *Looked, res *Result) (found bool, err error) {
	e, err := s.answer(op, looked)
	if e == nil || err != nil {
		return false, err
	}
	if op.Count != Count(e.Runs) || (op.Kind == Reserve) != (e.ID != "") || op.TTL != e.Asked {
		res.known = true
		return false, seqd.Errorf(seqd.CodeIdempotencyKeyReused, "this Idempotency-Key was used with another count, ttl or kind of request")
	}
	if err := s.stillSo(now, p, e, looked); err != nil && !s.rules.Has(RuleStill) {
		res.known = !errors.Is(err, ErrLook)
		return false, err
	}
	res.known = s.rules.Has(RuleStill) || s.rules.Has(RuleKnown)
	res.Runs, res.Made, res.ID, res.Replayed = e.Runs, e.Made, e.ID, true
	if e.ID != "" {
		res.Due = e.Made + e.TTL
	}
	return true, nil
}

// answer returns what a request with the same Once was given, nil if nothing.
func (s *State) answer(op *Op, looked *Looked) (*Entry, error) {
	if e := s.answers[op.Once]; e != nil {
		return e, nil
	}
	if looked != nil && looked.Answer != nil && s.sameEra(looked) {
		return looked.Answer, nil
	}
	return s.lookedAt(looked)
}

// stillSo returns why numbers are no longer what the request was told that got them. An answer that
// was found in the records and is newer than the state says what is so.
func (s *State) stillSo(now int64, p *Policy, e *Entry, looked *Looked) error {
	if e.Rev > s.Revision && s.answers[e.Once] == nil {
		return nil
	}
	if e.ID == "" {
		void, err := s.anyVoid(e, looked)
		if void {
			err = errVoid
		}
		return err
	}
	if r := s.Reservation(e.ID); r != nil {
		switch {
		case r.due(s, p) <= now:
			return errExpired
		case Count(r.Runs) != Count(e.Runs):
			return errVoid
		}
		return nil
	}
	ended, err := s.endOf(e, looked)
	switch {
	case err != nil:
		return err
	case ended == nil:
		return seqd.Errorf(seqd.CodeUnknownReservation, "the reservation %q has ended, and it is no longer known how", e.ID)
	case ended.End == Confirmed:
		return errConfirmed
	case ended.End == Ungiven:
		return errReleased
	}
	return errExpired
}

// endOf returns how the reservation of an answer ended, nil if that is no longer known. It is not
// open.
func (s *State) endOf(e *Entry, looked *Looked) (*Entry, error) {
	if ended := s.ended[e.ID]; ended != nil || s.hasAllSince(e) {
		return ended, nil
	}
	if !looked.isFate() {
		return nil, s.unlooked()
	}
	return s.lookedAt(looked)
}

// hasAllSince reports whether all that happened after an answer was given is still in the outbox.
// That is so also while the answer is not durable, so nobody looks for what became of such an
// answer.
func (s *State) hasAllSince(e *Entry) bool { return e.Rev > s.Dropped }

// anyVoid reports whether a number of an answer is void.
func (s *State) anyVoid(e *Entry, looked *Looked) (bool, error) {
	if overlap(e.Runs, s.outboxVoids()) {
		return true, nil
	}
	if s.Voids == 0 || s.hasAllSince(e) {
		return false, nil
	}
	if !looked.isFate() {
		return false, s.unlooked()
	}
	voids, err := VoidsOf(looked.Docs)
	if err == nil && s.sameEra(looked) && overlap(e.Runs, voids) {
		return true, nil
	}
	_, err = s.lookedVoids(looked)
	return false, err
}

// unlooked is the error if nobody has looked.
func (s *State) unlooked() error {
	if s.rules.Has(RuleLook) {
		return nil
	}
	return ErrLook
}

var (
	errVoid      = &seqd.Error{Code: seqd.CodeNumberVoid, Detail: "a number that this Idempotency-Key was given has been made void: a new request needs a new key"}
	errReleased  = &seqd.Error{Code: seqd.CodeReservationReleased, Detail: "the reservation was released"}
	errConfirmed = &seqd.Error{Code: seqd.CodeReservationConfirmed, Detail: "the reservation was confirmed: make its numbers void instead"}
)

func (s *State) addReservation(r *Reservation) {
	r.text = string(r.append(nil))
	s.size += len(r.text) + 1
	s.reserved += Count(r.Runs)
	i, _ := s.find(r.ID)
	s.Reserved = slices.Insert(s.Reserved, i, r)
}

func (s *State) removeReservation(r *Reservation) {
	i, _ := s.find(r.ID)
	s.Reserved = slices.Delete(s.Reserved, i, i+1)
	s.size -= len(r.text) + 1
	s.reserved -= Count(r.Runs)
}

// replaceReservation replaces r by another one with the same ID.
func (s *State) replaceReservation(r, by *Reservation) {
	s.removeReservation(r)
	s.addReservation(by)
}
