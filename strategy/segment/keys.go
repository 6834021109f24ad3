package segment

import (
	"context"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/strategy/counters"
)

// keysPage is how many counters are read at a time to list keys.
const keysPage = 1000

// Keys implements [seqd.KeyLister], in the order of the names of counters. If numbers reset, a page
// that ends within the periods of one key is followed by one that begins behind all of them.
func (s *Keyed) Keys(ctx context.Context, after string, limit int) (keys []string, err error) {
	prefix := s.bizType.Name + "/"
	from := prefix
	if after != "" {
		from += s.behind(after)
	}
	for len(keys) < limit {
		page := min(keysPage, limit-len(keys)+1)
		counters, err := s.env.Store.Counters().List(ctx, from, page)
		if err != nil {
			return nil, storeError(err)
		}
		for _, c := range counters {
			rest, ok := strings.CutPrefix(c.BizTag, prefix)
			if !ok {
				return keys, nil
			}
			key, _, dated := strings.Cut(rest, "@")
			from = prefix + s.behind(key)
			if key == "" || dated != s.resets() || len(keys) > 0 && keys[len(keys)-1] == key {
				from = max(from, c.BizTag)
				continue
			}
			if keys = append(keys, key); len(keys) == limit {
				return keys, nil
			}
		}
		if len(counters) < page {
			return keys, nil
		}
	}
	return keys, nil
}

// countKeys returns how many keys have a counter of a period.
func (s *Keyed) countKeys(ctx context.Context, p seqd.Period) (n int64, err error) {
	for c, err := range persist.CountersUnder(ctx, s.env.Store.Counters(), s.bizType.Name+"/") {
		if err != nil {
			return 0, err
		}
		if _, key, _, _ := seqd.SplitCounter(c.BizTag); key != "" && c.BizTag == (counters.Name{Key: key, Period: p}).Counter(s.bizType.Name) {
			n++
		}
	}
	return n, nil
}

// behind returns what the counters after those of a key come after: its name, or, if numbers reset,
// those of all its periods.
func (s *Keyed) behind(key string) string {
	if s.resets() {
		return key + "@~"
	}
	return key
}

// keyAndPeriod reads the name of a counter of a period.
func (f *family) keyAndPeriod(counter string) (key string, p seqd.Period, ok bool) {
	rest, ok := strings.CutPrefix(counter, f.bizType.Name+"/")
	if !ok {
		return "", 0, false
	}
	key, digits, ok := strings.Cut(rest, "@")
	if !ok {
		return "", 0, false
	}
	p, ok = f.settings.Reset.Parse(digits)
	return key, p, ok
}
