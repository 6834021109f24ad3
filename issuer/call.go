package issuer

import (
	"context"
	"time"

	"github.com/seqd/seqd"
)

// request is what a caller asked for. Plugins may change the call, but not that.
type request struct {
	count     int
	want      seqd.Want
	key, once string
	ttl       time.Duration
}

// requestOf returns what the caller of a call asked for.
func requestOf(call *seqd.Call) request {
	return request{call.Count, call.Want, call.Key, call.Once, call.TTL}
}

// progress is one call on its way through an instance.
type progress struct {
	call    *seqd.Call
	asked   request // if there are plugins
	entered int     // plugins whose Before returned nil
	waits   waits
	paused  time.Time // since when the call waits for others; zero while plugins treat it
}

// before calls Before of the plugins.
func (p *progress) before(ctx context.Context, i *instance) error {
	if p.entered = 0; len(i.chain) > 0 {
		p.asked = requestOf(p.call)
	}
	if err := i.checkAllowed(p.call); err != nil {
		return err
	}
	for _, plug := range i.chain {
		if err := p.waits.before(ctx, plug, p.call); err != nil {
			return err
		}
		p.entered++
	}
	return nil
}

// restore takes back what plugins made of the call.
func (p *progress) restore(i *instance) {
	if len(i.chain) == 0 {
		return
	}
	call, a := p.call, &p.asked
	call.BizType, call.Count, call.Want, call.Key, call.Once, call.TTL = i.name, a.count, a.want, a.key, a.once, a.ttl
}

// pause begins a time in which other calls are treated, and resume ends it. It does not count as
// waiting for plugins.
func (p *progress) pause() {
	if !p.waits.deadline.IsZero() {
		p.paused = time.Now()
	}
}

// resume is described at [progress.pause].
func (p *progress) resume() {
	if !p.paused.IsZero() {
		p.waits.deadline = p.waits.deadline.Add(time.Since(p.paused))
		p.paused = time.Time{}
	}
}

// clearAnswer removes the answer of the previous request from a call.
func clearAnswer(call *seqd.Call) {
	call.Sequence.Reset()
	call.Limit, call.Replayed = seqd.Limit{}, false
	if call.Reservation.ID != "" {
		call.Reservation = seqd.Reservation{}
	}
}

// needsLedger reports whether only a [seqd.Ledger] can carry out a call.
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
	return i.claim != nil && i.claim.Reshaped()
}

// hasAllAnswers reports whether an answer to a repeated request is nowhere but with the strategy.
func (i *instance) hasAllAnswers() bool { return i.keepsAnswers() && i.ready.Load() && !i.reshaped() }

// checkAllowed returns why the definition of a biz type does not allow a call.
func (i *instance) checkAllowed(call *seqd.Call) error {
	if i.keyed || call.Key != "" {
		if err := i.checkKey(call.Key); err != nil {
			return err
		}
	}
	if call.Display != "" {
		if err := i.checkDisplay(call.Display); err != nil {
			return err
		}
	}
	return i.checkWant(call.Want, call.Count)
}

func (i *instance) keepsAnswers() bool { return i.can.ledger != nil }

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

// checkCall returns why a call cannot be issued by any biz type.
func checkCall(call *seqd.Call) *seqd.Error {
	least := 1
	switch {
	case call.Want > seqd.ReservedNumbers:
		return seqd.Errorf(seqd.CodeInvalidRequest, "there is no kind %d of numbers", call.Want)
	case call.Want == seqd.OneRange:
		least = 0
	}
	if call.Count < least || call.Count > seqd.MaxCount {
		return seqd.Errorf(seqd.CodeInvalidCount, "count is %d and must be from %d to %d", call.Count, least, seqd.MaxCount)
	}
	return nil
}

// checkWant returns why the definition of a biz type does not allow what a call wants.
func (i *instance) checkWant(want seqd.Want, count int) error {
	if count > i.most && want != seqd.OneRange {
		_, why := ask[seqd.CountLimiter](i.strategy).MostInCall()
		return seqd.Errorf(seqd.CodeInvalidCount, "%d numbers are more than the %d that one call of %s gets: %s", count, i.most, i.name, why)
	}
	switch want {
	case seqd.ReservedNumbers:
		if i.can.ledger == nil {
			return seqd.Errorf(seqd.CodeInvalidRequest, "the strategy %s of %s reserves no numbers: only gapless does", i.kind, i.name)
		}
	case seqd.Consecutive:
		if i.can.consecutive == nil && count > 1 {
			return seqd.Errorf(seqd.CodeInvalidRequest, "the strategy %s of %s cannot make consecutive numbers; ask for one number at a time", i.kind, i.name)
		}
		if i.increment > 1 && count > 1 {
			return seqd.Errorf(seqd.CodeInvalidRequest, "the numbers of %s are %d apart, and none are consecutive; ask for one number at a time", i.name, i.increment)
		}
	case seqd.OneRange:
		if i.can.ranges == nil {
			return seqd.Errorf(seqd.CodeInvalidRequest, "the strategy %s of %s hands out no ranges", i.kind, i.name)
		}
		for _, plug := range i.chain {
			if !plug.Ranges {
				return seqd.Errorf(seqd.CodeInvalidRequest,
					"%s hands out no ranges: the caller issues their numbers later, without the plugin %s", i.name, plug.Name)
			}
		}
	}
	return nil
}
