package gapless

import (
	"context"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// Generate issues n numbers.
func (s *Strategy) Generate(ctx context.Context, n int, seq *seqd.Sequence) error {
	_, _, err := s.HandOut(ctx, seqd.Order{Count: n, Caller: seqd.Caller{Owner: seq.Asker()}}, seq)
	return err
}

// HandOut implements [seqd.Ledger].
func (s *Strategy) HandOut(ctx context.Context, o seqd.Order, seq *seqd.Sequence) (r seqd.Reservation, replayed bool, err error) {
	name := counters.Name{Key: seq.Key()}
	if name.Period, err = s.period(0); err != nil {
		return r, false, err
	}
	if err := s.mayHandOut(o); err != nil {
		return r, false, err
	}
	op := orderOp(o)
	var res ledger.Result
	counter := name
	if name.Period != 0 && o.Once != "" {
		counter, res, err = s.recall(ctx, name, op)
	}
	if err == nil && len(res.Runs) == 0 {
		counter = name
		res, err = s.handOut(ctx, name, op)
	}
	if err != nil {
		return r, false, err
	}
	r, replayed = handed(counter, res, seq)
	return r, replayed, nil
}

// mayHandOut returns why an order is refused: its reservation is too long, or its owner has left
// too many records and the order may leave another one, of how a reservation ended or of void
// numbers. An order that may be repeated is refused later, unless it was carried out before: see
// [seqd.Order].
func (s *Strategy) mayHandOut(o seqd.Order) error {
	if o.Reserve {
		if err := s.settings.checkReserve(o); err != nil {
			return err
		}
	}
	leaves := o.Reserve || s.settings.OnRelease == Void
	if !leaves || o.Once != "" || s.Env.Quota == nil {
		return nil
	}
	return s.Env.Quota.Admit(o.Caller.OwnerID())
}

// orderOp returns the operation that carries out an order.
func orderOp(o seqd.Order) ledger.Op {
	op := ledger.Op{Kind: ledger.Issue, Count: int64(o.Count), Once: o.Once, NoAnswer: o.NoAnswer, Caller: o.Caller.OwnerID()}
	if o.Reserve {
		op.Kind, op.TTL, op.ID = ledger.Reserve, o.TTL.Milliseconds(), newID()
	}
	return op
}

// handOut carries out an operation that may be the first one of its ledger.
func (s *Strategy) handOut(ctx context.Context, name counters.Name, op ledger.Op) (ledger.Result, error) {
	e, err := s.Acquire(ctx, name, op.Caller)
	if err != nil {
		return ledger.Result{}, err
	}
	defer e.Release()
	if e.Counter().isNew() {
		leave, err := e.Counter().admit(ctx, op.Caller)
		if err != nil {
			return ledger.Result{}, err
		}
		defer leave()
	}
	if err := e.Counter().begin(ctx); err != nil {
		return ledger.Result{}, err
	}
	return e.Counter().do(ctx, op)
}

// begin makes sure that there is a ledger before numbers are written in it. A write that was held
// up while the biz type got another strategy creates an empty one then: one that exists cannot be
// written any more ([documents.handOver]). What it creates is read, because another strategy may
// have issued numbers before ([counter.execute]).
func (c *counter) begin(ctx context.Context) error {
	if !c.unborn() || sabotage.Off(sabotage.EmptyFirst) {
		return nil
	}
	if _, err := c.do(ctx, ledger.Op{Kind: ledger.Begin}); err != nil {
		return err
	}
	_, err := c.do(ctx, ledger.Op{Kind: ledger.Find, ID: newID()})
	if seqd.CodeOf(err) == seqd.CodeUnknownReservation {
		err = nil
	}
	return err
}

// unborn reports whether there was no ledger when it was read, and nothing stands in the way.
func (c *counter) unborn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unbornLocked()
}

func (c *counter) unbornLocked() bool {
	return c.machine.Seen().Revision == 0 && c.machine.Refusal() == nil
}

// handed adds what an operation handed out to seq.
func handed(name counters.Name, res ledger.Result, seq *seqd.Sequence) (r seqd.Reservation, replayed bool) {
	add(seq, name, res)
	if res.ID != "" {
		r = reservation(name, res)
	}
	return r, res.Replayed
}

// add adds the numbers of a result to seq.
func add(seq *seqd.Sequence, name counters.Name, res ledger.Result) {
	seq.In(name.Period)
	seq.MadeAt(time.UnixMilli(res.Made))
	seq.Stamp(res.Since.Era, res.Since.Revision)
	for _, r := range res.Runs {
		seq.Add(r.From, int(r.Len()), 1)
	}
}

// reservation returns the reservation of a result.
func reservation(name counters.Name, res ledger.Result) seqd.Reservation {
	return seqd.Reservation{
		ID: fullID(res.ID, name), Key: name.Key, State: states[res.End], Owner: res.Caller, ExpiresAt: time.UnixMilli(res.Due),
	}
}

var states = map[ledger.End]seqd.ReservationState{
	ledger.Open: seqd.Reserved, ledger.Confirmed: seqd.Confirmed, ledger.Ungiven: seqd.Released, ledger.Expired: seqd.Expired,
}

// Return implements [seqd.Ledger].
func (s *Strategy) Return(numbers *seqd.Sequence, why error) {
	name := counters.Name{Key: numbers.Key(), Period: numbers.Period()}
	op := ledger.Op{Kind: ledger.Return, Caller: numbers.Asker()}
	op.Since.Era, op.Since.Revision = numbers.Stamped()
	for _, r := range numbers.Runs() {
		op.Runs = append(op.Runs, ledger.Run{From: r.First, To: r.First + int64(r.Count) - 1})
	}
	s.Env.Log.Debug("numbers of a failed request are released", "bizType", s.BizType.Name, "numbers", numbers.Len(), "reason", why)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
		defer cancel()
		_, err := s.do(ctx, name, op)
		if seqd.CodeOf(err) == seqd.CodeStopping {
			err = s.doAlone(ctx, name, op)
		}
		if err != nil {
			s.Env.Log.Error("numbers that nobody got are issued until the store is there again, or stay so", "bizType", s.BizType.Name, "counter", name.Counter(s.BizType.Name), "numbers", op.Runs, "error", err)
		}
	}()
}
