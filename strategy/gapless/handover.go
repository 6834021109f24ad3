package gapless

import (
	"context"
	"errors"
	"strings"
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
		state, err := ledger.Decode(&doc)
		if err == nil {
			err = docs.raiseCounter(ctx, doc.Key, state.Last, env.Now())
		}
		return unavailable(err)
	})
}

// raiseCounter raises the counter with this name to at least a number.
func (d *documents) raiseCounter(ctx context.Context, name string, to int64, now time.Time) error {
	err := d.counters.Create(ctx, persist.Counter{BizTag: name, Max: to, Step: 1, Timestamp: now.UnixMilli()})
	if !errors.Is(err, persist.ErrExists) {
		return err
	}
	_, err = d.counters.Allocate(ctx, persist.Request{BizTag: name, Floor: to, To: persist.Beside})
	return err
}

// each calls f with the ledgers of a biz type: its own, those of keys, and those of periods.
func (d *documents) each(ctx context.Context, bizType string, f func(persist.Document) error) error {
	doc, err := d.Read(ctx, persist.LedgerKind, bizType)
	if err == nil {
		err = f(doc)
	}
	if err != nil && !errors.Is(err, persist.ErrNotFound) {
		return err
	}
	for _, prefix := range []string{bizType + "/", bizType + "@"} {
		for from, more := prefix, true; more; {
			docs, err := d.List(ctx, persist.LedgerKind, from, keysPage)
			if err != nil {
				return unavailable(err)
			}
			more = len(docs) == keysPage
			for _, doc := range docs {
				if from = doc.Key; !strings.HasPrefix(from, prefix) {
					more = false
					break
				}
				if err := f(doc); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
