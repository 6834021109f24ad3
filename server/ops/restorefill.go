package ops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/sabotage"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/snapshot"
	"github.com/seqd/seqd/strategy/gapless/ledger"
	"github.com/seqd/seqd/strategy/segment/rediscursor"
)

// filling is how many records are written at a time. Stores make counters that are created at once
// durable together.
const filling = 200

// batch is filling, or more for a store that creates many counters at once.
func (r *restoring) batch() int {
	if _, ok := r.store.(persist.CounterFiller); ok && r.moving != nil {
		return 5 * filling
	}
	return filling
}

// fill writes what the snapshot has. Each counter and ledger is raised in the step that writes it,
// so that it is never there as it was.
func (r *restoring) fill(ctx context.Context) error {
	var docs []persist.Document
	var counters []snapshot.Counter
	var history []persist.HistoryRecord
	size := 0
	flush := func() error {
		if err := r.mine(ctx); err != nil {
			return err
		}
		if err := r.refill(ctx, docs); err != nil {
			return err
		}
		if err := r.createAll(ctx, counters); err != nil {
			return err
		}
		if len(history) > 0 {
			if err := r.store.History().Append(ctx, history); err != nil {
				return err
			}
		}
		docs, counters, history, size = nil, nil, nil, 0
		return nil
	}
	if r.moving != nil {
		r.moving.want = digest{}
	}
	end, err := r.from.read(r.same, func(record snapshot.Record) (err error) {
		switch {
		case record.Registry != nil:
			err = r.registry(ctx, record.Registry)
		case record.Counter != nil:
			counters = append(counters, *record.Counter)
			record.Counter = &snapshot.Counter{Counter: r.raisedCounter(*record.Counter)}
		case record.History != nil:
			history = append(history, *record.History)
		case record.Document.Kind == persist.RestoredKind && r.moving == nil: // end writes another one
		case record.Document.Kind == persist.KeptAnswerKind && r.moving != nil && r.moving.answers != nil:
			var kept bool
			if kept, err = r.moving.answer(ctx, *record.Document); !kept {
				return err
			}
		case record.Document.Kind == persist.LedgerKind:
			if *record.Document, err = r.raisedLedger(*record.Document); err != nil {
				return err
			}
			fallthrough
		default:
			docs = append(docs, *record.Document)
			size += len(record.Document.Body)
		}
		if err == nil && r.moving != nil {
			r.moving.count("written")
			err = r.moving.want.add(record)
		}
		if err != nil {
			return err
		}
		if len(docs)+len(counters)+len(history) >= r.batch() || size > 4<<20 {
			return flush()
		}
		return nil
	})
	if err == nil && end != r.contents.End && r.from.name != "" {
		err = errReplaced
	}
	if err != nil {
		return err
	}
	return flush()
}

// mine returns an error if the store does not have the mark any more: another call has ended this, and nodes
// may use the store.
func (r *restoring) mine(ctx context.Context) error {
	has, err := r.store.Documents().Read(ctx, persist.ClusterKind, persist.ClusterKey)
	if err == nil && has.Body != r.mark.Body {
		err = errors.New("the store is not being filled any more: another call of this command has ended it")
	}
	return err
}

// refill writes documents. A ledger that a node began before, which was not stopped, is not raised.
func (r *restoring) refill(ctx context.Context, docs []persist.Document) error {
	if err := r.store.Refill(ctx, docs); err != nil || r.moving != nil { // a move compares all at its end
		return err
	}
	return each(ctx, len(docs), filling, func(ctx context.Context, i int) error {
		if docs[i].Kind != persist.LedgerKind {
			return nil
		}
		has, err := r.store.Documents().Read(ctx, docs[i].Kind, docs[i].Key)
		if err == nil && has.Revision < docs[i].Revision {
			err = fmt.Errorf("a node that was not stopped has begun %s in this store: stop every seqd, and restore into another empty database or file", docs[i].Key)
		}
		return err
	})
}

