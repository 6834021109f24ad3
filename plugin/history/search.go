package history

import (
	"context"
	"slices"
	"time"

	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/persist"
)

// wanted is what no store has an index for. A request looks at records until it has enough of them
// or searchTime is over. Then next says where to go on, so a page may have few records, or none,
// and not be the last one.
type wanted struct {
	// caller and requestID are nil for all.
	caller, requestID *string
	// id is an ID as a caller got it, "" for all. number is the number behind it if that is known, or
	// a number to look for; 0 if not.
	id     string
	number int64
}

const (
	searchTime = 3 * time.Second
	// searchPage is how many records are looked at in one operation of the store.
	searchPage = 5000
)

func (s *wanted) any() bool {
	return s.caller != nil || s.requestID != nil || s.id != "" || s.number != 0
}

// set sets a parameter. ok is false if the search has none of this name.
func (s *wanted) set(key, value string) (ok bool, err error) {
	switch key {
	case "caller":
		s.caller = &value
	case "requestId":
		s.requestID = &value
	case "id":
		if s.id = value; value == "" {
			err = wrong(key, "is empty")
		}
	case "number":
		n, whole := literal.Int(value)
		if s.number = n; !whole || n < 1 {
			err = wrong(key, "is not a whole number of at least 1")
		}
	default:
		return false, nil
	}
	return true, err
}

// wants reports whether a record is one that is looked for.
func (s *wanted) wants(r *persist.HistoryRecord) bool {
	return (s.caller == nil || r.Caller == cut(*s.caller)) && (s.requestID == nil || r.RequestID == cut(*s.requestID)) &&
		(s.id == "" && s.number == 0 || s.holds(r))
}

// holds reports whether the number or the ID is among those of a record.
func (s *wanted) holds(r *persist.HistoryRecord) bool {
	switch {
	case s.id == "":
		return holds(r, s.number)
	case len(r.IDs) == 0: // they were shown as digits
		n, whole := literal.Int(s.id)
		return whole && holds(r, n)
	case len(r.IDs) >= r.Count: // the record has all of them, whatever the definition makes of them today
		return slices.Contains(r.IDs, cut(s.id))
	}
	return slices.Contains(r.IDs, cut(s.id)) || s.number != 0 && holds(r, s.number)
}

// holds reports whether a number is among those of a record. Of one that lacks runs it may be.
func holds(r *persist.HistoryRecord, n int64) bool {
	if len(r.Runs) == 0 {
		stride := int64(1)
		if r.Count > 1 {
			stride = (r.Last - r.First) / int64(r.Count-1)
		}
		return persist.HistoryRun{First: r.First, Stride: stride, Count: r.Count}.Holds(n)
	}
	count := 0
	for _, run := range r.Runs {
		if run.Holds(n) {
			return true
		}
		count += run.Count
	}
	return count < r.Count && n >= min(r.First, r.Last) && n <= max(r.First, r.Last)
}

// find returns a page of the records that are looked for, and what to go on after, "" on the last
// page.
func (p *pipe) find(ctx context.Context, q persist.HistoryQuery, s *wanted) (found []persist.HistoryRecord, next string, err error) {
	limit := q.Limit
	if !s.any() {
		q.Limit++ // one more tells whether there is a next page
		if found, err = p.list(ctx, q); len(found) > limit {
			found = found[:limit]
			next = found[limit-1].ID
		}
		return found, next, err
	}
	q.Limit = searchPage
	for until := time.Now().Add(searchTime); ; {
		list, err := p.list(ctx, q)
		if err != nil {
			return nil, "", err
		}
		for i := range list {
			q.Before = list[i].ID
			if !s.wants(&list[i]) {
				continue
			}
			if found = append(found, list[i]); len(found) == limit {
				return found, q.Before, nil
			}
		}
		switch {
		case len(list) < searchPage:
			return found, "", nil
		case time.Now().After(until):
			return found, q.Before, nil
		}
	}
}
