package gapless

import (
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// A biz type whose strategy was forced to be gapless continues above the numbers of the previous
// one. A new ledger begins above the counter of its name (see [ledger.Policy]). Ledgers that exist,
// from an earlier time as gapless, are raised here.

// issuedElsewhere is why numbers are void that another strategy may have issued.
const issuedElsewhere = "issued or skipped by another strategy"

// takeOver raises the ledgers of the biz type above what another strategy has given under their
// names since.
func (s *Strategy) takeOver(ctx context.Context) error {
	var open reopening
	err := s.each(ctx, s.BizType.Name, func(doc persist.Document) error {
		name, ok := counters.ParseName(s.BizType.Name, doc.Key)
		if !ok {
			return nil // another setting of reset or keyed: this strategy does not use it
		}
		state, err := ledger.Decode(&doc)
		if err != nil {
			return unavailable(err)
		}
		open.note(s, name, state)
		return s.raise(ctx, name, state)
	})
	if err == nil && s.reopen.Load() && !sabotage.Off(sabotage.Reopen) {
		err = open.do(ctx, s)
	}
	return err
}

// raise raises one ledger.
func (s *Strategy) raise(ctx context.Context, name counters.Name, state *ledger.State) error {
	key := name.Counter(s.BizType.Name)
	floor, err := s.floor(ctx, key)
	if errors.Is(err, persist.ErrFailedOver) {
		return s.raisedSince(ctx, key, state)
	}
	if err != nil {
		return s.noted(err)
	}
	if state.Last >= floor {
		return nil
	}
	op := ledger.Op{Kind: ledger.Raise, To: floor, Reason: issuedElsewhere, Fence: state.Fence}
	_, err = s.do(ctx, name, op)
	return err
}

// Reopen implements [strategy.Reopener].
func (s *Strategy) Reopen() { s.reopen.Store(true) }

// reopening is what a look at all ledgers finds of periods that a previous calendar closed.
type reopening struct {
	closed []counters.Name // that have not ended by the present calendar
	ahead  string          // a ledger of a period that has begun in no time zone, "" if there is none
}

// note notes a ledger.
func (r *reopening) note(s *Strategy, name counters.Name, state *ledger.State) {
	now := s.now()
	if state.Closed && now < s.Calendar.Ends(name.Period) {
		r.closed = append(r.closed, name)
	}
	if name.Period > seqd.ResetDaily.Of(time.UnixMilli(now).Add(mostAhead).UTC()) {
		r.ahead = name.Counter(s.BizType.Name)
	}
}

// do opens the periods. A request that was given a number of a later period meanwhile finds it
// ([strategy.Factory].Recall), unless a clock was so far ahead that nobody looks there.
func (r *reopening) do(ctx context.Context, s *Strategy) error {
	if len(r.closed) > 0 && r.ahead != "" {
		s.Env.Log.Warn("a period stays closed to requests with an Idempotency-Key, because a clock was ahead: open it with seqd raise --by 0",
			"bizType", s.BizType.Name, "counter", r.closed[0].Counter(s.BizType.Name), "ahead", r.ahead)
		return nil
	}
	for _, name := range r.closed {
		if _, err := s.do(ctx, name, ledger.Op{Kind: ledger.Reopen}); err != nil {
			return err
		}
	}
	return nil
}

// raisedSince returns an error unless an operator has raised the ledger since a failover, which may
// have lost numbers that another strategy gave.
func (s *Strategy) raisedSince(ctx context.Context, name string, state *ledger.State) error {
	present, err := s.fenced.Fence(ctx)
	switch {
	case err != nil:
		return s.noted(err)
	case state.Fence != present.Current:
		return unraised(name)
	}
	return nil
}

// unraised is why a counter begins nothing after another strategy.
func unraised(name string) *seqd.Error {
	return &seqd.Error{
		Code:       seqd.CodeStoreFailedOver,
		Detail:     "the store failed over and may have lost the highest numbers of " + name + ": an operator has to say with seqd raise how far it had come",
		RetryAfter: time.Minute,
	}
}
