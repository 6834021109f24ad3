package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd"
	"github.com/seqd/seqd/internal/literal"
	"github.com/seqd/seqd/internal/sheet"
	"github.com/seqd/seqd/persist"
)

// ResourceName implements [seqd.Resource]: GET /biz-types/{name}/history.
func (h *Plugin) ResourceName() string { return name }

const (
	defaultLimit = 100
	mostLimit    = 1000
)

// page is the answer to one request, with the newest record first.
type page struct {
	BizType string        `json:"bizType"`
	Records []shownRecord `json:"records"`
	// Next is the value of "after" for the next page, "" on the last page.
	Next string `json:"next,omitempty"`
}

var _ seqd.Table = page{}

// Columns implements [seqd.Table].
func (page) Columns() []string {
	return []string{"at", "key", "first", "last", "count", "runs", "ids", "caller", "addr", "requestId"}
}

// Rows implements [seqd.Table].
func (p page) Rows(yield func(any, []string) bool) {
	for i := range p.Records {
		r := &p.Records[i]
		var runs []string
		for _, run := range r.Runs {
			runs = append(runs, fmt.Sprintf("%d+%d×%d", run.First, run.Stride, run.Count))
		}
		if !yield(r, []string{
			r.At, sheet.ID(r.Key), sheet.Number(r.First), sheet.Number(r.Last), sheet.Number(int64(r.Count)), sheet.ID(strings.Join(runs, " ")),
			sheet.ID(strings.Join(r.IDs, " ")), sheet.ID(r.Caller), sheet.Text(r.Addr), sheet.ID(r.RequestID),
		}) {
			return
		}
	}
}

// NextPage implements [seqd.Table].
func (p page) NextPage() string { return p.Next }

// shownRecord is a record as it is shown. Numbers are strings, because they can exceed 2^53.
type shownRecord struct {
	At    string `json:"at"`
	Key   string `json:"key,omitempty"`
	First int64  `json:"first,string"`
	Last  int64  `json:"last,string"`
	Count int    `json:"count"`
	// Runs and IDs are as in [persist.HistoryRecord].
	Runs      []persist.HistoryRun `json:"runs,omitempty"`
	IDs       []string             `json:"ids,omitempty"`
	Caller    string               `json:"caller"`
	Addr      string               `json:"addr"`
	RequestID string               `json:"requestId"`
}

// Show implements [seqd.Resource]. It does not show what is still in the queue of a node.
func (h *Plugin) Show(ctx context.Context, query url.Values) (any, error) {
	q, wanted, err := parse(query)
	if err != nil {
		return nil, err
	}
	q.BizType = h.bizType
	list, next, err := h.pipe.find(ctx, q, &wanted)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, persist.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return nil, &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the history cannot be read now", RetryAfter: time.Second, Err: err}
	case err != nil:
		return nil, err
	}
	answer := page{BizType: h.bizType, Records: make([]shownRecord, 0, len(list)), Next: next}
	for _, r := range list {
		answer.Records = append(answer.Records, shownRecord{
			At: time.UnixMilli(r.Time).UTC().Format("2006-01-02T15:04:05.000Z07:00"), Key: r.Key, First: r.First, Last: r.Last, Count: r.Count, Runs: r.Runs, IDs: r.IDs,
			Caller: r.Caller, Addr: r.Addr, RequestID: r.RequestID,
		})
	}
	return answer, nil
}

// searchPatience is how long a request waits for the searches of others.
const searchPatience = 5 * time.Second

// list is List of the store, for one caller at a time: a search for a key that is not there looks
// at every record, and several would take all processors, or all connections to a database, from
// issuing.
func (p *pipe) list(ctx context.Context, q persist.HistoryQuery) ([]persist.HistoryRecord, error) {
	if err := p.search.LockWithin(ctx, searchPatience, errSearching); err != nil {
		return nil, err
	}
	defer p.search.Unlock()
	return p.store.List(ctx, q)
}

var errSearching = &seqd.Error{Code: seqd.CodeOverloaded, Detail: "others search the history", RetryAfter: time.Second}

// parse parses the parameters.
func parse(query url.Values) (q persist.HistoryQuery, s wanted, err error) {
	q.Limit = defaultLimit
	for _, key := range slices.Sorted(maps.Keys(query)) {
		given := query[key]
		if len(given) != 1 {
			return q, s, wrong(key, "is given %d times", len(given))
		}
		known, err := s.set(key, given[0])
		if !known {
			err = set(&q, key, given[0])
		}
		if err != nil {
			return q, s, err
		}
	}
	if q.From != 0 && q.To != 0 && q.From >= q.To {
		return q, s, seqd.Errorf(seqd.CodeInvalidRequest, "from is not before to")
	}
	return q, s, nil
}

func set(q *persist.HistoryQuery, key, value string) (err error) {
	switch key {
	case "limit":
		limit, ok := literal.Int(value)
		if !ok || limit < 1 || limit > mostLimit {
			return wrong(key, "is not a number from 1 to %d", mostLimit)
		}
		q.Limit = int(limit)
	case "key":
		if err := seqd.CheckKey(value); err != nil {
			return err
		}
		q.Key = value
	case "after":
		if _, err := persist.HistoryTime(value); err != nil {
			return wrong(key, "is not a value of next from an answer")
		}
		q.Before = value
	case "from":
		q.From, err = moment(key, value)
	case "to":
		q.To, err = moment(key, value)
	default:
		return seqd.Errorf(seqd.CodeInvalidRequest, "there is no parameter %.40q; the parameters are limit, after, key, from, to, id, number, caller and requestId", key)
	}
	return err
}

// moment parses a time and returns it in ms since the Unix epoch. The limit from includes a record
// of that ms, the limit to does not.
func moment(key, value string) (int64, error) {
	t, ok := literal.Time(value)
	if !ok {
		return 0, wrong(key, "is not a time such as 2026-01-31T23:59:59Z (a + is written %%2B)")
	}
	return max(1, t.UnixMilli()), nil // 0 would mean no limit
}

func wrong(key, format string, args ...any) error {
	return seqd.Errorf(seqd.CodeInvalidRequest, "the parameter "+key+" "+format, args...)
}
