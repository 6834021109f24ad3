package admin

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"github.com/seqd/seqd/client"
)

// Event is something that happened to a biz type.
type Event struct {
	// Position is its place among the events of the biz type, from 1, without holes.
	Position int64 `json:"position"`
	// ID is what a receiver remembers, to notice an event that it gets again: Source, / and Seq.
	ID string `json:"id"`
	// Type is range.issued, reservation.expired, number.void, counter.exhausting,
	// definition.changed or job.done.
	Type    string `json:"type"`
	BizType string `json:"bizType"`
	// Key and Period are those of the counter, "" for none.
	Key    string          `json:"key,omitempty"`
	Period string          `json:"period,omitempty"`
	At     time.Time       `json:"at"`
	Source string          `json:"source"`
	Seq    int64           `json:"seq"`
	Data   json.RawMessage `json:"data"`
}

// Oldest is the after of [Admin.Events] that begins with the oldest event that is kept.
const Oldest = -1

// Events returns at most limit events of a biz type after a position, or after [Oldest]; 0 is for 100
// events. next is the position to go on after. While there are none, it waits for the time wait, which
// must be shorter than the client waits for an answer. If the next events are not kept any more, the
// error is [client.ErrEventsGone].
func (a *Admin) Events(ctx context.Context, bizType string, after int64, limit int, wait time.Duration) (list []Event, next int64, err error) {
	q := url.Values{"bizType": {bizType}}
	if after >= 0 {
		q.Set("after", strconv.FormatInt(after, 10))
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	var page struct {
		Events []Event `json:"events"`
		Next   int64   `json:"next"`
	}
	_, err = a.ask(ctx, client.Request{Op: "list events", Path: "/events", Query: q}, &page)
	if err == nil && page.Events == nil {
		err = errNoList
	}
	return page.Events, page.Next, err
}
