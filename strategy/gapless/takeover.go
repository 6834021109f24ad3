package gapless

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless/ledger"
	"github.com/seqd/seqd/strategy/live"
)

// A biz type whose strategy was forced to be gapless continues above the numbers of the previous
// one. A new ledger begins above the counter of its name (see [ledger.Policy]). Ledgers that exist,
// from an earlier time as gapless, are raised here.

// issuedElsewhere is why numbers are void that another strategy may have issued.
const issuedElsewhere = "issued or skipped by another strategy"

// takeOver raises the ledgers of the biz type above what another strategy has given under their
// names since.
func (s *Strategy) takeOver(ctx context.Context) error {
	return s.each(ctx, s.name, func(doc persist.Document) error { return s.raise(ctx, doc) })
}

// raise raises one ledger.
func (s *Strategy) raise(ctx context.Context, doc persist.Document) error {
	name, err := parseName(s.name, doc.Key)
	if err != nil {
		return nil // another setting of reset or keyed: this strategy does not use it
	}
	state, err := ledger.Decode(&doc)
	if err != nil {
		return unavailable(err)
	}
	floor, err := s.floor(ctx, doc.Key)
	if errors.Is(err, persist.ErrFailedOver) {
		return s.raisedSince(ctx, doc.Key, state)
	}
	if err != nil {
		return s.reach.noted(s, err)
	}
	if state.Last >= floor {
		return nil
	}
	op := ledger.Op{Kind: ledger.Raise, To: floor, Reason: issuedElsewhere, Fence: state.Fence}
	_, err = s.do(ctx, name, op)
	return err
}

// raisedSince returns an error unless an operator has raised the ledger since a failover, which may
// have lost numbers that another strategy gave.
func (s *Strategy) raisedSince(ctx context.Context, name string, state *ledger.State) error {
	present, err := s.fenced.Fence(ctx)
	switch {
	case err != nil:
		return s.reach.noted(s, err)
	case state.Fence != present.Current:
		s.fence.forget() // the operator may raise the ledger after another failover
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

// parseName reads the name of a counter of a biz type.
func parseName(bizType, counter string) (name live.Name, err error) {
	rest := strings.TrimPrefix(counter, bizType)
	before, digits, periodic := strings.Cut(rest, "@")
	if periodic {
		name.Period, _ = parsePeriod(digits) // what is none makes another name
	}
	name.Key = strings.TrimPrefix(before, "/")
	if name.Counter(bizType) != counter {
		return name, errors.New("not the name of a counter of " + bizType)
	}
	return name, nil
}
