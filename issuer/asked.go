package issuer

import (
	"context"
	"time"

	"github.com/seqd/seqd"
)

// asked is what a caller asked for. Plugins may change the call, but not that.
type asked struct {
	count     int
	want      seqd.Want
	key, once string
	ttl       time.Duration
}

// askedBy returns what the caller of a call asked for.
func askedBy(call *seqd.Call) asked {
	return asked{call.Count, call.Want, call.Key, call.Once, call.TTL}
}

// restore takes back what plugins made of a call.
func restore(call *seqd.Call, bizType string, a asked) {
	call.BizType, call.Count, call.Want, call.Key, call.Once, call.TTL = bizType, a.count, a.want, a.key, a.once, a.ttl
}

// clearAnswer removes the answer of the previous request from a call.
func clearAnswer(call *seqd.Call) {
	call.Sequence.Reset()
	call.Limit, call.Replayed = seqd.Limit{}, false
	if call.Reservation.ID != "" {
		call.Reservation = seqd.Reservation{}
	}
}

// needsLedger reports whether only a [Ledger] can carry out a call.
func needsLedger(call *seqd.Call) bool { return call.Want == seqd.ReservedNumbers || call.Once != "" }

// orderOf returns what a Ledger is to hand out.
func orderOf(call *seqd.Call) seqd.Order {
	return seqd.Order{Count: call.Count, Reserve: call.Want == seqd.ReservedNumbers, TTL: call.TTL, Once: call.Once, NoAnswer: call.NoAnswer, Caller: call.Caller}
}

// recall adds the numbers that an order was given before the biz type got its present shape, and
// sets call.Replayed if there are any.
func (i *instance) recall(ctx context.Context, o seqd.Order, call *seqd.Call) (err error) {
	if o.Once == "" {
		return nil
	}
	if !call.AnswerKept && !i.hasAllAnswers() {
		return &seqd.Error{Code: seqd.CodeStarting, Detail: "the biz type is being changed", RetryAfter: time.Second}
	}
	if i.recaller == nil || !i.reshaped() {
		return nil
	}
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	call.Reservation, call.Replayed, err = i.recaller(ctx, o, &call.Sequence)
	if call.Replayed {
		call.AnswerKept = false // it stays where it is: there is known what becomes of its numbers
	}
	if err == nil && !i.shows(&call.Sequence) {
		err = seqd.Errorf(seqd.CodeConflict, "this Idempotency-Key was given numbers from %d on%s before the reset of %s was changed, and what they would look like now may be the ID of another number",
			call.Sequence.First(), inPeriod(call.Sequence.Period()), i.name)
	}
	return err
}

func inPeriod(p seqd.Period) string {
	if p == 0 {
		return ""
	}
	return " of " + p.String()
}

// shows reports whether numbers may be shown: they were handed out under the present reset.
// Otherwise they may look like numbers of a present period, which somebody else has.
func (i *instance) shows(numbers *seqd.Sequence) bool {
	return numbers.Len() == 0 || i.reset.Fits(numbers.Period())
}

// reshaped reports whether the biz type lately had another shape, so that answers may be kept where
// that kept them. It is known once the instance is ready.
func (i *instance) reshaped() bool {
	c, ok := i.claim.(seqd.Reshaped)
	return ok && c.Reshaped()
}

// hasAllAnswers reports whether an answer to a repeated request is nowhere but with the strategy.
func (i *instance) hasAllAnswers() bool { return i.keepsAnswers() && i.ready.Load() && !i.reshaped() }

// handOut makes the numbers of an order. takes has allowed it.
func handOut(ctx context.Context, i *instance, o seqd.Order, call *seqd.Call) (err error) {
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	call.Reservation, call.Replayed, err = i.strategy.(seqd.Ledger).HandOut(ctx, o, &call.Sequence)
	return err
}

// takes returns why the definition of a biz type does not allow a call.
func (i *instance) takes(call *seqd.Call) error {
	if i.keyed || call.Key != "" {
		if err := i.checkKey(call.Key); err != nil {
			return err
		}
	}
	return i.can(call.Want, call.Count)
}

func (i *instance) keepsAnswers() bool {
	_, ok := i.strategy.(seqd.Ledger)
	return ok
}

// made is the numbers of a call that may still fail.
type made struct {
	count       int
	ledger      seqd.Ledger    // nil if the strategy is none
	numbers     *seqd.Sequence // a copy for the ledger
	reservation string         // what they are reserved by
	kept        bool           // a repeated request gets the same numbers
}

// made returns the numbers that a strategy has made for a call.
func (i *instance) made(call *seqd.Call) made {
	m := i.madeOf(&call.Sequence)
	m.reservation, m.kept = call.Reservation.ID, call.Replayed || call.Once != ""
	return m
}

func (i *instance) madeOf(numbers *seqd.Sequence) made {
	m := made{count: numbers.Len()}
	if m.ledger, _ = i.strategy.(seqd.Ledger); m.ledger != nil {
		m.numbers = new(seqd.Sequence)
		m.numbers.CopyFrom(numbers)
	}
	return m
}

// abandoned gives numbers back whose call failed after the strategy made them, or, if the strategy
// accounts for no numbers, reports that they are skipped.
func (is *Issuer) abandoned(i *instance, m made, why error) {
	var err error
	defer func() {
		if err != nil {
			is.log.Error("numbers of a failed request could not be given back", "bizType", i.name, "error", err)
		}
	}()
	defer recoverFrom(seqd.CodeInternal, "strategy", i.kind, &err)
	switch {
	case m.ledger == nil:
		is.observer.Event(seqd.Event{BizType: i.name, Kind: seqd.EventAbandoned, Numbers: int64(m.count), Err: why})
	case m.kept: // a repeated request gets them
	case m.reservation != "":
		// not the caller's context: it may have ended
		ctx, cancel := context.WithTimeout(context.Background(), is.patience)
		defer cancel()
		err = m.ledger.Release(ctx, seqd.Settlement{ID: m.reservation, Admin: true})
	default:
		m.ledger.Return(m.numbers, why)
	}
}

// checkKey returns why a call cannot be for this key.
func (i *instance) checkKey(key string) error {
	switch {
	case i.keyed && key == "":
		return seqd.Errorf(seqd.CodeInvalidKey, "%s counts for each key on its own: name one with key", i.name)
	case !i.keyed && key != "":
		return seqd.Errorf(seqd.CodeInvalidKey, "%s has one counter for all callers: leave the key out", i.name)
	case key == "":
		return nil
	}
	return seqd.CheckKey(key)
}
