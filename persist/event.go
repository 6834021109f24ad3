package persist

import (
	"encoding/json"
	"fmt"
	"strings"
)

// EventKind is events that have left the document whose change they tell of, and are not in the
// stream of their biz type yet: an [EventBatch]. Purge refuses this kind: they would be lost.
const EventKind = "event"

// The types of events.
const (
	EventExpired    = "reservation.expired"
	EventVoid       = "number.void"
	EventIssued     = "range.issued"
	EventExhausting = "counter.exhausting"
	EventDefinition = "definition.changed"
	EventJob        = "job.done"
)

// EventBatch is events of one source with consecutive numbers. A source is a document that says what
// happened to it, with the same write that changes it, and that counts its events: 1, 2, 3, …
//
// The same event may be in several batches, because two nodes may copy what they find in a document.
// It is the same in each.
type EventBatch struct {
	Version int    `json:"v"`
	BizType string `json:"bizType"`
	// Source identifies the document, also among those of the same name that were lost or deleted.
	Source string `json:"source"`
	// Key and Period are those of the counter, "" for none.
	Key    string `json:"key,omitempty"`
	Period string `json:"period,omitempty"`
	// First is the number of the first event.
	First  int64         `json:"first"`
	Events []SourceEvent `json:"events"`
	// Final is true if the source never has events after these, as a job that has ended.
	Final bool `json:"final,omitempty"`
}

// SourceEvent is an event as its source tells it.
type SourceEvent struct {
	Type string `json:"type"`
	// At is when it happened, in ms since the Unix epoch.
	At int64 `json:"at"`
	// Data is an object that depends on Type.
	Data json.RawMessage `json:"data"`
}

// Bounds of a batch, and of an event in bytes, so that what is made of them fits a document.
const (
	MostBatchEvents = 128
	longestData     = 6 << 10
)

// eventVersion is the version of the format of a batch.
const eventVersion = 1

// Last returns the number of the last event.
func (b *EventBatch) Last() int64 { return b.First + int64(len(b.Events)) - 1 }

// Document returns the document of a batch. Its key names all that is in it: of two batches, none
// hides what only the other one has.
func (b *EventBatch) Document() (Document, error) {
	b.Version = eventVersion
	if err := b.check(); err != nil {
		return Document{}, err
	}
	text, err := json.Marshal(b)
	at := max(1, b.Events[0].At)
	return Document{
		Kind: EventKind, Key: fmt.Sprintf("%s/%s/%016d-%016d", b.BizType, b.Source, b.First, b.Last()), Revision: 1,
		Body: string(text), Timestamp: at, Expires: at,
	}, err
}

func (b *EventBatch) check() error {
	if b.BizType == "" || b.Source == "" || strings.Contains(b.BizType, "/") || b.First < 1 || len(b.Events) == 0 || len(b.Events) > MostBatchEvents {
		return invalid("events %d to %d of %.200q are no batch of %.100q", b.First, b.Last(), b.Source, b.BizType)
	}
	for i, e := range b.Events {
		if len(e.Data) > longestData || e.Type == "" {
			return invalid("event %d of %s has %d bytes, or no type", b.First+int64(i), b.Source, len(e.Data))
		}
	}
	return nil
}

// DecodeEventBatch returns the batch in a document of [EventKind].
func DecodeEventBatch(d *Document) (b EventBatch, err error) {
	if err := json.Unmarshal([]byte(d.Body), &b); err != nil {
		return b, invalid("%s: %v", d.PersistID(), err)
	}
	if b.Version > eventVersion {
		return b, fmt.Errorf("%w: %s has format %d, this build knows %d", ErrNewer, d.PersistID(), b.Version, eventVersion)
	}
	return b, b.check()
}
