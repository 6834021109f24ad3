package admin

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/seqd/seqd/client"
)

// HistoryRecord says what was issued in answer to one request.
type HistoryRecord struct {
	At  time.Time `json:"at"`
	Key string    `json:"key,omitempty"`
	// First and Last are the first and the last number, Count is how many there are.
	First int64 `json:"first,string"`
	Last  int64 `json:"last,string"`
	Count int   `json:"count"`
	// Runs are the numbers if they are not evenly spaced, without the last ones if there are very
	// many.
	Runs []HistoryRun `json:"runs,omitempty"`
	// IDs are the numbers as they were shown, or the first and the last, if that is not as digits.
	IDs       []string `json:"ids,omitempty"`
	Caller    string   `json:"caller"`
	Addr      string   `json:"addr"`
	RequestID string   `json:"requestId"`
}

// HistoryRun is Count numbers: First, First+Stride, First+2·Stride and so on.
type HistoryRun struct {
	First  int64 `json:"first,string"`
	Stride int64 `json:"stride,string"`
	Count  int   `json:"count"`
}

// HistoryOf says which records are wanted: those that fit all that is set.
type HistoryOf struct {
	// ID is a number as a caller got it.
	ID string
	// Key, Caller and RequestID are those of the request.
	Key, Caller, RequestID string
	// From and To bound the time: From ≤ time < To.
	From, To time.Time
}

// History returns a page of the history of a biz type, the newest record first. next is what to
// continue after, "" on the last page. A page with next may have no records: looking for an ID, a
// caller or a request can take several.
func (a *Admin) History(ctx context.Context, bizType string, of HistoryOf, p Page) (list []HistoryRecord, next string, err error) {
	q := p.query()
	for name, value := range map[string]string{
		"id": of.ID, "key": of.Key, "caller": of.Caller, "requestId": of.RequestID, "from": instant(of.From), "to": instant(of.To),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var page struct {
		Records []HistoryRecord `json:"records"`
		Next    string          `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "read the history", Path: named("/biz-types/", bizType) + "/history", Query: q}, &page)
	if err == nil && page.Records == nil {
		err = errNoList
	}
	return page.Records, page.Next, err
}

// Purged says which records of a biz type were removed.
type Purged struct {
	BizType string `json:"bizType"`
	Count   int    `json:"count"`
	// Files is true if the history is in files of the node that was asked. Those of other nodes are
	// not changed: ask each node with a client that has only its address.
	Files bool `json:"files,omitempty"`
}

// PurgeHistory removes the records of a biz type from before a time, unless it is zero, and of a
// caller, unless that is nil; one of them must be set. If it fails, some may be removed. It needs the
// scope admin. It can be repeated.
func (a *Admin) PurgeHistory(ctx context.Context, bizType string, before time.Time, caller *string) (p Purged, err error) {
	q := url.Values{}
	if !before.IsZero() {
		q.Set("before", instant(before))
	}
	if caller != nil {
		q.Set("caller", *caller)
	}
	p.BizType = bizType
	for {
		var answer struct {
			Purged
			Next string `json:"next"`
		}
		_, err := a.ask(ctx, client.Request{Op: "remove history", Method: http.MethodDelete, Path: named("/biz-types/", bizType) + "/history", Query: q, Repeat: true}, &answer)
		p.Count += answer.Count
		p.Files = p.Files || answer.Files
		switch {
		case err != nil || answer.Next == "" && answer.BizType == bizType:
			return p, err
		case answer.BizType != bizType, q.Has("after") && answer.Next >= q.Get("after"): // it would not end
			return p, errNoList
		}
		q.Set("after", answer.Next)
	}
}

// instant returns a time as a parameter, "" for the zero time.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
