package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/persist"
)

var _ seqd.Erasable = (*Plugin)(nil)

// erased is the answer to a request that removes records.
type erased struct {
	BizType string `json:"bizType"`
	// Count is how many were removed.
	Count int `json:"count"`
	// Next is the value of "after" for the next request, "" if all that were named are gone.
	Next string `json:"next,omitempty"`
	// Files is true if the history is in files: those of other nodes are not changed.
	Files bool `json:"files,omitempty"`
}

// erasePage is how many records are looked at, and removed, in one operation of the store.
const erasePage = 1000

// Erase implements [seqd.Erasable]: it removes the records from before a time, or those of a caller,
// or those that fit both, the newest first, for some seconds. It does not remove what is still in
// the queue of a node, nor what is in files of other nodes.
func (h *Plugin) Erase(ctx context.Context, query url.Values) (any, error) {
	q, of, err := parseErasure(query)
	if err != nil {
		return nil, err
	}
	q.BizType, q.Limit = h.bizType, erasePage
	_, inFiles := h.pipe.store.(*files)
	answer := erased{BizType: h.bizType, Files: inFiles}
	for until := time.Now().Add(searchTime); ; {
		n, more, err := h.pipe.erase(ctx, &q, &of)
		answer.Count += n
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, persist.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
			return nil, &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the history cannot be changed now; some records may be removed", RetryAfter: time.Second, Err: err}
		case err != nil || !more:
			return answer, err
		case time.Now().After(until) && q.Before != "":
			answer.Next = q.Before
			return answer, nil
		}
		sleep(ctx, purgePause)
	}
}

// parseErasure parses the parameters.
func parseErasure(query url.Values) (q persist.HistoryQuery, of wanted, err error) {
	for _, key := range slices.Sorted(maps.Keys(query)) {
		switch given := query[key]; {
		case key != "before" && key != "caller" && key != "after":
			err = seqd.Errorf(seqd.CodeInvalidRequest, "there is no parameter %.40q; the parameters are before, caller and after", key)
		case len(given) != 1:
			err = wrong(key, "is given %d times", len(given))
		case key == "before":
			q.To, err = moment(key, given[0])
		case key == "caller":
			of.caller = &given[0]
		default:
			err = set(&q, key, given[0])
		}
		if err != nil {
			return q, of, err
		}
	}
	if q.To == 0 && of.caller == nil {
		err = seqd.Errorf(seqd.CodeInvalidRequest, "say which records: those from before a time (before), those of a caller (caller), or those that fit both")
	}
	return q, of, err
}

// erase looks at one page or file, removes what is wanted of it, and moves the query behind it.
func (p *pipe) erase(ctx context.Context, q *persist.HistoryQuery, of *wanted) (n int, more bool, err error) {
	if f, ok := p.store.(*files); ok {
		if err := p.search.LockWithin(ctx, searchPatience, errSearching); err != nil {
			return 0, false, err
		}
		defer p.search.Unlock()
		n, q.Before, more, err = f.erase(ctx, &erasure{q.BizType, q.To, of}, q.Before)
		if err != nil && err != errOtherNode {
			err = fmt.Errorf("%w: %w", persist.ErrUnavailable, err)
		}
		return n, more, err
	}
	list, err := p.list(ctx, *q)
	if err != nil {
		return 0, false, err
	}
	var ids []string
	for i := range list {
		if q.Before = list[i].ID; of.wants(&list[i]) {
			ids = append(ids, list[i].ID)
		}
	}
	if err := p.store.Remove(ctx, q.BizType, ids); err != nil {
		return 0, false, err
	}
	return len(ids), len(list) == q.Limit, nil
}
