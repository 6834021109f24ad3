package admin

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Event is something that happened to a biz type.
type Event struct {
	// Position is its place in the stream of its biz type: 1, 2, 3, … without holes.
	Position int64
	// ID is its source, / and its number there. It is what receivers remember.
	ID string
	// Type is such as number.void.
	Type    string
	BizType string
	// Key and Period are those of the counter, "" for none.
	Key, Period string
	// At is when it happened, in ms since the Unix epoch.
	At int64
	// Data is an object that depends on Type.
	Data json.RawMessage
}

// eventText is an event as JSON shows it.
type eventText struct {
	Position int64           `json:"position"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	BizType  string          `json:"bizType"`
	Key      string          `json:"key,omitempty"`
	Period   string          `json:"period,omitempty"`
	At       string          `json:"at"`
	Source   string          `json:"source"`
	Seq      int64           `json:"seq"`
	Data     json.RawMessage `json:"data"`
}

// MarshalJSON implements [json.Marshaler].
func (e Event) MarshalJSON() ([]byte, error) {
	source, seq := e.Source()
	return json.Marshal(eventText{
		e.Position, e.ID, e.Type, e.BizType, e.Key, e.Period, Time(e.At), source, seq, e.Data,
	})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (e *Event) UnmarshalJSON(text []byte) error {
	var t eventText
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	at, err := time.Parse(TimeFormat, t.At)
	*e = Event{t.Position, t.ID, t.Type, t.BizType, t.Key, t.Period, at.UnixMilli(), t.Data}
	return err
}

// Source returns the source of an event, and its number there.
func (e *Event) Source() (source string, seq int64) {
	i := strings.LastIndexByte(e.ID, '/')
	seq, _ = strconv.ParseInt(e.ID[i+1:], 10, 64)
	return e.ID[:max(i, 0)], seq
}

// Events are the streams of events of biz types. It is safe for concurrent use. Its errors are of type
// [*seqd.Error].
type Events interface {
	// List returns at most limit events of a biz type after a position, or from the oldest one that is
	// kept if after is negative, the position of the last one of these, and that of the newest event of
	// the biz type. If there is none, it waits for one, and returns none after the time wait. If the
	// next ones are not kept any more, it returns [seqd.CodeEventsGone].
	List(ctx context.Context, bizType string, after int64, limit int, wait time.Duration) (list []Event, next, last int64, err error)
}
