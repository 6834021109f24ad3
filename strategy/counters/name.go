package counters

import (
	"context"
	"strings"

	"github.com/seqd/seqd"
)

// Name names one counter of a biz type.
type Name struct {
	// Key is the caller's, "" if the biz type is not keyed.
	Key string
	// Period is 0 if numbers never reset.
	Period seqd.Period
}

// Counter returns the name of the counter in the store: invoice, invoice/tenant-42, invoice@2026 or
// invoice/tenant-42@2026.
func (n Name) Counter(bizType string) string {
	counter := seqd.CounterOf(bizType, n.Key)
	if n.Period == 0 {
		return counter
	}
	return n.Period.Counter(counter)
}

// ParseName reads the name of a counter of a biz type, whatever the length of its period.
func ParseName(bizType, counter string) (name Name, ok bool) {
	rest, ok := strings.CutPrefix(counter, bizType)
	key, digits, dated := strings.Cut(rest, "@")
	if dated {
		name.Period, _ = ParsePeriod(digits) // 0 for other digits: then the names below differ
	}
	name.Key = strings.TrimPrefix(key, "/")
	return name, ok && name.Counter(bizType) == counter
}

// ParsePeriod reads the digits of a period of any length: the biz type may have reset otherwise.
func ParsePeriod(digits string) (p seqd.Period, ok bool) {
	for _, reset := range []seqd.Reset{seqd.ResetDaily, seqd.ResetMonthly, seqd.ResetYearly} {
		if p, ok = reset.Parse(digits); ok {
			return p, true
		}
	}
	return 0, false
}

// PlacesName returns the name of the counter of places: invoice/ or invoice/@2026. Keys are never
// empty, so no counter of numbers has this name.
func PlacesName(bizType string, p seqd.Period) string { return Name{Period: p}.Counter(bizType + "/") }

// Listing lists the keys of a biz type that have a counter.
type Listing struct {
	BizType string
	// Dated is whether numbers reset. Then only counters with a period are listed, otherwise only
	// those without one.
	Dated bool
	// Page is how many names are read at a time.
	Page int
	// List returns at most limit names of counters, of any biz type, that come after one, ascending.
	List func(ctx context.Context, after string, limit int) ([]string, error)
}

// Keys returns at most limit keys that come after one, "" for the first ones, in the order of the
// names of counters. A page that ends within the periods of one key is followed by one that begins
// behind all of them.
func (l *Listing) Keys(ctx context.Context, after string, limit int) (keys []string, err error) {
	prefix := l.BizType + "/"
	from := prefix
	if after != "" {
		from += l.behind(after)
	}
	for len(keys) < limit {
		page := min(l.Page, limit-len(keys)+1)
		names, err := l.List(ctx, from, page)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			rest, ok := strings.CutPrefix(name, prefix)
			if !ok {
				return keys, nil
			}
			key, _, dated := strings.Cut(rest, "@")
			if key == "" || dated != l.Dated || len(keys) > 0 && keys[len(keys)-1] == key {
				from = max(from, name)
				continue
			}
			from = prefix + l.behind(key)
			if keys = append(keys, key); len(keys) == limit {
				return keys, nil
			}
		}
		if len(names) < page {
			return keys, nil
		}
	}
	return keys, nil
}

// behind returns what the counters after those of a key come after: its name, or, if numbers reset,
// those of all its periods.
func (l *Listing) behind(key string) string {
	if l.Dated {
		return key + "@~"
	}
	return key
}