// errReplaced is why a restore stops that reads another file than it has checked.
var errReplaced = errors.New("the file was replaced while it was read")

// same returns an error if the file is another one by now.
func (r *restoring) same(h snapshot.Header) error {
	if h.Began != r.contents.Began && r.from.name != "" || h.Cluster != r.contents.Cluster {
		return errReplaced
	}
	return nil
}

// to returns the number that everything counts as issued up to, of a counter that stands at last.
func (r *restoring) to(counter string, last, gap int64) int64 {
	if number, named := r.highest[counter]; named {
		r.mu.Lock()
		r.seen[counter] = true
		r.mu.Unlock()
		return max(last, number)
	}
	return last + min(gap, seqd.MaxNumber-last)
}

// raisedCounter returns a counter as it is written: above what may have been issued, and without a
// cursor, because one in Redis can have the same epoch and be ahead or behind.
func (r *restoring) raisedCounter(c snapshot.Counter) persist.Counter {
	next := c.Counter
	if r.moving != nil && c.Failovers == 0 {
		return r.moving.counter(next)
	}
	if bizType, _, _, whole := seqd.SplitCounter(c.BizTag); whole && !sabotage.Off(sabotage.RestoreRaise) {
		usual := max(LeastGap, r.gaps[bizType], 10*min(c.Step, seqd.MaxNumber/10))
		r.mu.Lock()
		r.usual = max(r.usual, usual)
		r.mu.Unlock()
		gap := usual
		if r.how.By != nil {
			gap = *r.how.By
		}
		if r.moving != nil {
			gap = 0
		}
		// There was a gap to come already for each failover, whatever was issued since the snapshot.
		for range c.Failovers {
			gap += min(usual, seqd.MaxNumber-gap)
		}
		next.Max = r.to(c.BizTag, c.Max, gap)
	}
	if next.Epoch != persist.StoreEpoch {
		next.Epoch = ""
	}
	return next
}

// revisions is how much later the revision of a restored ledger is: a node that holds the former
// one must not find the revision that it expects.
const revisions = 1 << 32

// raisedLedger returns the document of a gapless counter as it is written.
func (r *restoring) raisedLedger(doc persist.Document) (persist.Document, error) {
	state, err := ledger.Decode(&doc)
	if err != nil {
		return doc, err
	}
	if r.moving != nil {
		return r.moving.ledger(doc, state, r.fence)
	}
	gap := int64(0)
	if r.how.Gapless != nil {
		gap = *r.how.Gapless
	}
	op := ledger.Op{Kind: ledger.Raise, To: r.to(doc.Key, state.Last, gap), Reason: raiseReason, Caller: "seqd snapshot restore", Fence: r.fence}
	if sabotage.Off(sabotage.RestoreRaise) {
		op.To = state.Last
	}
	policy := state.Policy()
	if _, err := state.Apply(r.now, &policy, &op, nil); err != nil {
		return doc, fmt.Errorf("%s: %w", doc.PersistID(), err)
	}
	next, err := state.Document(doc.Key, r.now)
	next.Revision += revisions
	return next, err
}

// createAll creates counters, several at a time.
func (r *restoring) createAll(ctx context.Context, list []snapshot.Counter) error {
	if at, ok := r.store.(persist.CounterFiller); ok && r.moving != nil && len(list) > 0 { // which is verified
		raised := make([]persist.Counter, len(list))
		for i, c := range list {
			raised[i] = r.raisedCounter(c)
			raised[i].FailedOver, raised[i].Failovers = false, 0
		}
		if err := at.FillCounters(ctx, raised); !errors.Is(err, persist.ErrExists) {
			return err
		} // the same move has made some
	}
	return each(ctx, len(list), filling, func(ctx context.Context, i int) error {
		made := r.raisedCounter(list[i])
		err := r.store.Counters().Create(ctx, made)
		switch {
		case !errors.Is(err, persist.ErrExists):
			return err
		case r.moving != nil: // the same move has made it
			return nil
		}
		return r.atLeast(ctx, made.BizTag, made.Max) // the same restore has made it, or a node that was not stopped
	})
}

