package gapless

import (
	"errors"
	"slices"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

var endOf = map[seqd.Code]ledger.End{
	seqd.CodeReservationConfirmed: ledger.Confirmed, seqd.CodeReservationReleased: ledger.Ungiven, seqd.CodeReservationExpired: ledger.Expired,
}

// tell checks the answer to a caller.
func (c *checker) tell(r *request) {
	c.tolds++
	r.node.say("answer to %s: %v %v", r, r.Result.Runs, r.Err)
	if r.Err != nil {
		c.refused(r)
		return
	}
	c.w.served[r.node] = true
	c.w.count("answered: " + kindNames[r.Op.Kind])
	switch r.Op.Kind {
	case ledger.Issue:
		c.toldIssue(r)
	case ledger.Reserve:
		c.toldReserve(r)
	case ledger.Find:
		c.end(r.Op.ID, r.Result.End)
	case ledger.Confirm:
		c.toldConfirm(r)
	case ledger.Release:
		if how := r.Result.End; how != ledger.Ungiven && how != ledger.Expired {
			c.fail("G3: the release of %s was answered with %q", short(r.Op.ID), how)
		} else if how == ledger.Ungiven {
			c.end(r.Op.ID, how)
		}
		c.allowed(r)
	case ledger.Void:
		if n := r.Op.Number; c.lineage == 0 && (n >= int64(len(c.cells)) || c.cells[n].state != void) {
			c.fail("G1: %d is said to be void", n)
		}
	}
}

var kindNames = map[ledger.Kind]string{
	ledger.Issue: "issue", ledger.Reserve: "reserve", ledger.Find: "find", ledger.Confirm: "confirm", ledger.Release: "release", ledger.Void: "void",
}

func (c *checker) allowed(r *request) {
	if b := c.w.bookings[r.Op.ID]; b != nil && !r.Op.Admin && b.caller != r.Op.Caller {
		c.fail("forbidden: %s settled what %s reserved", r.Op.Caller, b.caller)
	}
}

// refused checks a refusal.
func (c *checker) refused(r *request) {
	e, is := errors.AsType[*seqd.Error](r.Err)
	if !is {
		c.fail("error: %v", r.Err)
		return
	}
	c.w.count("refused: " + string(e.Code))
	id := r.Op.ID
	if r.key != nil {
		id = r.key.id // "" if nobody was told
	}
	if how, ends := endOf[e.Code]; ends {
		c.end(id, how)
	}
	b := c.w.bookings[id]
	switch e.Code {
	case seqd.CodeUnknownReservation:
		if b != nil && b.told && b.lineage == c.lineage && !c.w.skewed && (b.outcome == ledger.Open || c.w.now-b.outcomeTime < day-margin) && !c.w.out[keepsAnswers] {
			c.fail("forgotten: %s", short(b.id))
		}
		if b != nil && b.told && b.lineage == c.lineage && c.w.out[keepsAnswers] {
			c.fail("forgotten: %s", short(b.id))
		}
	case seqd.CodeInvalidID:
		if n := r.Op.Number; n >= r.first && n <= r.last && r.lineage == c.lineage {
			c.fail("refused: %d was handed out before: %v", n, r.Err)
		}
	case seqd.CodeInternal, seqd.CodeIdempotencyKeyReused, seqd.CodeInvalidCount:
		c.fail("refused: %v", r.Err)
	case seqd.CodeStoreFailedOver:
		if c.lineage == 0 && c.w.fences == 0 {
			c.fail("refused: nothing was lost: %v", r.Err)
		}
	}
}

// toldIssue checks numbers that a caller was told as issued.
func (c *checker) toldIssue(r *request) {
	runs := r.Result.Runs
	if n := ledger.Count(runs); n != r.Op.Count {
		c.fail("count: %d were asked for and %d came", r.Op.Count, n)
	}
	c.once(r)
	c.claim(r, r.claim, runs)
}

// has reports whether the store knows of numbers that were handed out.
func (c *checker) has(runs []ledger.Run) (all bool) {
	all = true
	each(runs, func(number int64) {
		all = all && number < int64(len(c.cells)) && (c.cells[number].state == issued || c.cells[number].state == reserved)
	})
	return all
}

// once checks that a key has one answer.
func (c *checker) once(r *request) {
	k := r.key
	if k == nil {
		return
	}
	same := slices.Equal(k.runs, r.Result.Runs) && k.id == r.Result.ID
	mayDiffer := k.lineage != c.lineage || c.w.now > k.first+c.w.keep // the answer may be gone
	switch {
	case !k.told:
	case same:
		c.w.count("replayed")
	case mayDiffer:
		k.claim = c.w.newClaim()
	default:
		c.fail("once: %s got %v %s, and now %v %s", k.name, k.runs, short(k.id), r.Result.Runs, short(r.Result.ID))
	}
	r.claim = k.claim
	if c.w.now > k.first+c.w.keep {
		c.lost += k.count // it may have been carried out twice
	}
	if !k.told || !same {
		k.told, k.runs, k.id, k.lineage = true, slices.Clone(r.Result.Runs), r.Result.ID, r.lineage
		if c.lineage > 0 && !c.has(k.runs) {
			k.lineage = -1 // a node remembers it, and the store does not
		}
	}
}

// claim checks that numbers are nobody else's, and in the store.
func (c *checker) claim(r *request, claim int32, runs []ledger.Run) {
	each(runs, func(number int64) {
		c.told = grown(c.told, number)
		before := c.told[number]
		if before != 0 && before != claim {
			c.fail("uniqueness: %d was told to two", number)
		}
		if c.told[number] == 0 {
			c.told[number] = claim
			c.toldIssued++
		}
		c.heard = max(c.heard, number)
		if c.mayVoid(number) {
			return // perhaps by the same write
		}
		if number >= int64(len(c.durable)) || c.durable[number] == 0 {
			c.fail("G1: %d was told and never in the store", number)
			return
		}
		// until an operator has raised the counter, what the store lost may be repeated to who
		// knows it
		lost := c.lineage > 0 && !r.raised && (r.Result.Replayed || before == claim || r.Op.Kind == ledger.Confirm)
		if c.lineage == r.lineage && !lost && (number >= int64(len(c.cells)) || c.cells[number].state != issued) {
			c.fail("G1: %d was told as issued and is not", number)
		}
	})
}

// toldReserve checks what a caller was told about a reservation.
func (c *checker) toldReserve(r *request) {
	id := r.Result.ID
	b := c.w.bookings[id]
	if b == nil || len(r.Result.Runs) == 0 || ledger.Count(r.Result.Runs) != r.Op.Count {
		c.fail("count: %d were to be reserved, and %v came as %s", r.Op.Count, r.Result.Runs, short(id))
		return
	}
	c.once(r)
	if had := c.booked[id]; c.lineage == r.lineage && (had != nil || c.lineage == 0) && !slices.Equal(had, c.withoutVoid(r.Result.Runs, had)) {
		c.fail("G1: %s has %v and not %v", short(id), c.booked[id], r.Result.Runs)
	}
	each(r.Result.Runs, func(number int64) { c.heard = max(c.heard, number) })
	if !b.told {
		b.told, b.runs, b.due, b.lineage = true, slices.Clone(r.Result.Runs), r.Result.Due, r.lineage
		c.w.told = append(c.w.told, b)
	}
}

// toldConfirm checks numbers that were issued by a confirmation.
func (c *checker) toldConfirm(r *request) {
	b := c.w.bookings[r.Op.ID]
	c.allowed(r)
	if len(r.Result.Runs) == 0 || b.told && !slices.Equal(c.withoutVoid(b.runs, r.Result.Runs), r.Result.Runs) {
		c.fail("count: the confirmation of %s was answered with %v instead of %v", short(b.id), r.Result.Runs, b.runs)
	}
	was := b.outcome
	b.confirmed = true
	c.end(r.Op.ID, ledger.Confirmed)
	c.claim(r, b.claim, r.Result.Runs)
	latest := max(b.due, r.awake+c.ttl(b))
	if was == ledger.Open && !c.w.skewed && b.told && b.write > r.write && b.composed >= r.began && c.lineage == 0 && r.began > latest+jitter {
		c.fail("late: %s was confirmed %d ms after its time", short(b.id), r.began-latest)
	}
}

// withoutVoid returns runs without the numbers that may be void and are not in the other ones.
func (c *checker) withoutVoid(runs, others []ledger.Run) (left []ledger.Run) {
	there := map[int64]bool{}
	each(others, func(number int64) { there[number] = true })
	each(runs, func(number int64) {
		if there[number] || !c.mayVoid(number) {
			if n := len(left); n > 0 && left[n-1].To == number-1 {
				left[n-1].To = number
			} else {
				left = append(left, ledger.Run{From: number, To: number})
			}
		}
	})
	return left
}

func (c *checker) ttl(b *booking) int64 { return b.due - b.made }
