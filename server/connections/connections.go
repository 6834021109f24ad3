// Package connections decides which connections of callers stay open when there are many, for all
// protocols together.
//
// A caller that says nothing must not keep others out. So a connection is a stranger until a
// request on it shows who calls; on a node that asks for no token, until a request may be made. A
// stranger is closed after [Options].Patience without an answered request. If all places are taken,
// a new connection takes the place of the one that has gone longest without an answered request: of
// a stranger if strangers have an eighth of the places, and else of one that is known. So silent
// connections drive out each other, however many there are, and new callers always have an eighth
// of the places to say who they are. There is no bound for an address: those behind a balancer
// share one.
//
// A known connection whose request is being answered is never closed. If there is no other to
// close, a new connection gets one of a few spare places, in which only probes are answered: an
// orchestrator that gets no answer ends the process.
//
// To serve another protocol: [Table.Enter] for each new connection, [Place.Begin] and [Place.End]
// around each request, [Place.Show] before anything is done for a caller who may make it,
// [Place.Leave] when the connection is closed.
package connections

import (
	"container/heap"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// strangersShare is the part of the places that strangers can always have, and known
	// connections crowd when they have more than the others.
	strangersShare = 8
	// spare is how many connections may be open beyond the most.
	spare = 16
	// mostLooks is how many connections are looked at to find one that may be closed.
	mostLooks = 1024
)

// Options are the options of [New].
type Options struct {
	// Most is how many connections may be open at once, without those in spare places; 0 means no
	// limit.
	Most int
	// Patience is how long a stranger stays open without an answered request; 0 means no limit.
	Patience time.Duration
	// Refused counts connections that were closed at once. Silent and Displaced count those that
	// were closed for the lack of patience, and to make room.
	Refused, Silent, Displaced Counter
}

// Counter counts. It is safe for concurrent use.
type Counter interface{ Count() }

// Table has the open connections. It is safe for concurrent use.
type Table struct {
	opts  Options
	most  atomic.Int64
	open  atomic.Int64
	known atomic.Int64

	mu     sync.Mutex // guards what follows, and stamp, place and kind of a Place
	queues [kinds]queue
	armed  bool        // a timer will call expire
	ended  []io.Closer // what unlock closes
}

// kind is a kind of connection.
type kind int

const (
	stranger kind = iota
	spared        // a stranger in a spare place
	known
	kinds
)

// New returns a table without connections.
func New(opts Options) *Table {
	t := &Table{opts: opts}
	t.Limit(opts.Most)
	return t
}

// Limit sets [Options].Most. Connections beyond it stay open until they are closed or displaced.
func (t *Table) Limit(most int) {
	if most == 0 {
		most = math.MaxInt
	}
	t.most.Store(int64(most))
}

// Place is the place of a connection. It is safe for concurrent use. A nil Place is that of a
// connection that nobody counts.
type Place struct {
	table *Table
	conn  io.Closer
	state atomic.Int32
	last  atomic.Int64 // when a request was last answered, or the connection began: nanoseconds since 1970
	shown atomic.Bool  // it is known
	spare bool         // only probes are answered

	kind  kind
	stamp int64 // the last that the queue knows of
	index int   // in its queue
}

// The states of a Place.
const (
	idle int32 = iota
	busy       // a request has arrived, and was not answered yet
	gone       // it has left, or was closed
)

// Enter gives a new connection a place, or returns nil: then the caller closes it. The table may
// close conn at any time, except while a request of a known connection is being answered.
func (t *Table) Enter(conn io.Closer) *Place {
	now := time.Now().UnixNano()
	p := &Place{table: t, conn: conn, stamp: now}
	p.last.Store(now)
	t.mu.Lock()
	defer t.unlock()
	if t.places() >= int(t.most.Load()) && !t.makeRoom(now) {
		p.kind, p.spare = spared, true
		if len(t.queues[spared]) >= spare && !t.displace(spared, now) {
			t.opts.Refused.Count()
			return nil
		}
	}
	t.open.Add(1)
	t.push(p)
	return p
}

// places returns how many places are taken, without spare ones. mu is held.
func (t *Table) places() int { return len(t.queues[stranger]) + len(t.queues[known]) }

// makeRoom ends a connection to make room for a new one. mu is held.
func (t *Table) makeRoom(now int64) bool {
	if len(t.queues[stranger]) >= max(1, int(t.most.Load())/strangersShare) {
		return t.displace(stranger, now)
	}
	return t.displace(known, now) || t.displace(stranger, now)
}

// displace ends the connection of a kind that has gone longest without an answered request. mu is
// held.
func (t *Table) displace(of kind, now int64) bool {
	p := t.queues[of].first(now, of == known)
	if p == nil || !t.end(p, of == known) {
		return false
	}
	t.opts.Displaced.Count()
	return true
}

