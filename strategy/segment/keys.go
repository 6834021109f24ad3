package segment

import (
	"context"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
)

// keysPage is how many counters are read at a time to list keys.
const keysPage = 1000

// Keys implements [seqd.KeyLister].
func (s *Keyed) Keys(ctx context.Context, after string, limit int) (keys []string, err error) {
	l := counters.Listing{BizType: s.bizType.Name, Dated: s.resets(), Page: keysPage, List: s.countersAfter}
	return l.Keys(ctx, after, limit)
}

// countersAfter returns the names of counters.
func (s *Keyed) countersAfter(ctx context.Context, after string, limit int) (names []string, err error) {
	list, err := s.env.Store.Counters().List(ctx, after, limit)
	for _, c := range list {
		names = append(names, c.BizTag)
	}
	return names, storeError(err)
}

// countKeys returns how many keys have a counter of a period.
func (s *Keyed) countKeys(ctx context.Context, p seqd.Period) (n int64, err error) {
	for c, err := range persist.CountersUnder(ctx, s.env.Store.Counters(), s.bizType.Name+"/") {
		if err != nil {
			return 0, err
		}
		if name, ok := counters.ParseName(s.bizType.Name, c.BizTag); ok && name.Key != "" && name.Period == p {
			n++
		}
	}
	return n, nil
}
