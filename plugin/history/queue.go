package history

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seqd/seqd"
)

// queue holds records until they are written, never more than its bound.
type queue struct {
	settings Settings
	now      func() time.Time
	log      *slog.Logger
	first    chan struct{} // has a token when pending is not empty
	full     chan struct{} // has a token when there is a batch in pending, or no room

	closed atomic.Bool // nothing more is taken over; set under mu

	mu      sync.Mutex // guards what follows
	pending []entry
	spare   []entry // what pending was before, for its memory
	n       uint64  // records ever put
	written uint64  // how many of them were written
	// held is how many records there are, pending or being written, with the places that waiters
	// were given: at most settings.Queue.
	held int
	// of chan error, the longest waiting first; they get nil when a place is theirs
	waiters list.List

	dropped  int64 // records that were dropped in all
	reported int64 // how many of them were logged
	last     time.Time
}

func newQueue(settings Settings, now func() time.Time, log *slog.Logger) queue {
	return queue{settings: settings, now: now, log: log, first: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// errFull is what a request gets that there is no room for. The store, or the disk, that takes no
// records is the cause, and what an operator has to look at.
var errFull = &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the history cannot be written, and its queue is full", RetryAfter: time.Second}

// errStopping is what a request gets when the last write is about to begin, or is done: nothing
// would write its record any more.
var errStopping = &seqd.Error{Code: seqd.CodeStopping, Detail: "the history is closed, since the service stops", RetryAfter: time.Second}

// errDropped is what put returns for a record that is lost under drop, which is no error for the
// request.
var errDropped = errors.New("the record was dropped")

// room returns nil when there is room for a record, which nobody keeps for the caller, and under
// drop in any case until the queue is closed.
func (q *queue) room(ctx context.Context) error {
	if q.closed.Load() {
		return errStopping
	}
	if q.settings.OnOverflow == Drop {
		return nil
	}
	q.mu.Lock()
	if q.closed.Load() { // before any wait: nobody would end it
		q.mu.Unlock()
		return errStopping
	}
	if q.free() {
		q.mu.Unlock()
		return nil
	}
	if q.settings.OnOverflow == Reject {
		q.mu.Unlock()
		return errFull
	}
	if err := q.await(ctx); err != nil {
		return err
	}
	q.release(1)
	return nil
}

// free reports whether there is a place for somebody who comes now: those who wait are first. mu is
// held.
func (q *queue) free() bool { return q.held < q.settings.Queue && q.waiters.Len() == 0 }

// put takes over a record, drops it with errDropped, or refuses it: under each policy once the
// queue is closed, for then it would be lost for certain.
func (q *queue) put(ctx context.Context, e *entry) error {
	q.mu.Lock()
	switch {
	case q.closed.Load():
		q.mu.Unlock()
		return errStopping
	case q.free():
		q.held++
	case q.settings.OnOverflow == Drop:
		q.drop()
		return errDropped
	case q.settings.OnOverflow == Reject:
		q.mu.Unlock()
		return errFull
	default:
		if err := q.await(ctx); err != nil {
			return err
		}
		q.mu.Lock()
	}
	defer q.mu.Unlock()
	if q.closed.Load() { // between a place that became free and now
		q.held--
		return errStopping
	}
	// Under the lock, so that records are written in the order of their times.
	e.time, e.n = q.now().UnixMilli(), q.n
	q.n++
	q.pending = append(q.pending, *e)
	if len(q.pending) == 1 {
		signal(q.first)
	}
	if len(q.pending) >= q.settings.Batch || q.held >= q.settings.Queue {
		signal(q.full)
	}
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// await waits for a place, in turn. mu is held when it is called and not when it returns.
func (q *queue) await(ctx context.Context) error {
	ready := make(chan error, 1)
	place := q.waiters.PushBack(ready)
	q.mu.Unlock()
	patience := time.NewTimer(q.settings.BlockTimeout)
	defer patience.Stop()
	var err error
	select {
	case err := <-ready:
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-patience.C:
		err = errFull
	}
	q.mu.Lock()
	select {
	case err := <-ready: // in the last moment
		q.mu.Unlock()
		return err
	default:
	}
	q.waiters.Remove(place)
	q.mu.Unlock()
	return err
}

// release gives up n places; those who wait get them.
func (q *queue) release(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held -= n
	for q.held < q.settings.Queue && q.waiters.Len() > 0 {
		q.held++
		q.waiters.Remove(q.waiters.Front()).(chan error) <- nil
	}
}

// wrote gives up the places of n records that are written.
func (q *queue) wrote(n int) {
	q.mu.Lock()
	q.written += uint64(n)
	q.mu.Unlock()
	q.release(n)
}

// shut closes the queue: what is in it stays, and who waits or comes is refused.
func (q *queue) shut() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed.Store(true)
	for q.waiters.Len() > 0 {
		q.waiters.Remove(q.waiters.Front()).(chan error) <- errStopping
	}
}

// reportEvery is how often drops are logged at most.
const reportEvery = 10 * time.Second

// drop counts a record that is lost. mu is held when it is called and not when it returns.
func (q *queue) drop() {
	q.dropped++
	now := q.now()
	if now.Sub(q.last).Abs() < reportEvery {
		q.mu.Unlock()
		return
	}
	q.last = now
	q.report()
}

// report logs drops that were not logged yet. mu is held when it is called and not when it returns.
func (q *queue) report() {
	fresh, total := q.dropped-q.reported, q.dropped
	q.reported = total
	q.mu.Unlock()
	if fresh > 0 {
		q.log.Error("history: the queue is full, records are dropped", "dropped", fresh, "inAll", total, "queue", q.settings.Queue)
	}
}

// keepEntries is how much memory is kept for the next burst, in records.
const keepEntries = 4096

// take returns what is pending, which is the caller's until the next take.
func (q *queue) take() []entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range []chan struct{}{q.first, q.full} {
		select {
		case <-c:
		default:
		}
	}
	taken := q.pending
	q.pending, q.spare = q.spare[:0], nil
	return taken
}

// giveBack returns the memory of what was taken.
func (q *queue) giveBack(taken []entry) {
	clear(taken)
	if cap(taken) > keepEntries {
		return
	}
	q.mu.Lock()
	q.spare = taken[:0]
	q.mu.Unlock()
}

// depth is how many places are taken.
func (q *queue) depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// left is how many records are not written.
func (q *queue) left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.n - q.written)
}
