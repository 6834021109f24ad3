package subscriptions

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seqd/seqd/persist"
	"github.com/seqd/seqd/server/admin"
	"github.com/seqd/seqd/server/events"
)

// pauses are those after each attempt, as Standard Webhooks suggests. After the last attempt an event
// is dead, some three days after the first one.
var pauses = []time.Duration{
	5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
	10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	// longestPause bounds what Retry-After asks for.
	longestPause = 24 * time.Hour
	// spread is by how much a pause is longer at most, at random: events that failed together are not
	// sent together again.
	spread = 0.2
)

// delivery is the body of the document of an event that a receiver does not have yet. Expires of the
// document is when the next attempt is due, or when a dead one is removed.
type delivery struct {
	Version int `json:"version"`
	// Made is that of the definition.
	Made     string       `json:"made"`
	Event    events.Event `json:"event"`
	Attempts int          `json:"attempts,omitempty"`
	// Last is when the last attempt was made, and Error why it failed.
	Last  int64  `json:"last,omitempty"`
	Error string `json:"error,omitempty"`
	Dead  bool   `json:"dead,omitempty"`
}

func deliveryIn(doc persist.Document) (d delivery, err error) {
	err = decode(doc, &d, &d.Version)
	return d, err
}

// keyIn returns the key of a delivery within a subscription. Its order is that of the positions.
func keyIn(bizType string, position int64) string { return fmt.Sprintf("%s/%020d", bizType, position) }

// documentOf returns the document of an event that is to be sent at once.
func documentOf(d *definition, e events.Event, now time.Time) persist.Document {
	return persist.Document{
		Kind: persist.DeliveryKind, Key: d.name + "/" + keyIn(e.BizType, e.Position), Revision: 1,
		Body: text(delivery{Version: format, Made: d.Made, Event: e}), Timestamp: now.UnixMilli(), Expires: now.UnixMilli(),
	}
}

// answer is what came of an attempt.
type answer struct {
	err  error         // nil if the receiver has it
	gone bool          // the receiver answered 410: the subscription is disabled
	wait time.Duration // what Retry-After asks for, 0 for nothing
}

// failed notes an attempt that failed, and returns when the document is due next. jitter is random,
// from 0 to 1.
func (d *delivery) failed(a answer, now time.Time, jitter float64, keepDead time.Duration) (due int64) {
	d.Attempts++
	d.Last, d.Error = now.UnixMilli(), a.err.Error()
	if d.Attempts > len(pauses) {
		d.Dead = true
		return now.Add(keepDead).UnixMilli()
	}
	pause := pauses[d.Attempts-1]
	pause += time.Duration(float64(pause) * spread * jitter)
	return now.Add(max(pause, min(a.wait, longestPause))).UnixMilli()
}

// isDue reports whether a delivery that is not dead is to be sent. One whose time is too far away was
// written while a clock was ahead.
func isDue(due, now int64) bool {
	return due <= now || due > now+(2*longestPause).Milliseconds()
}

// revive makes it due at once, with all its attempts.
func (d *delivery) revive() { d.Attempts, d.Dead = 0, false }

// idOf returns what a receiver gets as webhook-id, which is the same for each attempt.
func idOf(name, event string) string {
	sum := sha256.Sum256([]byte(name + "\n" + event))
	return "msg_" + hex.EncodeToString(sum[:16])
}

// payload returns what is posted.
func (d *delivery) payload() []byte {
	return []byte(text(struct {
		Type      string       `json:"type"`
		Timestamp string       `json:"timestamp"`
		Data      events.Event `json:"data"`
	}{d.Event.Type, admin.Time(d.Event.At), d.Event}))
}

func (d *delivery) shown(doc persist.Document) admin.Delivery {
	name, key, _ := strings.Cut(doc.Key, "/")
	s := admin.Delivery{
		Key: key, ID: idOf(name, d.Event.ID), State: statePending, Attempts: d.Attempts, Error: d.Error, Event: json.RawMessage(text(d.Event)),
	}
	if d.Last != 0 {
		s.LastAt = admin.Time(d.Last)
	}
	if d.Dead {
		s.State, s.ExpiresAt = stateIsDead, admin.Time(doc.Expires)
	} else {
		s.NextAt = admin.Time(doc.Expires)
	}
	return s
}

// queue has the deliveries of a subscription that this node knows, pending and dead ones, in the
// order of their keys. Its methods are for a caller who holds a lock.
type queue struct {
	list    []*queued
	busy    map[string]bool // the sources of those that are sent now: one of each
	failing bool            // the last attempt failed
	leaving bool            // another node should send
}

// queued is a delivery in a queue.
type queued struct {
	key, source string
	// due is when it is sent or, if it is dead, removed.
	due  int64
	dead bool
	// sending is true while it is sent, and delivered once the receiver has it.
	sending, delivered bool
}

func newQueued(key string, d *delivery, due int64) *queued {
	source, _ := d.Event.Source()
	return &queued{key: key, source: strings.Clone(source), due: due, dead: d.Dead}
}

func (q *queue) find(key string) (int, bool) {
	return slices.BinarySearchFunc(q.list, key, func(w *queued, key string) int { return strings.Compare(w.key, key) })
}

// add adds a delivery, or learns what the store says of one that is not being sent.
func (q *queue) add(w *queued) {
	i, known := q.find(w.key)
	switch {
	case !known:
		q.list = slices.Insert(q.list, i, w)
	case !q.list[i].sending && !q.list[i].delivered:
		q.list[i] = w
	}
}

func (q *queue) remove(key string) {
	if i, known := q.find(key); known {
		q.list = slices.Delete(q.list, i, i+1)
	}
}

// pending returns how many are not dead.
func (q *queue) pending() (n int) {
	for _, w := range q.list {
		if !w.dead {
			n++
		}
	}
	return n
}

// next returns a delivery to send, nil for none. At most most are sent at once, only one while the
// receiver fails, and one of each source: so the events of a source keep their order unless an
// attempt fails.
func (q *queue) next(now int64, most int) *queued {
	if q.leaving || len(q.busy) >= most || q.failing && len(q.busy) > 0 {
		return nil
	}
	for _, w := range q.list {
		if isDue(w.due, now) && !w.dead && !q.busy[w.source] {
			w.sending = true
			if q.busy == nil {
				q.busy = make(map[string]bool)
			}
			q.busy[w.source] = true
			return w
		}
	}
	return nil
}

// sent notes that an attempt is over.
func (q *queue) sent(w *queued) {
	w.sending = false
	delete(q.busy, w.source)
}

// expired returns the dead ones that are to be removed.
func (q *queue) expired(now int64) (list []*queued) {
	for _, w := range q.list {
		if w.dead && w.due <= now {
			list = append(list, w)
		}
	}
	return list
}
