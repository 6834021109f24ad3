package ops

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// RaisedLedger is what [Raise] did with a gapless counter besides.
type RaisedLedger struct {
	// Stood is whether the counter stood still because the store had failed over.
	Stood bool
	// Opened is whether the counter was closed, as that of a period that has ended, although its
	// period has not: the store's clock was ahead for a while.
	Opened bool
	// Void is how many numbers became void, and Open how many are reserved.
	Void, Open int64
}

// text returns the end of a line.
func (r RaisedLedger) text(dry bool) (text string) {
	add := func(is bool, would, did string, args ...any) {
		switch {
		case is && dry:
			text += "; " + fmt.Sprintf(would, args...)
		case is:
			text += "; " + fmt.Sprintf(did, args...)
		}
	}
	add(r.Void > 0, "%d numbers would become void", "%d numbers became void", r.Void)
	add(r.Open > 0, "%d are reserved and could be confirmed, unless they were released", "%d are reserved and can be confirmed, unless they were released", r.Open)
	add(r.Opened, "it would take requests with an Idempotency-Key again", "it takes requests with an Idempotency-Key again")
	add(r.Stood, "it stands still, and would issue again", "it issues again")
	return text
}

const (
	// raiseReason is why numbers are void that an operator raised a gapless counter above, and
	// raiser is who did it.
	raiseReason = "an operator raised the counter after a failover or a restore of the store"
	raiser      = "seqd raise"
	// raiseRounds is how often a change is tried that others come before.
	raiseRounds = 100
)

// raiseLedger raises a gapless counter. Nodes may change it meanwhile, each change compares what it
// follows.
func (f *repair) raiseLedger(ctx context.Context, t target, to func(highest int64) int64) (r Raised, err error) {
	for range raiseRounds {
		r, err = f.raiseLedgerOnce(ctx, t, to, false)
		if !persist.Overtaken(err) {
			return r, err
		}
	}
	return r, fmt.Errorf("%w: the counter changes too often", persist.ErrUnavailable)
}

// raiseLedgerOnce tries it once, or writes nothing.
func (f *repair) raiseLedgerOnce(ctx context.Context, t target, to func(highest int64) int64, dry bool) (r Raised, err error) {
	now, err := f.store.Now(ctx)
	if err != nil {
		return r, err
	}
	fence, err := fenceOf(ctx, f.store)
	if err != nil {
		return r, err
	}
	state, policy, err := f.readLedger(ctx, t, fence.text)
	if err != nil {
		return r, err
	}
	made := state.Revision == 0
	before, voids, closed, stood := state.Last, state.Voids, state.Closed, fence.stops(state)
	op := ledger.Op{Kind: ledger.Raise, To: max(to(state.Last), state.Last), Reason: raiseReason, Caller: raiser, Fence: fence.text}
	if _, err := state.Apply(now.UnixMilli(), &policy, &op, nil); err != nil {
		return r, err
	}
	doc, err := state.Document(t.counter, now.UnixMilli())
	if err == nil && !dry {
		err = writeLedger(ctx, f.store, doc, fence.text)
	}
	r = Raised{Before: before, After: state.Last, Created: made, DryRun: dry, Ledger: &RaisedLedger{
		Stood: stood, Opened: closed && !state.Closed, Void: state.Voids - voids, Open: state.NumReserved(),
	}}
	if made && !dry {
		r.Before = 0
	}
	return r, err
}

// readLedger returns the state of a gapless counter, and what its next change is made with. If the
// store has lost it, the state is that of a new one.
func (f *repair) readLedger(ctx context.Context, t target, fence string) (*ledger.State, ledger.Policy, error) {
	doc, err := f.store.Documents().Read(ctx, persist.LedgerKind, t.counter)
	if err == nil {
		state, err := ledger.Decode(&doc)
		if err != nil {
			return nil, ledger.Policy{}, err
		}
		return state, state.Policy(), nil
	}
	if !errors.Is(err, persist.ErrNotFound) {
		return nil, ledger.Policy{}, err
	}
	first := max(1, seqd.TraitsOf(t.Settings).First)
	policy := ledger.Policy{Start: first}
	switch known, err := f.store.Counters().Read(ctx, t.counter); {
	case err == nil:
		policy.Floor = known.Max // another strategy has issued under this name
	case !errors.Is(err, persist.ErrNotFound):
		return nil, policy, err
	}
	return ledger.Fresh(&policy, persist.NewEpoch(), fence), policy, nil
}

// writeLedger writes a document whose revision follows the one that was read.
func writeLedger(ctx context.Context, store persist.Store, doc persist.Document, fence string) error {
	if fenced, ok := store.(persist.Fenced); ok {
		return persist.PutFenced(ctx, fenced, doc, fence)
	}
	return persist.Put(ctx, store.Documents(), doc)
}

// presentFence is the fence of the server that takes the writes of a store now.
type presentFence struct {
	text string
	// failedOver is whether the store failed over, and nobody has confirmed that.
	failedOver bool
}

// fenceOf returns the present fence, the zero value if the store has none.
func fenceOf(ctx context.Context, store persist.Store) (presentFence, error) {
	fenced, ok := store.(persist.Fenced)
	if !ok {
		return presentFence{}, nil
	}
	f, err := fenced.Fence(ctx)
	return presentFence{f.Current, f.FailedOver()}, err
}

// stops reports whether a ledger stands still until an operator has raised it.
func (f presentFence) stops(s *ledger.State) bool { return f.text != "" && s.Fence != f.text }

// namedLedger is a gapless counter.
type namedLedger struct {
	counter string
	state   *ledger.State
}

// everyLedger yields all gapless counters in byte order of their names, and at last an error if
// there is one.
func everyLedger(ctx context.Context, store persist.Store) iter.Seq2[namedLedger, error] {
	return func(yield func(namedLedger, error) bool) {
		for doc, err := range persist.EveryDocument(ctx, store.Documents(), persist.LedgerKind) {
			l := namedLedger{counter: doc.Key}
			if err == nil {
				l.state, err = ledger.Decode(&doc)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// ledgerNames calls add with the names of all gapless counters, or of those that stand still.
func (f *repair) ledgerNames(ctx context.Context, stopped bool, add func(name string)) error {
	fence, err := fenceOf(ctx, f.store)
	if err != nil {
		return err
	}
	for l, err := range everyLedger(ctx, f.store) {
		if err != nil {
			return err
		}
		if !stopped || fence.stops(l.state) {
			add(l.counter)
		}
	}
	return nil
}
