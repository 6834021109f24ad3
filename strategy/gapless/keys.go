package gapless

import (
	"context"
	"errors"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/live"
)

// keysPage is how many documents are read at a time to list keys.
const keysPage = 100

// Keys implements [seqd.KeyLister], in the order of the names of counters. A page that ends within
// the periods of one key is followed by one that begins behind all of them.
func (s *Strategy) Keys(ctx context.Context, after string, limit int) (keys []string, err error) {
	prefix := s.name + "/"
	for from := prefix + behind(after); len(keys) < limit; {
		page := min(keysPage, limit-len(keys)+1)
		docs, err := s.List(ctx, persist.LedgerKind, from, page)
		if err != nil {
			return nil, unavailable(err)
		}
		for _, d := range docs {
			rest, ok := strings.CutPrefix(d.Key, prefix)
			if !ok {
				return keys, nil
			}
			key, _, _ := strings.Cut(rest, "@")
			if len(keys) == 0 || keys[len(keys)-1] != key {
				if keys = append(keys, key); len(keys) == limit {
					return keys, nil
				}
			}
			from = prefix + behind(key)
		}
		if len(docs) < page {
			return keys, nil
		}
	}
	return keys, nil
}

// behind returns what comes after the counters of a key, in all periods.
func behind(key string) string { return key + "@~" }

// places counts the keys of a biz type, so that there are no more than maxKeys: it is a counter in
// the store, and a key takes a number of it before its ledger is created. If numbers reset, there
// are places for each period. A place whose ledger was not created is lost: then there may be fewer
// keys, never more.

// admit takes a place for a key that has no ledger yet.
func (c *counter) admit(ctx context.Context) error {
	if c.name.Key == "" || !c.isNew() {
		return nil
	}
	places := live.Name{Period: c.name.Period}.Counter(c.Strategy.name + "/")
	err := c.place(ctx, places)
	if errors.Is(err, persist.ErrNotFound) {
		err = c.documents.counters.Create(ctx, persist.Counter{BizTag: places, Step: 1, Timestamp: c.env.Now().UnixMilli()})
		if err == nil || errors.Is(err, persist.ErrExists) {
			err = c.place(ctx, places)
		}
	}
	if errors.Is(err, persist.ErrFailedOver) {
		return failedOver(c.key)
	}
	return c.reach.noted(c.Strategy, err)
}

// place takes one place.
func (c *counter) place(ctx context.Context, places string) error {
	taken, err := c.documents.counters.Read(ctx, places)
	if err != nil {
		return err
	}
	if taken.Max < c.settings.MaxKeys { // others may take the last ones meanwhile
		r, err := c.documents.counters.Allocate(ctx, persist.Request{BizTag: places, Size: 1, To: persist.Beside})
		if err != nil || r.Last <= c.settings.MaxKeys {
			return err
		}
	}
	return seqd.Errorf(seqd.CodeTooManyKeys,
		"%s has as many keys as gapless.maxKeys allows, %d: raise it, or use a key that exists", c.Strategy.name, c.settings.MaxKeys)
}

// isNew reports whether the counter had no ledger when it was read, and has got none since.
func (c *counter) isNew() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.Seen().Revision == 0 && c.machine.Refusal() == nil
}
