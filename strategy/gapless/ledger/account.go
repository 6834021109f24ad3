package ledger

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

// Gap is numbers that are not issued, and why.
type Gap struct {
	Run
	// State is one of seqd.GapReleased, GapVoid and GapReserved.
	State string
	// At is since when they are released or void, in ms since the Unix epoch.
	At int64
	// Reason and By are those of void numbers.
	Reason, By string
	// ID and Due are those of the reservation; Due is in ms since the Unix epoch.
	ID  string
	Due int64
}

// Account returns at most limit gaps above after, ascending, and the after of the next page, 0 if
// there is none. voids and more are those of [State.ListVoids] for the same page.
func (s *State) Account(p *Policy, after int64, limit int, voids []*Entry, more bool) (gaps []Gap, next int64) {
	// nothing is known of what is above the last record
	end := s.Last
	if more && len(voids) > 0 {
		end = voids[len(voids)-1].Runs[0].To
	}
	add := func(g Gap) {
		if g.To > after && g.From <= end {
			g.From = max(g.From, after+1)
			gaps = append(gaps, g)
		}
	}
	for _, e := range s.voidEntries(voids) {
		add(Gap{Run: e.Runs[0], State: seqd.GapVoid, At: e.At, Reason: e.Reason, By: e.Caller})
	}
	for _, r := range s.Released {
		add(Gap{Run: r.Run, State: seqd.GapReleased, At: r.At})
	}
	for _, r := range s.Reserved {
		for _, run := range r.Runs {
			add(Gap{Run: run, State: seqd.GapReserved, ID: r.ID, Due: r.toldEnd(s, p)})
		}
	}
	slices.SortFunc(gaps, func(a, b Gap) int { return cmp.Compare(a.From, b.From) })
	switch {
	case len(gaps) > limit:
		gaps = gaps[:limit]
		next = gaps[limit-1].To
	case end < s.Last:
		next = end
	}
	return gaps, next
}

// ListVoids returns what the records say of void numbers that a page of the account needs, and
// whether there may be more of them; then it returns at least one. It leaves out those of later
// revisions, and those of a history that a failover lost. The state was read before the call.
func (s *State) ListVoids(ctx context.Context, from persist.Documents, counter string, after int64, limit int) (own []*Entry, more bool, err error) {
	others := func(d persist.Document) bool { return !strings.HasPrefix(d.Key, counter+"#") }
	for key := VoidKey(counter, after); ; {
		page, err := from.List(ctx, persist.VoidKind, key, limit+1)
		if err != nil {
			return nil, false, err
		}
		more := len(page) > limit
		if i := slices.IndexFunc(page, others); i >= 0 {
			page, more = page[:i], false
		}
		if own, err = s.own(page, after); err != nil || !more || len(own) > 0 {
			return own, more, err
		}
		key = page[len(page)-1].Key
	}
}

// own returns what records say of void numbers above after that belong to this state. The key of
// after with an era is above that without one, so the record of after can be listed again. If it
// were the only one of a page, the next page would begin where this one did.
func (s *State) own(records []persist.Document, after int64) ([]*Entry, error) {
	all, err := decodeEntries(records)
	return slices.DeleteFunc(all, func(e *Entry) bool { return !s.owns(e) || e.Runs[0].To <= after }), err
}
