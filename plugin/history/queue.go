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

// queue holds at most a fixed number of records until they are written.
type queue struct {
	settings Settings
	now      func() time.Time
	log      *slog.Logger
	first    chan struct{} // has a value if pending is not empty
	full     chan struct{} // has a value if there is a batch in pending, or no room

	closed atomic.Bool // no more records are accepted; set under mu

	mu      sync.Mutex // guards what follows
	pending []queued
	spare   []queued // the memory of the previous pending
	n       uint64   // records ever queued
	written uint64   // records ever written
	// held is the number of records pending or being written, and of places given to waiters: at
	// most settings.Queue.
	held int
	// of chan error, the longest waiting first; a waiter gets nil when it gets a place
	waiters list.List

	dropped  int64 // records dropped so far
	reported int64 // records dropped and logged
	last     time.Time
}

func newQueue(settings Settings, now func() time.Time, log *slog.Logger) queue {
	return queue{settings: settings, now: now, log: log, first: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// errFull is what a request gets if there is no room for its record. The cause is the store, or the
// disk, that does not accept records, so its code is that of the store.
var errFull = &seqd.Error{Code: seqd.CodeStoreUnavailable, Detail: "the history cannot be written, and its queue is full", RetryAfter: time.Second}

// errStopping is what a request gets if the last write has begun or is done: nothing would write
// its record any more.
var errStopping = &seqd.Error{Code: seqd.CodeStopping, Detail: "the history is closed because the service is stopping", RetryAfter: time.Second}

// errDropped is returned by put for a record that is lost under drop. It is no error for the
// request.
var errDropped = errors.New("the record was dropped")

// room returns nil if there is room for a record, which it does not reserve. Under drop it returns
// nil until the queue is closed.
func (q *queue) room(ctx context.Context) error {
	if q.closed.Load() {
		return errStopping
	}
	if q.settings.OnOverflow == Drop {
		return nil
	}
	q.mu.Lock()
	if q.closed.Load() { // before waiting: nobody would end the wait
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

// free reports whether there is a place for a new request. Waiting requests come first. mu is held.
func (q *queue) free() bool { return q.held < q.settings.Queue && q.waiters.Len() == 0 }

// put queues a record, drops it with errDropped, or refuses it. Once the queue is closed it refuses
// under each policy, because the record would certainly be lost.
func (q *queue) put(ctx context.Context, e *queued) error {
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
	if q.closed.Load() { // closed since a place became free
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

// await waits for a place, in turn. mu is held at the call and not at the return.
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
	case err := <-ready: // at the last moment
		q.mu.Unlock()
		return err
	default:
	}
	q.waiters.Remove(place)
	q.mu.Unlock()
	return err
}

// release frees n places and gives them to those who wait.
func (q *queue) release(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held -= n
	for q.held < q.settings.Queue && q.waiters.Len() > 0 {
		q.held++
		q.waiters.Remove(q.waiters.Front()).(chan error) <- nil
	}
}

// wrote frees the places of n records that were written.
func (q *queue) wrote(n int) {
	q.mu.Lock()
	q.written += uint64(n)
	q.mu.Unlock()
	q.release(n)
}

// shut closes the queue. What is in it stays, and waiting and new requests are refused.
func (q *queue) shut() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed.Store(true)
	for q.waiters.Len() > 0 {
		q.waiters.Remove(q.waiters.Front()).(chan error) <- errStopping
	}
}

// reportEvery is the shortest time between two log lines about drops.
const reportEvery = 10 * time.Second

// drop counts a record that is lost. mu is held at the call and not at the return.
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

// report logs drops that were not logged yet. mu is held at the call and not at the return.
func (q *queue) report() {
	fresh, total := q.dropped-q.reported, q.dropped
	q.reported = total
	q.mu.Unlock()
	if fresh > 0 {
		q.log.Error("history: the queue is full, records are dropped", "dropped", fresh, "inAll", total, "queue", q.settings.Queue)
	}
}

// keepRecords is how much memory is kept for the next burst, in records.
const keepRecords = 4096

// take returns what is pending, which belongs to the caller until the next take.
func (q *queue) take() []queued {
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
func (q *queue) giveBack(taken []queued) {
	clear(taken)
	if cap(taken) > keepRecords {
		return
	}
	q.mu.Lock()
	q.spare = taken[:0]
	q.mu.Unlock()
}

// depth returns how many places are taken.
func (q *queue) depth() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// left returns how many records are not written.
func (q *queue) left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int(q.n - q.written)
}
