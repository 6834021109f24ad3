package persist

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// EpochPause is how long an unhurried read of an epoch waits for others, unless a query is under way.
// So a query reads many epochs even if it is answered quickly: a node with 10,000 active counters
// rereads thousands a second.
const EpochPause = 50 * time.Millisecond

// unhurried is the key of a context of [Unhurried].
type unhurried struct{}

// Unhurried returns a context for a read of an epoch that nobody waits for yet. [Epochs] may delay it
// by [EpochPause], to read more epochs with one query.
func Unhurried(ctx context.Context) context.Context { return context.WithValue(ctx, unhurried{}, true) }

// mostEpochs is how many counters one query reads the epochs of, so that its answer stays small.
const mostEpochs = 1000

// Epochs reads the epochs of counters for a driver with a server. A node rereads those of all its
// active counters every few seconds. So one query is under way at a time, and the callers that
// arrive meanwhile share the next ones. It is safe for concurrent use.
type Epochs struct {
	find func(ctx context.Context, bizTags []string) (map[string]FoundEpoch, error)

	mu      sync.Mutex    // guards the fields below
	forming []*epochQuery // not yet sent; all except the last are full
	running bool          // send runs
	timer   *time.Timer   // begins to send after a pause; nil if no read waits for that
}

// FoundEpoch is the epoch of one counter, or why its record cannot be read.
type FoundEpoch struct {
	Epoch string
	Err   error
}

// NewEpochs returns a reader. find reads the epochs of some counters in one query, which it bounds
// in time; it leaves out counters that do not exist.
func NewEpochs(find func(ctx context.Context, bizTags []string) (map[string]FoundEpoch, error)) *Epochs {
	return &Epochs{find: find}
}

// epochQuery is callers that share a query.
type epochQuery struct {
	bizTags []string
	done    chan struct{} // closed when found and err are set
	found   map[string]FoundEpoch
	err     error
}

// Read returns the epoch of a counter, by a query that is sent after the call began, or
// ErrNotFound.
func (e *Epochs) Read(ctx context.Context, bizTag string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	q := e.join(bizTag, ctx.Value(unhurried{}) != nil)
	select {
	case <-q.done:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if q.err != nil {
		return "", fmt.Errorf("%q: %w", bizTag, q.err)
	}
	found, ok := q.found[bizTag]
	if !ok {
		return "", fmt.Errorf("%q: %w", bizTag, ErrNotFound)
	}
	return found.Epoch, found.Err
}

// join adds a counter to the query that is forming.
func (e *Epochs) join(bizTag string, mayWait bool) *epochQuery {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.forming); n == 0 || len(e.forming[n-1].bizTags) == mostEpochs {
		e.forming = append(e.forming, &epochQuery{done: make(chan struct{})})
	}
	q := e.forming[len(e.forming)-1]
	q.bizTags = append(q.bizTags, bizTag)
	switch {
	case e.running:
	case !mayWait || len(q.bizTags) == mostEpochs:
		e.begin()
	case e.timer == nil:
		e.timer = time.AfterFunc(EpochPause, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.begin()
		})
	}
	return q
}

// begin begins to send what is forming. mu is held.
func (e *Epochs) begin() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if !e.running {
		e.running = true
		go e.send()
	}
}

// send sends query after query until none is forming.
func (e *Epochs) send() {
	for {
		e.mu.Lock()
		if len(e.forming) == 0 {
			e.running = false
			e.mu.Unlock()
			return
		}
		q := e.forming[0]
		e.forming = e.forming[1:]
		e.mu.Unlock()
		q.found, q.err = safely(func() (map[string]FoundEpoch, error) { return e.find(context.Background(), q.bizTags) })
		close(q.done)
	}
}
