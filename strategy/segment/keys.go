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
func (f *family) Keys(ctx context.Context, after string, limit int) (keys []string, err error) {
	l := counters.Listing{BizType: f.bizType.Name, Dated: f.resets(), Page: keysPage, List: f.countersAfter}
	return l.Keys(ctx, after, limit)
}

// countersAfter returns the names of counters.
func (f *family) countersAfter(ctx context.Context, after string, limit int) (names []string, err error) {
	list, err := f.env.Store.Counters().List(ctx, after, limit)
	for _, c := range list {
		names = append(names, c.BizTag)
	}
	return names, storeError(err)
}

// countKeys returns how many keys have a counter of a period.
func (f *family) countKeys(ctx context.Context, p seqd.Period) (n int64, err error) {
	for c, err := range persist.CountersUnder(ctx, f.env.Store.Counters(), f.bizType.Name+"/") {
		if err != nil {
			return 0, err
		}
		if name, ok := counters.ParseName(f.bizType.Name, c.BizTag); ok && name.Key != "" && name.Period == p {
			n++
		}
	}
	return n, nil
}