// end ends a connection, unless it must be idle and a request has just begun. mu is held.
func (t *Table) end(p *Place, ifIdle bool) bool {
	if !p.state.CompareAndSwap(idle, gone) && (ifIdle || !p.state.CompareAndSwap(busy, gone)) {
		return false
	}
	t.remove(p)
	t.ended = append(t.ended, p.conn)
	return true
}

// unlock unlocks mu and closes the connections that have been ended. That waits until nobody reads
// them.
func (t *Table) unlock() {
	ended := t.ended
	t.ended = nil
	t.mu.Unlock()
	for _, c := range ended {
		_ = c.Close()
	}
}

// push adds a connection to the queue of its kind. mu is held.
func (t *Table) push(p *Place) {
	heap.Push(&t.queues[p.kind], p)
	if p.kind == known {
		t.known.Add(1)
	} else if !t.armed && t.opts.Patience > 0 {
		t.armed = true
		time.AfterFunc(t.opts.Patience, t.expire)
	}
}

// remove takes a connection out of its queue, and forgets it. mu is held.
func (t *Table) remove(p *Place) {
	t.open.Add(-1)
	t.pull(p)
}

// pull takes a connection out of its queue. mu is held.
func (t *Table) pull(p *Place) {
	heap.Remove(&t.queues[p.kind], p.index)
	if p.kind == known {
		t.known.Add(-1)
	}
}

// expire ends the strangers that have had no answered request for too long, and arms the next
// timer.
func (t *Table) expire() {
	t.mu.Lock()
	defer t.unlock()
	now, patience := time.Now().UnixNano(), int64(t.opts.Patience)
	next := int64(math.MaxInt64)
	for _, of := range []kind{stranger, spared} {
		for {
			p := t.queues[of].first(now, true)
			if p == nil || p.stamp > now-patience {
				break
			}
			if t.end(p, true) {
				t.opts.Silent.Count()
			}
		}
		if q := t.queues[of]; len(q) > 0 {
			next = min(next, max(q[0].stamp+patience-now, 0))
		}
	}
	if t.armed = next < math.MaxInt64; t.armed {
		time.AfterFunc(time.Duration(next)+1, t.expire)
	}
}

// Open returns how many connections are open.
func (t *Table) Open() int64 { return t.open.Load() }

// Crowded reports whether known connections have more than the places that strangers cannot have.
// Then protocols should end connections that are not needed.
func (t *Table) Crowded() bool {
	most := t.most.Load()
	return t.known.Load() > most-most/strangersShare
}

// Begin says that a request has arrived. It returns false if the connection has been closed: then
// nothing may be done for the request.
func (p *Place) Begin() bool { return p == nil || p.state.CompareAndSwap(idle, busy) }

// Show says that the caller of the request has shown who it is, or need not. From then on the
// connection is known. It returns false if the connection has been closed, as Begin does. In a
// spare place it does nothing.
func (p *Place) Show() bool {
	if p == nil || p.spare || p.shown.Load() {
		return true
	}
	t := p.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.state.Load() == gone {
		return false
	}
	t.pull(p)
	p.kind, p.stamp = known, time.Now().UnixNano()
	t.push(p)
	p.shown.Store(true)
	return true
}

// End says that the request is over. answered is false if the caller might not make it: then it is
// as if there had been none.
func (p *Place) End(answered bool) {
	if p == nil {
		return
	}
	if answered {
		p.last.Store(time.Now().UnixNano())
	}
	p.state.CompareAndSwap(busy, idle)
}

// Spare reports whether only probes may be answered, and the connection should end then.
func (p *Place) Spare() bool { return p != nil && p.spare }

// Leave says that the connection is closed, whoever has closed it. It may be called again.
func (p *Place) Leave() {
	if p == nil {
		return
	}
	p.table.mu.Lock()
	defer p.table.mu.Unlock()
	if p.state.Swap(gone) != gone {
		p.table.remove(p)
	}
}

// queue is a heap of connections in the order of their stamps.
type queue []*Place

var _ heap.Interface = (*queue)(nil)

// Len implements [heap.Interface].
func (q queue) Len() int { return len(q) }

// Less implements [heap.Interface].
func (q queue) Less(i, j int) bool { return q[i].stamp < q[j].stamp }

// Swap implements [heap.Interface].
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements [heap.Interface].
func (q *queue) Push(p any) {
	p.(*Place).index = len(*q)
	*q = append(*q, p.(*Place))
}

// Pop implements [heap.Interface].
func (q *queue) Pop() any {
	last := len(*q) - 1
	p := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return p
}

// first returns the connection that has gone longest without an answered request, and if it must be
// idle is that; nil if it finds none. Stamps are brought up to date here and not by each request.
func (q *queue) first(now int64, mustBeIdle bool) *Place {
	for range min(len(*q)+1, mostLooks) {
		if len(*q) == 0 {
			return nil
		}
		p := (*q)[0]
		last := p.last.Load()
		switch {
		case mustBeIdle && p.state.Load() != idle:
			p.stamp = now
		case last > p.stamp:
			p.stamp = last
		default:
			return p
		}
		heap.Fix(q, 0)
	}
	return nil
}
