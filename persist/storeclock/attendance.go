package storeclock

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/seqd/seqd/persist"
)

// Attendance says since when there has always been a node that could use the store. Nothing expires
// by a time at which no node could have served its owner.
//
// All nodes that share a store share one document. Each looks at it every 5 s, and writes that it
// is there unless another node has just done so. It is safe for concurrent use.
type Attendance struct {
	documents persist.Documents
	clock     *Clock
	needed    chan struct{}

	mu    sync.Mutex // guards what follows
	since int64      // in ms since the Unix epoch
	seen  int64      // when this node knew that last, 0 for never
}

// BeatPause is how often [Attendance.Beat] should be called.
const BeatPause = 5 * time.Second

const (
	// absence is how long nobody must have been there for it to count.
	absence = 15 * time.Second
	// fresh is how old the last beat of any node must be for a node to write its own.
	fresh = BeatPause / 2
	// attendanceKey is the key of the document.
	attendanceKey = "nodes"
)

// beat is the body of the document, with times in ms since the Unix epoch.
type beat struct {
	Since int64 `json:"since"`
	Last  int64 `json:"last"`
}

// NewAttendance returns what documents say of attendance. It does no I/O.
func NewAttendance(documents persist.Documents, clock *Clock) *Attendance {
	return &Attendance{documents: documents, clock: clock, needed: make(chan struct{})}
}

// Need says that something in this process depends on attendance. Before that nobody has to call
// Beat. It does nothing on a nil Attendance.
func (a *Attendance) Need() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.needed:
	default:
		close(a.needed)
	}
}

// Needed returns a channel that is closed when Need was called.
func (a *Attendance) Needed() <-chan struct{} { return a.needed }

// Since returns since when nodes have been there, in ms since the Unix epoch: now if this node does
// not know it. now is the store's time. It does no I/O. A nil Attendance returns 0.
func (a *Attendance) Since(now int64) int64 {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == 0 || apart(now, a.seen) {
		return now
	}
	return a.since
}

// apart reports whether two times are so far from each other that nobody was there in between, or
// that a clock was set.
func apart(one, other int64) bool {
	d := one - other
	return d > absence.Milliseconds() || -d > absence.Milliseconds()
}

// Beat says that this node is there, and learns since when others were. It reads the store's clock
// first.
func (a *Attendance) Beat(ctx context.Context) error {
	if err := a.clock.Ask(ctx); err != nil {
		return err
	}
	for range 3 {
		now, err := a.clock.Now(ctx)
		if err != nil {
			return err
		}
		since, err := a.tell(ctx, now)
		if err == nil {
			a.notice(since, now)
			return nil
		}
		if !persist.Overtaken(err) {
			return err
		}
	}
	return nil // others are there; what this node knew before ages
}

// notice notes since when nodes have been there. If that has changed, each older reservation has
// its whole time again, so Forward is no longer needed. The first look of a process counts as a
// change.
func (a *Attendance) notice(since, now int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if since != a.since {
		a.clock.forget()
	}
	a.since, a.seen = since, now
}

// tell writes that somebody was there now, unless another node just did. It returns since when.
func (a *Attendance) tell(ctx context.Context, now int64) (since int64, err error) {
	doc, err := a.documents.Read(ctx, persist.BeatKind, attendanceKey)
	if errors.Is(err, persist.ErrNotFound) {
		return now, a.documents.Create(ctx, said(1, beat{now, now}))
	}
	if err != nil {
		return 0, err
	}
	var known beat
	switch err := json.Unmarshal([]byte(doc.Body), &known); {
	case err != nil || apart(now, known.Last):
		known.Since = now
	case now-known.Last < fresh.Milliseconds():
		return known.Since, nil
	}
	known.Last = now
	return known.Since, a.documents.Update(ctx, said(doc.Revision+1, known))
}

func said(revision int64, b beat) persist.Document {
	body, _ := json.Marshal(b) // two numbers never fail
	return persist.Document{Kind: persist.BeatKind, Key: attendanceKey, Revision: revision, Body: string(body), Timestamp: b.Last}
}
