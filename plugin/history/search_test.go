package history

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seqd/seqd/internal/testing/must"
	"github.com/seqd/seqd/persist"
)

// A search finds who got a number, however it was shown, on whatever page of the store it is.
func TestSearch(t *testing.T) {
	store := newFake()
	p := start(t, store, nil, nil)
	start := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).UnixMilli()
	var list []persist.HistoryRecord
	add := func(r persist.HistoryRecord) {
		r.Time = start + int64(len(list))
		r.ID, r.BizType = persist.HistoryID(r.Time, 1, 1), "order"
		list = append(list, r)
	}
	add(persist.HistoryRecord{First: 1, Last: 1, Count: 1, Caller: "shop", RequestID: "r1"})
	add(persist.HistoryRecord{First: 10, Last: 30, Count: 3, Caller: "till", RequestID: "r2"}) // 10, 20, 30
	add(persist.HistoryRecord{First: 40, Last: 61, Count: 4, Runs: []persist.HistoryRun{{First: 40, Stride: 1, Count: 2}, {First: 60, Stride: 1, Count: 2}}})
	add(persist.HistoryRecord{First: 70, Last: 90, Count: 5, Runs: []persist.HistoryRun{{First: 70, Stride: 1, Count: 2}}}) // lacks runs
	add(persist.HistoryRecord{First: 100, Last: 101, Count: 2, IDs: []string{"A-100", "A-101"}})
	add(persist.HistoryRecord{First: 200, Last: 220, Count: 21, IDs: []string{"A-200", "A-220"}})
	for range 2*searchPage - 3 {
		add(persist.HistoryRecord{First: 1000, Last: 1000, Count: 1, Caller: "other"})
	}
	must.Do(t, store.Append(t.Context(), list))
	for query, want := range map[string]string{
		"number=1": "1", "id=1": "1", "id=01": "", "number=2": "", "id=10": "10", "number=20": "10", "number=15": "", "number=31": "",
		"number=41": "40", "number=50": "", "number=61": "40", "number=80": "70", "number=91": "",
		"id=A-100": "100", "id=A-100&number=7": "100", "id=A-102": "", "id=B-100&number=100": "", "number=100": "100",
		"id=A-210": "", "id=A-210&number=210": "200", "id=A-220": "200",
		"caller=shop": "1", "caller=till": "10", "caller=": "200 100 70 40", "requestId=r2": "10", "requestId=r3": "", "caller=till&requestId=r1": "",
		"caller=other&limit=1": "1000", "caller=shop&from=2026-02-01T00:00:00Z": "",
	} {
		var got []string
		shown := must.Get(p.Show(t.Context(), must.Get(url.ParseQuery(query))(t)))(t).(page)
		for _, r := range shown.Records {
			got = append(got, fmt.Sprint(r.First))
		}
		if strings.Join(got, " ") != want || (shown.Next != "") != strings.Contains(query, "limit") {
			t.Errorf("%s: %q, next %q; want %q", query, got, shown.Next, want)
		}
	}
	stop(t, p)
}

// What is erased is what was named, across pages of the store, and nothing else.
func TestErase(t *testing.T) {
	store := newFake()
	p := start(t, store, nil, nil)
	start := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var list []persist.HistoryRecord
	for i := range int64(2*erasePage + 10) {
		at := start.UnixMilli() + i
		list = append(list, persist.HistoryRecord{ID: persist.HistoryID(at, 1, 1), BizType: "order", Time: at, First: i, Last: i, Count: 1, Caller: []string{"shop", "till", ""}[i%3]})
	}
	must.Do(t, store.Append(t.Context(), list))
	left := func() int {
		return len(must.Get(store.List(t.Context(), persist.HistoryQuery{BizType: "order", Limit: len(list)}))(t))
	}
	want := len(list)
	for _, test := range []struct {
		query string
		n     int
	}{
		{"caller=nobody", 0}, {"caller=till&before=2026-01-31T12:00:00.004Z", 1}, {"caller=shop", 670}, {"caller=shop", 0}, {"before=2026-01-31T12:00:00.003Z", 1}, {"before=2027-01-01T00:00:00Z&caller=", 669},
	} {
		got := must.Get(p.Erase(t.Context(), must.Get(url.ParseQuery(test.query))(t)))(t)
		want -= test.n
		if got != (erased{BizType: "order", Count: test.n}) || left() != want {
			t.Errorf("%s: %+v, %d left, want %d", test.query, got, left(), want)
		}
	}
	for query, part := range map[string]string{
		"": "say which", "after=x": "after", "limit=1": `parameter "limit"`, "before=x": "before", "caller=a&caller=b": "caller", "before=": "before",
	} {
		if _, err := p.Erase(t.Context(), must.Get(url.ParseQuery(query))(t)); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v", query, err)
		}
	}
	stop(t, p)
}