// lostLeases is how old the leases can be that a failover of the former store has lost, in ms: it is the
// [persist.SlotTable.Lag] of every store that can lose some.
const lostLeases = 60_000

// registry writes a registry of machine IDs, and sets the floor of from to what it has there. It is above
// all leases that may have been granted since, or that the former store lost by a failover which no node
// has noticed.
func (r *restoring) registry(ctx context.Context, from *persist.Registry) error {
	t, err := r.store.Slots().Look(ctx, from.Name)
	if err != nil {
		return err
	}
	if from.Set != nil && t.Set == nil {
		set := *from.Set
		lost := set.Source != r.contents.Fence
		set.Source = t.Source
		if r.moving == nil {
			set.Incarnation = persist.NewEpoch()
		}
		if (r.moving == nil || lost) && !sabotage.Off(sabotage.RestoreRaise) {
			lag := t.Lag
			if r.moving != nil {
				lag = max(lag, lostLeases)
			}
			set.Floor = max(set.Floor, max(t.Now, r.contents.Ended)+set.Ahead+lag)
		}
		if err := r.swap(ctx, from.Name, persist.SlotSwap{NewSet: &set, Source: t.Source}); err != nil {
			return err
		}
		t.Set = &set
	}
	if from.Set != nil {
		set := *from.Set
		set.Floor = max(set.Floor, t.Set.Floor)
		from.Set = &set
	}
	for _, slot := range from.Slots {
		if slices.ContainsFunc(t.Slots, func(has persist.Slot) bool { return has.ID == slot.ID }) {
			continue
		}
		if err := r.swap(ctx, from.Name, persist.SlotSwap{OldSet: t.Set, NewSlot: &slot, Source: t.Source}); err != nil {
			return err
		}
	}
	return nil
}

func (r *restoring) swap(ctx context.Context, registry string, swap persist.SlotSwap) error {
	made, err := r.store.Slots().Swap(ctx, registry, swap)
	if err == nil && !made {
		err = fmt.Errorf("registry %q: %w: somebody else changes it: stop every seqd", registry, persist.ErrUnavailable)
	}
	return err
}

// raiseToCursors raises each counter to what was ever in its cursor in Redis.
func (r *restoring) raiseToCursors(ctx context.Context) error {
	if r.cursors == nil {
		return nil
	}
	const most = 1000
	for after := ""; ; {
		list, err := r.store.Counters().List(ctx, after, most)
		if err != nil || len(list) == 0 {
			return err
		}
		names := make([]string, len(list))
		for i, c := range list {
			names[i] = c.BizTag
		}
		ceils, err := rediscursor.Ceils(ctx, *r.cursors, names)
		if err != nil {
			return err
		}
		err = each(ctx, len(list), filling, func(ctx context.Context, i int) error {
			if ceils[i] <= list[i].Max {
				return nil
			}
			return r.atLeast(ctx, names[i], ceils[i])
		})
		if err != nil {
			return err
		}
		after = names[len(names)-1]
	}
}

// atLeast raises a counter, and creates it if there is none.
func (r *restoring) atLeast(ctx context.Context, counter string, number int64) error {
	_, err := raise(ctx, r.store.Counters(), counter, number, time.UnixMilli(r.now))
	return err
}

// createNamed creates the counters that somebody has named and the snapshot lacks. A gapless one
// begins above the counter of its name, too.
func (r *restoring) createNamed(ctx context.Context) error {
	for _, counter := range slices.Sorted(maps.Keys(r.highest)) {
		if r.seen[counter] {
			continue
		}
		if err := r.atLeast(ctx, counter, r.highest[counter]); err != nil {
			return err
		}
		r.tell(counter, fmt.Sprintf("the snapshot lacks it; its numbers begin above %d", r.highest[counter]))
	}
	return nil
}
