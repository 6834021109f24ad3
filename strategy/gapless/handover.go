package gapless

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// handOver makes the counter of each ledger of a biz type continue above the ledger, for a strategy
// that takes numbers from counters.
func handOver(ctx context.Context, env strategy.Env, bizType string) error {
	docs := documentsOf(env.Store)
	return docs.each(ctx, bizType, func(doc persist.Document) error {
		return unavailable(docs.handOver(ctx, doc, env.Now()))
	})
}

// handOver makes a counter continue above a ledger. If a failover may have lost the end of the
// ledger, it returns an error, unless an operator has raised the counter since.
func (d *documents) handOver(ctx context.Context, doc persist.Document, now time.Time) error {
	state, err := ledger.Decode(&doc)
	if err != nil {
		return err
	}
	name := doc.Key
	c, err := d.counters.Read(ctx, name)
	fence, has := state.Fence, err == nil && !c.FailedOver && c.Max >= state.Last
	switch {
	case has:
		fence = "" // the counter has all of the ledger, which nodes may still be writing
	case err != nil && !errors.Is(err, persist.ErrNotFound):
		return err
	}
	switch err := d.touch(ctx, doc, fence); {
	case errors.Is(err, persist.ErrConflict), errors.Is(err, persist.ErrNotFound): // another node was first
		if doc, err = d.Read(ctx, doc.Kind, doc.Key); err != nil {
			return err
		}
		return d.handOver(ctx, doc, now)
	case err != nil:
		return err
	}
	if err != nil {
		err = d.counters.Create(ctx, persist.Counter{BizTag: name, Max: state.Last, Step: 1, Timestamp: now.UnixMilli()})
		if errors.Is(err, persist.ErrExists) { // another node was first
			return d.handOver(ctx, doc, now)
		}
		return err
	}
	if has && c.Max > state.Last {
		return nil
	}
	// What a cursor still has of an earlier time is below the ledger, so it is retired.
	_, err = d.counters.Allocate(ctx, persist.Request{BizTag: name, Floor: state.Last})
	return err
}

// touch writes a ledger as it is, whose last writer knew a fence. So a node that was held up while
// it wrote the ledger does not write it any more.
func (d *documents) touch(ctx context.Context, doc persist.Document, fence string) error {
	doc.Revision++
	if d.fenced == nil {
		return d.Update(ctx, doc)
	}
	present, err := d.fenced.Fence(ctx)
	if err != nil || fence != "" && fence != present.Current {
		return cmp.Or[error](err, unraised(doc.Key))
	}
	return d.fenced.UpdateFenced(ctx, doc, present.Current)
}

// each calls f with the ledgers of a biz type: its own, those of keys, and those of periods.
func (d *documents) each(ctx context.Context, bizType string, f func(persist.Document) error) error {
	doc, err := d.Read(ctx, persist.LedgerKind, bizType)
	switch {
	case err == nil:
		if err := f(doc); err != nil {
			return err
		}
	case !errors.Is(err, persist.ErrNotFound):
		return unavailable(err)
	}
	for _, prefix := range []string{bizType + "/", bizType + "@"} {
		for doc, err := range persist.DocumentsUnder(ctx, d, persist.LedgerKind, prefix) {
			if err != nil {
				return unavailable(err)
			}
			if err := f(doc); err != nil {
				return err
			}
		}
	}
	return nil
}
