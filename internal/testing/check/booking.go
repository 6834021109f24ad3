package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/testing/record"
)

// booking is a call about a reservation of a gapless biz type, or one that makes a number void.
type booking struct {
	call
	reservation string
	state       string // in the answer
	expires     int64  // in the time of the run
	void        int64  // the number that was to become void
	reason      string // why
}

// unknownReservation is the code for a reservation that is not, or no more, known.
const unknownReservation = "unknown_reservation"

func (h *evidence) addBooking(r *record.Call, c call) error {
	b := booking{call: c, reservation: h.one(r.Reservation), state: h.one(r.State)}
	if r.Expires > 0 {
		b.expires = max(1, r.Expires*int64(time.Millisecond)-h.world.Began) // by a clock that is behind, it is over at once
	}
	if r.Kind == record.VoidOne {
		if len(r.Texts) != 1 {
			return fmt.Errorf("a void of %d IDs", len(r.Texts))
		}
		b.reason = h.one(r.Key)
		one := c
		one.runs = r.Runs
		if c.bizType.display != nil {
			h.read(&one, r.Texts)
		}
		if len(one.runs) != 1 || one.runs[0].Count != 1 {
			return fmt.Errorf("a void of %q, which is no number", r.Texts[0])
		}
		b.origin, b.void = one.origin, one.runs[0].First
		h.bookings = append(h.bookings, b)
		return nil
	}
	if b.answered() {
		b.runs = r.Runs
		if c.bizType.display != nil {
			h.read(&b.call, r.Texts)
		}
	}
	if r.Kind == record.Reserve {
		b.key = h.one(r.Key)
	}
	h.bookings = append(h.bookings, b)
	return nil
}

// reservation is everything that the record says about one.
type reservation struct {
	id         string
	counter    counter
	first      *booking // the first answer that told its numbers
	start, end int64    // of that; the start may be that of an earlier call with the same key
	expires    int64    // as callers are told
	ends       int64    // when it expires at the earliest
	all        []*booking
	confirmed  *booking // the first answer that says so
	over       *booking // the first answer that says that it was released or has expired
	released   int64    // when its release was first asked for, forever if never
}

// reservations returns what the record says about each reservation, by ID.
func (h *evidence) reservations() map[string]*reservation {
	all := make(map[string]*reservation)
	byKey := make(map[[3]string]int64) // the first start
	for i := range h.bookings {
		b := &h.bookings[i]
		if b.kind == record.VoidOne {
			continue
		}
		start := b.start
		if b.kind == record.Reserve && b.key != "" {
			k := [3]string{b.bizType.Name, b.of, b.key}
			if first, known := byKey[k]; known {
				start = first
			}
			byKey[k] = start
		}
		if b.reservation == "" {
			continue
		}
		v := all[b.reservation]
		if v == nil {
			v = &reservation{id: b.reservation, released: forever}
			all[b.reservation] = v
		}
		v.add(b, start)
	}
	for _, v := range all {
		v.ends = h.earliestEnd(v)
	}
	return all
}

// add adds a call about the reservation. Calls come by their start.
func (v *reservation) add(b *booking, start int64) {
	v.all = append(v.all, b)
	if b.kind == record.Release {
		v.released = min(v.released, b.start)
	}
	if len(b.runs) > 0 && (v.first == nil || v.first.kind != record.Reserve && b.kind == record.Reserve) {
		v.first, v.start, v.end, v.expires = b, start, b.end, b.expires
		v.counter = counter{b.bizType, b.of, b.period}
	}
	switch outcome := b.outcome(); {
	case outcome == outcomeConfirmed && (v.confirmed == nil || b.end < v.confirmed.end):
		v.confirmed = b
	case outcome.ended() && (v.over == nil || b.end < v.over.end):
		v.over = b
	}
}

// outcome is what an answer says about a reservation.
type outcome string

const (
	outcomeNone      outcome = ""
	outcomeReserved  outcome = "reserved"
	outcomeConfirmed outcome = "confirmed"
	outcomeReleased  outcome = "released"
	outcomeExpired   outcome = "expired"
	outcomeEnded     outcome = "ended" // released or expired
)

func (o outcome) ended() bool {
	return o == outcomeReleased || o == outcomeExpired || o == outcomeEnded
}

// agrees reports whether two answers can be true of one reservation, b after a.
func (o outcome) agrees(after outcome) bool {
	switch {
	case o == outcomeNone || after == outcomeNone || o == outcomeReserved || o == after:
		return true
	case o == outcomeEnded || after == outcomeEnded:
		return o.ended() && after.ended()
	}
	return false
}

