package gapless

import (
	"context"
	"errors"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
	"github.com/seqd/seqd/strategy/gapless/ledger"
)

// keysPage is how many documents are read at a time to list keys.
const keysPage = 100

// Keys implements [seqd.KeyLister].
func (s *Strategy) Keys(ctx context.Context, after string, limit int) (keys []string, err error) {
	l := counters.Listing{BizType: s.BizType.Name, Dated: s.settings.Reset != seqd.ResetNever, Page: keysPage, List: s.ledgersAfter}
	return l.Keys(ctx, after, limit)
}

// ledgersAfter returns the names of ledgers.
func (d *documents) ledgersAfter(ctx context.Context, after string, limit int) (names []string, err error) {
	docs, err := d.List(ctx, persist.LedgerKind, after, limit)
	for _, doc := range docs {
		names = append(names, doc.Key)
	}
	return names, unavailable(err)
}

// CountKeys implements [counters.Kind]: it counts keys that have a ledger of the period, or a
// counter from when the biz type was of another strategy.
func (s *Strategy) CountKeys(ctx context.Context, p seqd.Period) (n int64, err error) {
	counts := func(counter string) bool {
		name, ok := counters.ParseName(s.BizType.Name, counter)
		return ok && name.Key != "" && name.Period == p
	}
	prefix := s.BizType.Name + "/"
	for doc, err := range persist.DocumentsUnder(ctx, s, persist.LedgerKind, prefix) {
		if err != nil {
			return n, err
		}
		if counts(doc.Key) {
			n++
		}
	}
	for c, err := range persist.CountersUnder(ctx, s.documents.counters, prefix) {
		if err == nil && counts(c.BizTag) {
			if _, err = s.Read(ctx, persist.LedgerKind, c.BizTag); errors.Is(err, persist.ErrNotFound) {
				n, err = n+1, nil
			}
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// admit takes a place for a key that has no ledger yet. Callers who come together share the place.
// The caller calls leave after the operation that may create the ledger. by names the caller. admit
// waits for the store in the goroutine of its caller. It then has the turn of the counter, and no
// lock.
func (c *counter) admit(ctx context.Context, by string) (leave func(), err error) {
	late, cancel := context.WithTimeout(ctx, c.settings.AcquireTimeout)
	defer cancel()
	select {
	case <-c.turn:
	case <-late.Done():
		return nil, seqd.AsError(late.Err())
	}
	defer func() { c.turn <- struct{}{} }()
	if c.join() {
		return c.leave, nil
	}
	places := c.Places(c.name.Period)
	var place counters.Place
	if err = places.Check(ctx, by); err == nil {
		place, err = places.Take(ctx, by)
	}
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.placed, c.place = true, place
		return c.leave, nil
	}
	if code := seqd.CodeOf(err); (code == seqd.CodeTooManyKeys || code == seqd.CodeRateLimited) && (c.bornElsewhere(ctx) || c.hasCounter(ctx)) {
		return c.leave, nil
	}
	c.leave()
	if errors.Is(err, persist.ErrFailedOver) {
		return nil, failedOver(c.key)
	}
	return nil, c.noted(err)
}

// bornElsewhere reads the document again, and reports whether another node has created it.
func (c *counter) bornElsewhere(ctx context.Context) bool {
	_, _ = c.do(ctx, ledger.Op{Kind: ledger.Find, ID: newID()})
	return !c.isNew()
}

// hasCounter reports whether the key has had numbers of another strategy: then it has a place
// already.
func (c *counter) hasCounter(ctx context.Context) bool {
	_, err := c.documents.counters.Read(ctx, c.key)
	return err == nil
}

// join notes a caller who may create the ledger, and reports whether no place has to be taken: the
// counter has one, or there is a ledger by now.
func (c *counter) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creators++
	return c.placed || !c.isNewLocked()
}

// leave is called by a caller who has joined.
func (c *counter) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.creators--
	c.vacate()
}

// vacate ends the care for the place once nothing is under way that may create the ledger. If this
// counter has created the ledger, the place stays taken. Otherwise another node has, or all
// operations were refused, and vacate gives the place back. mu is held.
func (c *counter) vacate() {
	if !c.placed || c.creators > 0 || !c.machine.Idle() {
		return
	}
	c.placed = false
	if seen := c.machine.Seen(); seen.Revision == 0 || seen.Born != c.writer {
		c.Places(c.name.Period).Spare(c.place)
	}
}

// isNew reports whether the counter of a key had no ledger when it was read, and has got none
// since.
func (c *counter) isNew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isNewLocked()
}

func (c *counter) isNewLocked() bool {
	return c.name.Key != "" && c.unbornLocked()
}