func (b *booking) outcome() outcome {
	switch {
	case b.code == "reservation_confirmed":
		return outcomeConfirmed
	case b.code == "reservation_released":
		return outcomeReleased
	case b.code == "reservation_expired":
		return outcomeExpired
	case !b.answered():
		return outcomeNone
	case b.kind == record.Confirm:
		return outcomeConfirmed
	case b.kind == record.Release:
		return outcomeEnded
	case b.kind == record.Find:
		return outcome(b.state)
	}
	return outcomeNone // a repeated request gets its reservation, whatever became of it
}

// confirmed returns the numbers that were issued by confirmations.
func (h *evidence) confirmed() (all []issue) {
	for _, v := range h.reservations() {
		if v.confirmed == nil || v.first == nil {
			continue
		}
		said := *v.first
		all = append(all, issue{call: &said.call, start: v.start, end: max(v.end, v.confirmed.end), firstEnding: &v.confirmed.call})
	}
	return all
}

// early is how much earlier than a reservation expires it may be reclaimed, because clocks are
// read at different moments.
const early = 250 * time.Millisecond

// checkReservations requires that of confirmation, release and expiry exactly one happens to each
// reservation (G3), that its numbers stay the same, and that it does not expire before its time.
func (h *evidence) checkReservations(r *Report, all map[string]*reservation) {
	for _, v := range all {
		for n, b := range v.all {
			h.checkBooking(r, v, b)
			h.checkOwner(r, v, b)
			for _, before := range v.all[:n] {
				if h.storeLost(before.start, b.end) {
					continue
				}
				first, second := before, b
				if b.end < before.end {
					first, second = b, before
				}
				in, out := first.outcome(), second.outcome()
				sequential := first.end < second.start
				if in.agrees(out) || !sequential && out.agrees(in) {
					continue
				}
				h.fail(r, RuleReservation, b.bizType.Name, 1, b.end, fmt.Sprintf("the reservation %s is %s and later %s", v.id, in, out), &first.call, &second.call)
			}
		}
	}
}

// checkOwner requires that who made a reservation ends it, with any of its secrets, and no stranger
// does.
func (h *evidence) checkOwner(r *Report, v *reservation, b *booking) {
	if v.first == nil || v.first.kind != record.Reserve || b.kind != record.Confirm && b.kind != record.Release {
		return
	}
	stranger := b.caller != v.first.caller && b.caller != "" // the usual caller is an administrator
	if stranger && b.answered() || !stranger && b.code == "forbidden" {
		text := fmt.Sprintf("the reservation %s of %q, and %q asks", v.id, v.first.caller, b.caller)
		h.fail(r, RuleReservation, b.bizType.Name, 1, b.end, text, &v.first.call, &b.call)
	}
}

// checkBooking checks one answer about a reservation.
func (h *evidence) checkBooking(r *Report, v *reservation, b *booking) {
	outcome := b.outcome()
	switch {
	case b.code == unknownReservation && !h.storeLost(0, b.end):
		h.fail(r, RuleReservation, b.bizType.Name, 1, b.end, fmt.Sprintf("the reservation %s is unknown", v.id), &b.call)
	case len(b.runs) > 0 && v.first != nil && (!slices.Equal(b.runs, v.first.runs) || b.period != v.first.period):
		h.fail(r, RuleReservation, b.bizType.Name, 1, b.end, fmt.Sprintf("the reservation %s has two sets of numbers", v.id), &v.first.call, &b.call)
	case b.expires > 0 && v.expires > 0 && b.expires != v.expires && !h.storeLost(0, b.end):
		text := fmt.Sprintf("the end of the reservation %s is told %s s later than before", v.id, seconds(b.expires-v.expires))
		h.fail(r, RuleReservation, b.bizType.Name, 1, b.end, text, &b.call)
	case outcome == outcomeReleased && v.released > b.end:
		h.fail(r, RuleReservation, b.bizType.Name, 1, b.end, fmt.Sprintf("the reservation %s is released, and nobody asked for it", v.id), &b.call)
	case outcome == outcomeExpired && v.expires > 0 && b.end+int64(early) < v.ends:
		text := fmt.Sprintf("the reservation %s has expired %s s before its time", v.id, seconds(v.ends-b.end))
		h.fail(r, RuleReservation, b.bizType.Name, 1, b.end, text, &b.call)
	}
}

// storeLost reports whether the store may have lost something within a span: an older copy was
// restored, or a failover lost writes.
func (h *evidence) storeLost(from, to int64) bool {
	return slices.ContainsFunc(h.faults, func(f record.Fault) bool {
		return (f.StoreBack || f.StoreLost) && f.Begin <= to && f.End+int64(recovers) >= from
	})
}

// recovers is how long after such a fault its consequences may show.
const recovers = 5 * time.Second
